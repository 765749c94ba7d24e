"""What a PulsarConsumer's handler brings into its Pods, and what is said of one that is not there."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from kindling.kinds.base import SyncResult
from kindling.kinds.conditions import find_condition
from kindling.kinds.pulsarconsumer import PulsarConsumer, handler, traces
from kindling.kube.resources import CONFIG_MAP, Object, Ref
from pulsar_consumer import python_handler
from pulsar_consumer.schema import Schema
from pulsar_consumer.settings import Consumer, Http, Python

from tests.unit.operator.pulsarconsumers import KIND, LONG_AGO, consumer, observed, pod, rolled_out

CODE = Ref(CONFIG_MAP, "ns", "code")
PYTHON = {"python": {"configMapRef": {"name": "code"}, "handler": "orders:handle"}}
ONE_KEY = {"python": {"configMapRef": {"name": "code", "key": "a.txt"}, "handler": "orders:handle"}}
FILES = {"orders.py": "def handle(message): ...", "other.py": "x = 1"}


def config_map(data: dict[str, str] | None = None, **more: Any) -> dict[Ref, Object]:
    found = {"metadata": {"uid": "c"}, "data": FILES if data is None else data, **more}
    return {CODE: found}


def variables_of(cr: Object, known: dict[Ref, Object] | None = None) -> dict[str, str]:
    """The variables of the consumers."""
    [_, workload] = KIND.desired(cr, observed(known or {}))
    [container] = workload.body["spec"]["template"]["spec"]["containers"]
    return {item["name"]: item["value"] for item in container["env"]}


def test_without_a_handler_nothing_is_read_watched_or_mounted() -> None:
    cr = consumer()
    assert (KIND.config_maps(cr), handler.mounts(cr), handler.volumes(cr)) == ([], [], [])
    assert not any(name.startswith("PULSAR_HANDLER") for name in variables_of(cr))


def test_the_config_map_is_looked_at_and_no_other() -> None:
    cr = consumer(handler=PYTHON)
    assert KIND.config_maps(cr) == ["code"]
    [watched] = KIND.watched_objects(cr)
    assert (watched.type, watched.name, watched.namespace) == (CONFIG_MAP, "code", "ns")


@pytest.mark.parametrize(
    ("of", "known", "words"),
    [
        (PYTHON, {}, ["'code'", "spec.handler.python.configMapRef", "not in namespace 'ns'", "create it"]),
        (PYTHON, config_map({"other.py": ""}), ["no key 'orders.py'"]),
        (PYTHON, config_map({}), ["no key 'orders.py'"]),
        (PYTHON, {CODE: {"metadata": {"uid": "c"}, "data": None}}, ["no key 'orders.py'"]),
        (ONE_KEY, config_map(), ["no key 'a.txt'"]),
    ],
)
def test_missing_code_is_reported_by_name(of: Object, known: dict[Ref, Object], words: list[str]) -> None:
    problem = KIND.validate(consumer(handler=of), observed(known))
    assert problem is not None
    assert problem.reason == "ConfigMapNotFound"
    assert [word for word in words if word not in problem.message] == []


@pytest.mark.parametrize(
    ("of", "known", "files"),
    [
        (PYTHON, config_map(), {name: text.encode() for name, text in FILES.items()}),
        (ONE_KEY, config_map({"a.txt": "x", "b": "y"}), {"orders.py": b"x"}),
        (
            PYTHON,
            config_map({"orders.py": "ü"}, binaryData={"z.bin": base64.b64encode(b"\xff").decode()}),
            {"orders.py": "ü".encode(), "z.bin": b"\xff"},
        ),
    ],
)
def test_consumers_compute_the_same_hash_of_what_they_have(
    of: Object, known: dict[Ref, Object], files: dict[str, bytes]
) -> None:
    cr = consumer(handler=of)
    assert KIND.validate(cr, observed(known)) is None
    assert variables_of(cr, known)["PULSAR_HANDLER_HASH"] == python_handler.digest(files)


def test_changed_code_rolls_the_pods_and_another_order_of_keys_does_not() -> None:
    cr = consumer(handler=PYTHON)

    def template(data: dict[str, str]) -> Object:
        [_, workload] = KIND.desired(cr, observed(config_map(data)))
        found: Object = workload.body["spec"]["template"]
        return found

    assert template(FILES) == template(dict(reversed(FILES.items())))
    assert template(FILES) != template({**FILES, "other.py": "x = 2"})
    # Not where it could be taken for another split of the same bytes.
    assert template({"orders.py": "ab", "x": "c"}) != template({"orders.py": "a", "x": "bc"})


@pytest.mark.parametrize(
    ("of", "wanted"),
    [
        (PYTHON, Python),
        (ONE_KEY, Python),
        ({"http": {"url": "http://orders.shop"}}, Http),
        ({"http": {"url": "https://[::1]:8443/", "path": "/a$b"}}, Http),
        ({"http": {"serviceRef": {"name": "orders", "port": 8000}, "path": "/a"}}, Http),
    ],
)
def test_consumers_read_their_settings(of: Object, wanted: type) -> None:
    cr = consumer(
        handler=of,
        retry={"maxDeliveries": 7, "backoff": {"initialSeconds": 2, "factor": 3, "maxSeconds": 9}},
        deadLetter={"topic": "dead"},
        output={"topic": "done"},
    )
    known = config_map({**FILES, "a.txt": "x"})
    variables = {name: value.replace("$$", "$") for name, value in variables_of(cr, known).items()}
    found = Consumer.load(variables).handling
    assert found is not None
    assert isinstance(found.handler, wanted)
    assert (found.max_deliveries, found.output_topic, found.dead_letter_topic) == (7, "done", "dead")
    assert found.keep_dead_letters
    assert [found.backoff_seconds(failures) for failures in (1, 2, 3)] == [2, 6, 9]
    if isinstance(found.handler, Http):
        assert found.handler.url in (
            "http://orders.shop/",
            "https://[::1]:8443/a$b",
            "http://orders.ns.svc:8000/a",
        )


def test_dead_letters_that_others_read_are_not_kept() -> None:
    cr = consumer(handler=PYTHON, deadLetter={"topic": "dead", "keep": False})
    found = Consumer.load(variables_of(cr, config_map(FILES))).handling
    assert found is not None
    assert not found.keep_dead_letters


def test_without_a_schema_the_children_are_as_they_were() -> None:
    """Or every consumer would be replaced by an upgrade."""
    for of in ({"handler": PYTHON}, {"handler": {"http": {"url": "http://a"}}}, {}):
        known = observed(config_map())
        assert KIND.desired(consumer(**of, schema=None), known) == KIND.desired(consumer(**of), known)
        assert not any(
            name.startswith("PULSAR_SCHEMA") for name in variables_of(consumer(**of), config_map())
        )


@pytest.mark.parametrize("definition", [None, {"type": "record", "name": "$(A)$$", "fields": []}])
def test_consumers_read_the_schema_as_it_was_written(definition: Object | None) -> None:
    """Kubernetes puts variables' values in place of $(NAME), which a definition may have."""
    given = {"type": "Avro"} if definition is None else {"type": "Avro", "definition": json.dumps(definition)}
    cr = consumer(handler=PYTHON, schema=given)
    variables = {name: value.replace("$$", "$") for name, value in variables_of(cr, config_map()).items()}
    found = Consumer.load(variables).handling
    assert found is not None
    assert found.schema == Schema(type="Avro", definition=definition)


def test_broken_code_is_reported_and_the_old_consumers_go_on() -> None:
    """What the cluster shows while a new version does not start: the old Pod is ready, the new one is not."""
    line = "HandlerUnavailable: orders.py cannot be imported: SyntaxError: invalid syntax (orders.py, line 1)"
    broken = pod(name="new", ready=False, waiting="CrashLoopBackOff", said=line)
    counts = {"replicas": 2, "updatedReplicas": 1}
    known = {**rolled_out(1, **counts), **pod(name="old"), **broken, **config_map()}
    status = KIND.status(consumer(handler=PYTHON), observed(known), SyncResult(in_sync=True)).status
    ready, available = (find_condition(status, name) for name in ("Ready", "Available"))
    assert (ready["status"], ready["reason"]) == ("False", "HandlerUnavailable")
    assert "SyntaxError: invalid syntax (orders.py, line 1)." in ready["message"]
    assert available["status"] == "True"
    [_, workload] = KIND.desired(consumer(handler=PYTHON), observed(known))
    assert workload.body["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0


def test_handler_that_fails_on_every_message_is_reported_until_a_success() -> None:
    """The container that was started again is connected and unready; the Pod has why the one before ended."""
    line = "HandlerFailing: 12 failures and no success in 61 s, the last with ValueError of message 5:0:-1"
    known = {**rolled_out(1, available=0), **pod(ready=False, said=line), **config_map()}
    status = KIND.status(consumer(handler=PYTHON), observed(known), SyncResult(in_sync=True)).status
    ready = find_condition(status, "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "HandlerFailing")
    assert "ValueError of message 5:0:-1." in ready["message"]
    handled = {**rolled_out(1), **pod(said=line), **config_map()}
    status = KIND.status(consumer(handler=PYTHON), observed(handled), SyncResult(in_sync=True)).status
    assert find_condition(status, "Ready")["reason"] == "Connected"


CONTAINER = {"container": {"image": "registry.example/orders:1", "command": ["/orders"], "args": ["-v"]}}


def pod_of(cr: Object) -> Object:
    [_, workload] = KIND.desired(cr, observed({}))
    found: Object = workload.body["spec"]["template"]["spec"]
    return found


def named(items: list[Object], name: str) -> Object:
    [found] = [item for item in items if item["name"] == name]
    return found


def test_a_container_is_there_before_the_consumer_and_until_it_has_ended() -> None:
    """As a sidecar that starts first, and is stopped once the consumer's container has ended."""
    spec = pod_of(consumer(handler=CONTAINER))
    own = named(spec["initContainers"], "handler")
    assert (own["image"], own["command"], own["args"]) == ("registry.example/orders:1", ["/orders"], ["-v"])
    assert own["restartPolicy"] == "Always"
    assert own["securityContext"]["readOnlyRootFilesystem"]
    [main] = spec["containers"]
    mount = named(own["volumeMounts"], "handler-socket")
    assert mount in main["volumeMounts"]
    assert named(spec["volumes"], "handler-socket")["emptyDir"] == {}
    assert named(own["volumeMounts"], "handler-tmp")["mountPath"] == "/tmp"
    found = Consumer.load({item["name"]: item["value"] for item in main["env"]}).handling
    assert found is not None
    assert isinstance(found.handler, Http)
    assert found.handler.beside
    assert str(found.handler.socket) == named(own["env"], "PULSAR_HANDLER_SOCKET")["value"]
    assert str(found.handler.socket).startswith(mount["mountPath"])


def test_a_container_may_listen_at_a_port() -> None:
    cr = consumer(handler={"container": {"image": "i", "port": 9000, "path": "/a", "concurrency": 3}})
    spec = pod_of(cr)
    own = named(spec["initContainers"], "handler")
    assert named(own["env"], "PULSAR_HANDLER_PORT")["value"] == "9000"
    assert not any(volume["name"] == "handler-socket" for volume in spec["volumes"])
    assert not any(item["name"] == "PULSAR_HANDLER_SOCKET" for item in own["env"])
    assert "command" not in own, "the image's own"
    found = Consumer.load(variables_of(cr)).handling
    assert found is not None
    assert isinstance(found.handler, Http)
    assert (found.handler.url, found.handler.socket) == ("http://127.0.0.1:9000/a", None)
    assert found.concurrency == 3


def test_variables_and_resources_are_the_containers() -> None:
    env = [{"name": "DB", "valueFrom": {"secretKeyRef": {"name": "db", "key": "uri"}}}]
    resources = {"requests": {"memory": "1Gi"}, "limits": {"memory": "2Gi"}}
    spec = pod_of(consumer(handler=CONTAINER, env=env, resources=resources))
    [main] = spec["containers"]
    own = named(spec["initContainers"], "handler")
    assert env[0] in own["env"]
    assert env[0] not in main["env"], "the consumer has no use for it"
    assert own["resources"]["limits"]["memory"] == "2Gi"
    assert main["resources"]["limits"]["memory"] == "256Mi"


def test_the_consumer_beside_a_container_traces_with_its_variables() -> None:
    """Those of OpenTelemetry, and before each those that its value refers to, as Kubernetes has it."""
    header = {"name": "OTEL_EXPORTER_OTLP_HEADERS", "value": "authorization=$(SCHEME) $(TOKEN)"}
    endpoint = {"name": "OTEL_EXPORTER_OTLP_ENDPOINT", "value": "http://collector:4318"}
    token = {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "otlp", "key": "token"}}}
    scheme, kind = {"name": "SCHEME", "value": "$(KIND)"}, {"name": "KIND", "value": "Bearer"}
    later, other = {"name": "KIND", "value": "later"}, {"name": "DB", "value": "$(TOKEN)"}
    env = [endpoint, other, kind, scheme, token, header]
    spec = pod_of(consumer(handler=CONTAINER, env=env))
    [main] = spec["containers"]
    assert main["env"][-5:] == [endpoint, kind, scheme, token, header]
    assert other not in main["env"]
    assert named(spec["initContainers"], "handler")["env"][-6:] == env
    assert later not in traces.beside([header, later]), "what comes after is not put in"
    own = {item["name"]: item.get("value") for item in main["env"]}
    assert (own["PULSAR_CONSUMER_NAME"], own["PULSAR_CONSUMER_NAMESPACE"]) == ("printer", "ns")


def test_a_consumer_that_traces_knows_whose_messages_they_are() -> None:
    plain, endpoint = {"name": "A", "value": "1"}, {"name": "OTEL_TRACES_EXPORTER", "value": "otlp"}
    for env, traced in (([plain], False), ([plain, endpoint], True)):
        [main] = pod_of(consumer(env=env))["containers"]
        names = [item["name"] for item in main["env"]]
        assert main["env"][-len(env) :] == env
        assert ("PULSAR_CONSUMER_NAME" in names, "PULSAR_CONSUMER_NAMESPACE" in names) == (traced, traced)


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ({"terminated": {"exitCode": 137}}, "Reconciling"),
        ({"waiting": {"reason": "CrashLoopBackOff"}}, "CrashLoopBackOff"),
        ({"waiting": {"reason": "ImagePullBackOff"}}, "ImagePullFailed"),
    ],
)
def test_a_container_that_does_not_run_is_no_brokers_fault(state: Object, reason: str) -> None:
    """The consumer is connected all the while, and has been for long."""
    own = {"name": "handler", "image": "registry.example/orders:1", "state": state}
    main = {"name": "consumer", "ready": True, "state": {"running": {"startedAt": LONG_AGO}}}
    found = pod(ready=False, containerStatuses=[main], initContainerStatuses=[own])
    known = {**rolled_out(1, available=0), **found}
    status = KIND.status(consumer(handler=CONTAINER), observed(known), SyncResult(in_sync=True)).status
    ready = find_condition(status, "Ready")
    assert ready["reason"] == reason
    if reason == "CrashLoopBackOff":
        assert "-c handler --previous" in ready["message"]


def test_both_images_are_pulled_with_the_secrets_of_both() -> None:
    kind = PulsarConsumer(image="registry.example/consumer:1", pull_secrets=["ours"])
    cr = consumer(handler=CONTAINER, imagePullSecrets=[{"name": "theirs"}])
    [_, workload] = kind.desired(cr, observed({}))
    assert workload.body["spec"]["template"]["spec"]["imagePullSecrets"] == [
        {"name": "theirs"},
        {"name": "ours"},
    ]
