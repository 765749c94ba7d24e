"""PulsarConsumer as its users meet it: a real broker, real messages, and each of them printed."""

from __future__ import annotations

import json
import os
import re
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import yaml

from tests.cluster.claims.pulsarconsumer import stats
from tests.cluster.stack import ROOT, Environment, within

KIND = "pulsarconsumers.pulsar.pulsarconsumer.krvarma.com"
SAMPLE = "pulsarconsumer-sample-1"
BROKER = "pulsar://pulsar.pulsar.svc:6650"
ADMIN = "http://pulsar.pulsar.svc:8080"
LINE = re.compile(r"\(\d+,\d+,-?\d+,-?\d+\) (.*)")
GUIDE = ROOT / "docs" / "guides" / "pulsarconsumer.md"


def wait_ready(environment: Environment, name: str, *, reason: str = "") -> None:
    """Until Ready is True; or, with a reason, until it has that one."""
    path = '{.status.conditions[?(@.type=="Ready")].reason}'
    until = f"--for=jsonpath={path}={reason}" if reason else "--for=condition=Ready"
    environment.kubectl("wait", until, f"{KIND}/{name}", "--timeout=120s")


def pods(environment: Environment, name: str) -> list[str]:
    """The resource's Pods that are not on their way out."""
    found = environment.get("pods", "-l", f"app.kubernetes.io/instance={name}")["items"]
    return [pod["metadata"]["name"] for pod in found if "deletionTimestamp" not in pod["metadata"]]


def messages(log: str) -> list[str]:
    return [found[1] for line in log.splitlines() if (found := LINE.fullmatch(line))]


def printed(environment: Environment, pod: str) -> list[str]:
    return messages(environment.kubectl("logs", pod, "-c", "consumer", "--tail=-1"))


def produce(
    environment: Environment, *, topic: str, count: int, message: str = "hello", seconds: int = 240
) -> None:
    """Send `hello 1`, `hello 2`, … by the Job that the guide prints, and wait until the broker has them."""
    blocks = re.findall(r"```yaml\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    [block] = [found for found in blocks if "kind: Job" in found]
    image = environment.get("deployment", f"{SAMPLE}-deployment")["spec"]["template"]["spec"]["containers"][
        0
    ]["image"]
    job = yaml.safe_load(block.replace("IMAGE", image))
    job["metadata"]["name"] = f"producer-{os.urandom(3).hex()}"
    env = {item["name"]: item for item in job["spec"]["template"]["spec"]["containers"][0]["env"]}
    assert env["PULSAR_SERVER"]["value"] == BROKER
    env["PULSAR_TOPIC"]["value"] = topic
    env["PULSAR_COUNT"]["value"] = str(count)
    env["PULSAR_MESSAGE"]["value"] = message
    environment.kubectl("apply", "-f", "-", stdin=json.dumps(job))
    name = f"job/{job['metadata']['name']}"
    wait = ("wait", "--for=condition=complete", name, f"--timeout={seconds}s")
    environment.kubectl(*wait, timeout=seconds + 60)
    environment.kubectl("delete", name, "--wait=false")


Make = Callable[..., str]


@pytest.fixture
def make(environment: Environment) -> Iterator[Make]:
    """Makes a resource with these fields laid over a sound spec, of a topic of its own; returns its name."""
    made: list[str] = []

    def _make(**spec: Any) -> str:
        name = f"consumer-{os.urandom(3).hex()}"
        sound = {
            "serverAddress": BROKER,
            "topic": name,
            "subscriptionName": "printers",
            "replicas": 1,
            "initialPosition": "Earliest",
        }
        resource = {
            "apiVersion": "pulsar.pulsarconsumer.krvarma.com/v1",
            "kind": "PulsarConsumer",
            "metadata": {"name": name},
            "spec": {**sound, **spec},
        }
        environment.kubectl("apply", "-f", "-", stdin=json.dumps(resource))
        made.append(name)
        return name

    yield _make
    for name in made:
        environment.kubectl("delete", f"{KIND}/{name}", "--wait=false", "--ignore-not-found")


def edit(environment: Environment, name: str, **spec: Any) -> None:
    environment.kubectl("patch", f"{KIND}/{name}", "--type=merge", "-p", json.dumps({"spec": spec}))


@pytest.fixture
def put(environment: Environment) -> Iterator[Callable[[str], str]]:
    """Writes a ConfigMap with this code as orders.py, under a name that is returned, or changes that one."""
    made: list[str] = []

    def _put(code: str, name: str = "") -> str:
        name = name or f"code-{os.urandom(3).hex()}"
        data = {"orders.py": textwrap.dedent(code)}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
        environment.kubectl("apply", "-f", "-", stdin=json.dumps(body))
        made.append(name)
        return name

    yield _put
    for name in set(made):
        environment.kubectl("delete", "configmap", name, "--wait=false")


def python(config_map: str, **more: Any) -> dict[str, Any]:
    """`spec.handler` for that code."""
    return {"python": {"configMapRef": {"name": config_map}, "handler": "orders:handle", **more}}


def log(environment: Environment, name: str) -> str:
    """All that the resource's Pods print now."""
    found = (
        environment.kubectl("logs", pod, "-c", "consumer", "--tail=-1") for pod in pods(environment, name)
    )
    return "\n".join(found)


def test_sample_is_ready_verbatim_and_consumes_from_the_broker_it_calls_localhost(
    environment: Environment,
) -> None:
    wait_ready(environment, SAMPLE)
    resource = environment.get(f"{KIND}/{SAMPLE}")
    status = resource["status"]
    assert status["server"] == resource["spec"]["serverAddress"] == "pulsar://localhost:6650"
    assert (status["topic"], status["subscription"], status["replicas"]) == (
        "my-topic",
        "first-subscription",
        1,
    )
    assert status["observedGeneration"] == resource["metadata"]["generation"]
    [pod] = pods(environment, SAMPLE)
    word = os.urandom(6).hex()
    environment.kubectl(
        "exec", pod, "-c", "consumer", "--",
        "env", f"PULSAR_MESSAGE={word}", "python3", "-m", "pulsar_consumer.producer",
    )  # fmt: skip
    within(120, lambda: printed(environment, pod).count(word) == 1)


def test_thousand_messages_are_printed_once_each(environment: Environment, make: Make) -> None:
    name = make(replicas=2)
    wait_ready(environment, name)
    produce(environment, topic=name, count=1000)
    wanted = Counter(f"hello {number}" for number in range(1, 1001))

    def seen() -> Counter[str]:
        return Counter(word for pod in pods(environment, name) for word in printed(environment, pod))

    within(120, lambda: seen().total() >= 1000)
    time.sleep(2)  # For what might come twice.
    assert seen() == wanted


def test_stopped_pod_loses_nothing_and_leaves_nothing_to_be_printed_twice(
    environment: Environment, make: Make
) -> None:
    """In the middle of so many that the sending outlasts the stop."""
    count = 10_000
    name = make()
    wait_ready(environment, name)
    [first] = pods(environment, name)
    with ThreadPoolExecutor() as pool:
        followed = pool.submit(
            environment.kubectl, "logs", "--follow", first, "-c", "consumer", "--tail=-1", timeout=400
        )
        sending = pool.submit(produce, environment, topic=name, count=count)
        within(120, lambda: len(printed(environment, first)) > 100)
        environment.kubectl("delete", "pod", first, "--wait=true")
        sending.result(timeout=400)
        before = messages(followed.result(timeout=400))
    wait_ready(environment, name)
    [second] = pods(environment, name)
    wanted = {f"hello {number}" for number in range(1, count + 1)}
    within(120, lambda: wanted <= {*before, *printed(environment, second)})
    after = printed(environment, second)
    assert 100 < len(before) < count
    assert after
    assert len(before) + len(after) == count
    assert {*before, *after} == wanted


def test_deployment_that_is_deleted_or_edited_comes_back(environment: Environment, make: Make) -> None:
    name = make()
    wait_ready(environment, name)
    workload = f"{name}-deployment"
    uid = environment.get("deployment", workload)["metadata"]["uid"]
    environment.kubectl("delete", "deployment", workload, "--wait=true")
    environment.kubectl("wait", "--for=create", f"deployment/{workload}", "--timeout=30s")
    assert environment.get("deployment", workload)["metadata"]["uid"] != uid
    environment.kubectl("scale", "deployment", workload, "--replicas=3")
    within(10, lambda: environment.get("deployment", workload)["spec"]["replicas"] == 1)
    wait_ready(environment, name)


def test_no_broker_is_reported_until_the_address_is_fixed(environment: Environment, make: Make) -> None:
    name = make(serverAddress="pulsar://nobody.example.invalid:6650")
    wait_ready(environment, name, reason="BrokerUnreachable")
    status = environment.get(f"{KIND}/{name}")["status"]
    [ready] = [item for item in status["conditions"] if item["type"] == "Ready"]
    assert ready["status"] == "False"
    assert "pulsar://nobody.example.invalid:6650" in ready["message"]
    edit(environment, name, serverAddress=BROKER)
    wait_ready(environment, name)


def test_topic_in_a_missing_namespace_is_reported_with_the_consumers_message(
    environment: Environment, make: Make
) -> None:
    name = make()
    wait_ready(environment, name)
    [running] = pods(environment, name)
    edit(environment, name, topic="persistent://public/nowhere/t")
    wait_ready(environment, name, reason="TopicNotFound")
    assert running in pods(environment, name)  # A bad edit never breaks what runs.
    edit(environment, name, topic=name)
    wait_ready(environment, name)


def test_type_changes_there_and_back_and_to_none_at_all(environment: Environment, make: Make) -> None:
    name = make(replicas=2)
    wait_ready(environment, name)
    for spec in (
        {"subscriptionType": "Exclusive", "replicas": 1},
        {"subscriptionType": "Key_Shared", "replicas": 2},
        {"replicas": 0},
    ):
        edit(environment, name, **spec)
        wait_ready(environment, name)
    wait_ready(environment, name, reason="ScaledToZero")
    assert environment.get(f"{KIND}/{name}")["status"]["replicas"] == 0


def test_token_is_waited_for_and_stands_in_no_pod(environment: Environment, make: Make) -> None:
    """This broker asks for no token: what is tested is the way there."""
    secret = f"token-{os.urandom(3).hex()}"
    name = make(auth={"tokenSecretRef": {"name": secret}})
    wait_ready(environment, name, reason="SecretNotFound")
    assert pods(environment, name) == []
    environment.kubectl("create", "secret", "generic", secret, "--from-literal=token=canary-93b1")
    wait_ready(environment, name)
    [pod] = pods(environment, name)
    everything = environment.kubectl(
        "get", f"deployment/{name}-deployment", f"pod/{pod}", f"{KIND}/{name}", "-o", "json"
    )
    assert "canary-93b1" not in everything
    assert "canary-93b1" not in environment.kubectl("logs", pod, "-c", "consumer")
    environment.kubectl("delete", "secret", secret)
    wait_ready(environment, name, reason="SecretNotFound")
    assert pods(environment, name) == [pod]


def test_guides_six_lines_handle_an_order(environment: Environment) -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    [block] = [found for found in blocks if "kind: ConfigMap" in found]
    documents = list(yaml.safe_load_all(block))
    assert documents[1]["spec"]["serverAddress"] == BROKER
    documents[1]["spec"]["initialPosition"] = "Earliest"
    environment.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(documents))
    try:
        wait_ready(environment, "orders")
        produce(environment, topic="orders", count=1, message='{"id": 4711}')
        within(60, lambda: "order 4711" in log(environment, "orders"))
    finally:
        environment.kubectl("delete", f"{KIND}/orders", "configmap/orders", "--wait=false")


KILLING = """
    import os, pathlib
    import pulsar

    flag, point, count = pathlib.Path("/tmp/killed"), os.environ["POINT"], 0
    effects = pathlib.Path("/tmp/effects")
    effects.touch()
    if flag.exists():
        print("killed", flag.read_text(), flush=True)
        print(effects.read_text(), flush=True)

    def die(here):
        global count
        if here == point and not flag.exists():
            count += 1
            if count == 4:
                flag.write_text(here)
                os._exit(137)

    send, acknowledge = pulsar.Producer.send, pulsar.Consumer.acknowledge

    def killing_send(self, *given, **named):
        die("before-output")
        found = send(self, *given, **named)
        die("after-output")
        return found

    def killing_acknowledge(self, *given):
        die("before-acknowledge")
        acknowledge(self, *given)
        die("after-acknowledge")

    pulsar.Producer.send, pulsar.Consumer.acknowledge = killing_send, killing_acknowledge

    def handle(message):
        die("before-handle")
        with effects.open("a") as file:
            print("effect", message.data().decode(), file=file)
        print("effect", message.data().decode(), flush=True)
        die("after-handle")
        return message.data()
"""
POINTS = [f"{when}-{what}" for what in ("handle", "output", "acknowledge") for when in ("before", "after")]


def wait_printed(environment: Environment, name: str, *, by: str, wanted: set[str]) -> None:
    """Until the printer has printed all outputs of this consumer; else what both Pods say.

    A killed container waits for the kubelet's back-off, and twelve Pods share the machine with other tests.
    """
    [pod], [printer] = pods(environment, name), pods(environment, by)
    end = time.monotonic() + 300
    while missing := wanted - set(printed(environment, printer)):
        if time.monotonic() > end:
            said = [f"missing: {sorted(missing)}"]
            for each in (pod, printer):
                said.append(
                    environment.kubectl("get", "pod", each, "-o", "jsonpath={.status.containerStatuses}")
                )
                said.append(environment.kubectl("logs", each, "-c", "consumer", "--tail=40"))
            raise AssertionError("\n".join(said))
        time.sleep(1)


def test_killed_at_any_point_no_message_is_lost(
    environment: Environment, make: Make, put: Callable[[str], str]
) -> None:
    """Once, at the fourth message: no signal ends process 1 from within, `_exit` does, as abruptly.

    Each output is printed by another consumer. What the killed container did is said by the next one, from
    files that outlast it: the kubelet does not always keep a record of a container that ended, nor its log.
    """
    code, count = put(KILLING), 200
    wanted = {f"hello {number}" for number in range(1, count + 1)}
    killed, printers = {}, {}
    for point in POINTS:
        topic = f"out-{os.urandom(3).hex()}"
        env = [{"name": "POINT", "value": point}]
        killed[point] = make(handler=python(code, concurrency=3), output={"topic": topic}, env=env)
        printers[point] = make(topic=topic)
    for name in (*killed.values(), *printers.values()):
        wait_ready(environment, name)
    for name in killed.values():
        produce(environment, topic=name, count=count)
    for point in POINTS:
        wait_printed(environment, killed[point], by=printers[point], wanted=wanted)
        [pod] = pods(environment, killed[point])
        state = environment.get("pod", pod)["status"]["containerStatuses"][0]
        assert state["restartCount"] == 1, (point, state)
        said = environment.kubectl("logs", pod, "-c", "consumer", "--tail=-1").splitlines()
        assert said.count(f"killed {point}") == 1, (point, state)
        assert wanted <= {line.removeprefix("effect ") for line in said}, point


def test_dead_letter_says_why_how_often_and_which_message(
    environment: Environment, make: Make, put: Callable[[str], str]
) -> None:
    failing = put(
        """
        from pulsar_consumer.handler import Reject

        def handle(message):
            if message.data() == b"hello 2":
                raise ValueError("two")
            if message.data() == b"hello 3":
                raise Reject("three")
        """
    )
    showing = put(
        """
        def handle(message):
            print(message.data().decode(), sorted(message.properties().items()), flush=True)
        """
    )
    dead = f"dead-{os.urandom(3).hex()}"
    retry = {"maxDeliveries": 2, "backoff": {"initialSeconds": 1}}
    name = make(handler=python(failing), deadLetter={"topic": dead}, retry=retry)
    reader = make(topic=dead, handler=python(showing))
    wait_ready(environment, name)
    wait_ready(environment, reader)
    produce(environment, topic=name, count=5)
    within(60, lambda: log(environment, reader).count("DEAD_LETTER_REASON") == 2)
    shown = {line[:7]: line for line in log(environment, reader).splitlines() if "DEAD_LETTER" in line}
    for words in ("'MaxDeliveries'", "'ValueError: two'", "('DEAD_LETTER_DELIVERIES', '2')", f"/{name}'"):
        assert words in shown["hello 2"]
    for words in ("'Rejected'", "'Reject: three'", "('DEAD_LETTER_DELIVERIES', '1')", "'printers'"):
        assert words in shown["hello 3"]
    assert re.search(r"'ORIGIN_MESSAGE_ID', '\d+:\d+:-1'", shown["hello 2"])


def test_code_that_does_not_start_leaves_the_old_consumers_running(
    environment: Environment, make: Make, put: Callable[..., str]
) -> None:
    code = put("def handle(message): print('first', message.data().decode(), flush=True)")
    name = make(handler=python(code), replicas=2)
    wait_ready(environment, name)
    old = set(pods(environment, name))
    put("def handle(message:", code)
    wait_ready(environment, name, reason="HandlerUnavailable")
    status = environment.get(f"{KIND}/{name}")["status"]
    conditions = {item["type"]: item for item in status["conditions"]}
    assert "orders.py cannot be imported: SyntaxError" in conditions["Ready"]["message"]
    assert conditions["Available"]["status"] == "True"
    assert old < set(pods(environment, name))
    produce(environment, topic=name, count=20)
    within(60, lambda: log(environment, name).count("first hello") == 20)
    # A container of the old ones that ends starts again with the code that its Pod was made for.
    victim = sorted(old)[0]
    environment.kubectl("exec", victim, "-c", "consumer", "--", "python3", "-c", "import os; os.kill(1, 15)")

    def back() -> bool:
        [container] = environment.get("pod", victim)["status"]["containerStatuses"]
        return bool(container["restartCount"] == 1 and container["ready"])

    within(60, back)
    put("def handle(message): print('second', message.data().decode(), flush=True)", code)
    wait_ready(environment, name)
    assert not old & set(pods(environment, name))
    produce(environment, topic=name, count=20)
    within(60, lambda: log(environment, name).count("second hello") == 20)


def test_code_that_is_not_there_is_waited_for(
    environment: Environment, make: Make, put: Callable[..., str]
) -> None:
    code = f"code-{os.urandom(3).hex()}"
    name = make(handler=python(code))
    wait_ready(environment, name, reason="ConfigMapNotFound")
    assert pods(environment, name) == []
    put("async def handle(message): ...", code)
    wait_ready(environment, name)


SERVICE = """
    import time
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    seen = {}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            seen[body] = seen.get(body, 0) + 1
            first = seen[body] == 1
            status = {b"hello 1": 503, b"hello 2": 429, b"hello 3": 500}.get(body, 200) if first else 200
            status = 422 if body == b"hello 4" else status
            if body == b"hello 5" and first:
                time.sleep(3)
            self.send_response(status)
            if status in (429, 503):
                self.send_header("Retry-After", "1")
            answer = body.upper() + b" " + self.headers["ce-specversion"].encode()
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

    def serve():
        ThreadingHTTPServer(("", 8000), Handler).serve_forever()

    serve()
"""


def test_service_gets_cloud_events_and_its_answers_decide(
    environment: Environment, make: Make, put: Callable[..., str]
) -> None:
    word = os.urandom(3).hex()
    service, done, dead = f"service-{word}", f"done-{word}", f"dead-{word}"
    name = make(
        handler={"http": {"url": f"http://{service}:8000", "timeoutSeconds": 1}},
        output={"topic": done},
        deadLetter={"topic": dead},
        retry={"maxDeliveries": 3},
    )
    wait_ready(environment, name, reason="HandlerUnavailable")
    image = environment.get("deployment", f"{SAMPLE}-deployment")["spec"]["template"]["spec"]["containers"][
        0
    ]["image"]
    labels = {"app": service}
    container = {
        "name": "service",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "/code/orders.py"],
        "volumeMounts": [{"name": "code", "mountPath": "/code"}],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    spec = {
        "containers": [container],
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "volumes": [{"name": "code", "configMap": {"name": put(SERVICE)}}],
    }
    ports = {"selector": labels, "ports": [{"port": 8000}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": service, "labels": labels}, "spec": spec}
    front = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": service}, "spec": ports}
    try:
        for body in (pod, front):
            environment.kubectl("apply", "-f", "-", stdin=json.dumps(body))
        # The kubelet starts the consumer again by itself.
        wait_ready(environment, name)
        outputs, letters = make(topic=done), make(topic=dead)
        produce(environment, topic=name, count=8)
        wanted = {f"HELLO {number} 1.0" for number in range(1, 9) if number != 4}
        within(90, lambda: wanted <= set(messages(log(environment, outputs))))
        within(60, lambda: messages(log(environment, letters)) == ["hello 4"])
    finally:
        environment.kubectl("delete", f"pod/{service}", f"service/{service}", "--wait=false")


@pytest.mark.thorough
def test_handler_that_fails_on_every_message_is_reported_until_one_is_handled(
    environment: Environment, make: Make, put: Callable[..., str]
) -> None:
    code = put(
        """
        import pathlib

        def handle(message):
            if not pathlib.Path("/tmp/repaired").exists():
                raise ValueError("canary-93b1")
        """
    )
    name = make(handler=python(code))
    wait_ready(environment, name)
    produce(environment, topic=name, count=20)
    wait_ready(environment, name, reason="HandlerFailing")
    resource = environment.get(f"{KIND}/{name}")
    [message] = [item["message"] for item in resource["status"]["conditions"] if item["type"] == "Ready"]
    assert re.search(r"the last with ValueError of message \d+:\d+:-1\.", message)
    assert "canary-93b1" not in json.dumps(resource)  # It might be what a message says.
    [pod] = pods(environment, name)
    repair = "import pathlib; pathlib.Path('/tmp/repaired').touch()"
    environment.kubectl("exec", pod, "-c", "consumer", "--", "python3", "-c", repair)
    wait_ready(environment, name)
    [container] = environment.get("pod", pod)["status"]["containerStatuses"]
    assert container["restartCount"] == 1


def moving(environment: Environment, name: str) -> tuple[str, str]:
    """Status and reason of the condition BacklogMoving."""
    conditions = environment.get(f"{KIND}/{name}").get("status", {}).get("conditions", [])
    return next(((c["status"], c["reason"]) for c in conditions if c["type"] == "BacklogMoving"), ("", ""))


def test_what_waits_for_the_subscription_is_in_the_status_and_no_admin_api_leaves_ready_alone(
    environment: Environment, make: Make
) -> None:
    """It is asked at once where an answer may have become another one, so no minute is waited for."""
    name = make(adminURL=ADMIN)
    wait_ready(environment, name)
    within(20, lambda: moving(environment, name) == ("True", "NoBacklog"))
    edit(environment, name, replicas=0)
    wait_ready(environment, name, reason="ScaledToZero")
    # One that is on its way out takes messages still.
    within(60, lambda: not environment.get("pods", "-l", f"app.kubernetes.io/instance={name}")["items"])
    edit(environment, name, adminURL=None)
    produce(environment, topic=name, count=25)
    edit(environment, name, adminURL=ADMIN)
    within(20, lambda: moving(environment, name) == ("False", "NoConsumers"))
    said = environment.get(f"{KIND}/{name}")["status"]["backlog"]
    assert (said["messages"], said["unacknowledged"], said["consumers"]) == (25, 0, 0)
    edit(environment, name, adminURL="http://nobody.pulsar.svc:8080")
    within(30, lambda: moving(environment, name) == ("Unknown", "AdminUnreachable"))
    status = environment.get(f"{KIND}/{name}")["status"]
    assert "backlog" not in status
    assert [c["status"] for c in status["conditions"] if c["type"] == "Ready"] == ["True"]


def scaled(environment: Environment, name: str) -> dict[str, Any]:
    found: dict[str, Any] = environment.get(f"{KIND}/{name}").get("status", {}).get("autoscaling", {})
    return found


def ask_at_once(environment: Environment, name: str) -> None:
    """Another name of the broker is another question, so no minute is waited for."""
    known = environment.get(f"{KIND}/{name}")["spec"]["adminURL"]
    edit(environment, name, adminURL=ADMIN.replace(".svc", ".svc.cluster.local") if known == ADMIN else ADMIN)


def test_the_backlog_starts_consumers_and_they_go_once_nothing_waits(
    environment: Environment, make: Make
) -> None:
    """A topic that nobody has made, too: the first consumer makes the subscription."""
    scaling = {"max": 3, "targetBacklog": 10, "stabilizationWindowSeconds": 3}
    name = make(adminURL=ADMIN, replicas=0, autoscaling=scaling)
    within(60, lambda: "printers" in stats(environment, name).get("subscriptions", {}))
    within(60, lambda: scaled(environment, name).get("replicas") == 0)
    wait_ready(environment, name, reason="ScaledToZero")
    within(60, lambda: not environment.get("pods", "-l", f"app.kubernetes.io/instance={name}")["items"])
    produce(environment, topic=name, count=25)
    ask_at_once(environment, name)
    within(20, lambda: scaled(environment, name).get("replicas") == 3)
    within(60, lambda: subscriptions(environment, name) == {"printers": 3})
    within(60, lambda: environment.get(f"{KIND}/{name}")["status"]["replicas"] == 3)
    within(60, lambda: stats(environment, name)["subscriptions"]["printers"]["msgBacklog"] == 0)
    ask_at_once(environment, name)
    within(60, lambda: scaled(environment, name).get("replicas") == 0)
    wait_ready(environment, name, reason="ScaledToZero")
    assert "lowerSince" not in scaled(environment, name)


@pytest.mark.thorough
def test_from_zero_to_100000_messages_and_back_to_zero(environment: Environment, make: Make) -> None:
    """By the minute's own questions: the time and the consumers are printed."""
    scaling = {"max": 5, "targetBacklog": 20_000, "stabilizationWindowSeconds": 60}
    name = make(adminURL=ADMIN)
    wait_ready(environment, name)
    edit(environment, name, replicas=0)
    wait_ready(environment, name, reason="ScaledToZero")
    within(60, lambda: not environment.get("pods", "-l", f"app.kubernetes.io/instance={name}")["items"])
    produce(environment, topic=name, count=100_000, seconds=1200)
    edit(environment, name, autoscaling=scaling)
    began = time.monotonic()
    within(30, lambda: bool(scaled(environment, name)))
    most, drained = 0, 0.0
    changes: list[tuple[int, int]] = []
    while True:
        assert time.monotonic() - began < 900
        now = scaled(environment, name)["replicas"]
        waiting = stats(environment, name)["subscriptions"]["printers"]["msgBacklog"]
        if not changes or changes[-1][1] != now:
            changes.append((round(time.monotonic() - began), now))
        most = max(most, now)
        drained = drained or (0.0 if waiting or not most else time.monotonic())
        if drained and now == 0:
            break
        time.sleep(2)
    print(f"drained after {drained - began:.0f} s: {changes}")
    assert most == 5
    # Up, down, and no flapping: at most one step down to another number.
    numbers = [number for _, number in changes]
    top = numbers.index(most)
    assert numbers[: top + 1] == sorted(numbers[: top + 1])
    assert numbers[top:] == sorted(numbers[top:], reverse=True)


def subscriptions(environment: Environment, topic: str, *, partitioned: bool = False) -> dict[str, int]:
    """By the broker's own word, with how many consumers each has."""
    found = stats(environment, topic, partitioned=partitioned)["subscriptions"]
    return {name: len(each["consumers"]) for name, each in found.items()}


def test_a_deleted_one_unsubscribes_once_nobody_reads_on(environment: Environment, make: Make) -> None:
    topic = make(adminURL=ADMIN, deletionPolicy="Unsubscribe", replicas=2)
    wait_ready(environment, topic)
    edit(environment, topic, subscriptionName="second")
    within(60, lambda: subscriptions(environment, topic) == {"printers": 0, "second": 2})
    other = make(topic=topic, subscriptionName="second")
    wait_ready(environment, other)
    environment.kubectl("delete", f"{KIND}/{topic}", "--wait=false")
    wait_ready(environment, topic, reason="SubscriptionBusy")
    assert subscriptions(environment, topic) == {"printers": 0, "second": 1}
    assert environment.get("deployment", f"{topic}-deployment")["spec"]["replicas"] == 0
    environment.kubectl("delete", f"{KIND}/{other}")
    environment.kubectl("wait", "--for=delete", f"{KIND}/{topic}", "--timeout=60s")
    assert subscriptions(environment, topic) == {}


def test_of_a_topic_with_partitions_what_waits_is_known_and_the_subscription_ends(
    environment: Environment, make: Make
) -> None:
    topic = f"parts-{os.urandom(3).hex()}"
    # From a consumer's Pod: kubectl sends no type of content with what is not the API server's.
    program = (
        "import urllib.request as r; r.urlopen(r.Request("
        f"'{ADMIN}/admin/v2/persistent/public/default/{topic}/partitions', data=b'3', method='PUT', "
        "headers={'Content-Type': 'application/json'}))"
    )
    pod = f"deployment/{SAMPLE}-deployment"
    environment.kubectl("exec", pod, "-c", "consumer", "--", "python3", "-c", program)
    name = make(topic=topic, adminURL=ADMIN, deletionPolicy="Unsubscribe")
    wait_ready(environment, name)
    within(20, lambda: moving(environment, name) == ("True", "NoBacklog"))
    assert subscriptions(environment, topic, partitioned=True) == {"printers": 1}
    assert environment.get(f"{KIND}/{name}")["status"]["backlog"]["consumers"] == 1
    environment.kubectl("delete", f"{KIND}/{name}", "--timeout=60s")
    assert subscriptions(environment, topic, partitioned=True) == {}


def test_what_consumers_have_and_did_not_acknowledge_is_counted(
    environment: Environment, make: Make, put: Callable[[str], str]
) -> None:
    """A handler that takes a minute for each message has one of them, and the rest waits."""
    code = put("import time\n\n\ndef handle(message): time.sleep(50)\n")
    name = make(handler=python(code, timeoutSeconds=120), replicas=0)
    wait_ready(environment, name, reason="ScaledToZero")
    produce(environment, topic=name, count=5)
    edit(environment, name, replicas=1)
    wait_ready(environment, name, reason="Connected")
    within(20, lambda: bool(subscriptions(environment, name)))
    edit(environment, name, adminURL=ADMIN)
    within(30, lambda: moving(environment, name) == ("True", "Acknowledging"))
    said = environment.get(f"{KIND}/{name}")["status"]["backlog"]
    known = stats(environment, name)["subscriptions"]["printers"]
    assert said["unacknowledged"] == known["unackedMessages"] > 0
    assert said["messages"] == known["msgBacklog"] > 0


def test_a_subscription_or_a_topic_that_is_gone_is_said(environment: Environment, make: Make) -> None:
    name = make(adminURL=ADMIN, replicas=0)
    wait_ready(environment, name, reason="ScaledToZero")
    within(30, lambda: moving(environment, name) == ("Unknown", "TopicNotFound"))
    other = make(topic=name, subscriptionName="others")
    wait_ready(environment, other)
    ask_at_once(environment, name)
    within(30, lambda: moving(environment, name) == ("Unknown", "SubscriptionNotFound"))
