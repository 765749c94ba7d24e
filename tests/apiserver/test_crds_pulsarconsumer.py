"""What a PulsarConsumer may say, and that the real API server stores its children as they are applied."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kindling.engine.compare import satisfies
from kindling.kinds.base import Child, SyncResult
from kindling.kinds.conditions import with_transition_times
from kindling.kube.resources import CONFIG_MAP, DEPLOYMENT, Ref

from tests.apiserver.support.apiclient import Api, Json
from tests.apiserver.support.kinds import MINIMAL_SPECS, PULSAR_CONSUMER, merged
from tests.unit.operator.pulsarconsumers import LOCAL, NOW, consumer, observed

LEAST = MINIMAL_SPECS[PULSAR_CONSUMER.id]
SECRET_KEY = {"secretKeyRef": {"name": "s", "key": "k"}}
PYTHON: Json = {"python": {"configMapRef": {"name": "code", "key": "a.py"}, "handler": "orders:handle"}}
TWO: Json = {"http": {"url": "http://orders.shop:8080", "concurrency": 2}}
HTTP: Json = {"http": {"url": "http://orders.shop:8080"}}
MAP_KEY = {"configMapKeyRef": {"name": "m", "key": "k"}}

EU = "persistent://public/default/eu-.*"
BASIC: Json = {"basicSecretRef": {"name": "a"}}
OAUTH2: Json = {"oauth2": {"issuerURL": "https://a", "credentialsSecretRef": {"name": "a"}}}
BAD: list[tuple[Json, list[str]]] = [
    (
        {"autoscaling": {"max": 2, "targetBacklog": 100}},
        ["spec.autoscaling follows what the broker's admin API says", "set spec.adminURL"],
    ),
    (
        {"autoscaling": {"min": 3, "max": 2, "targetBacklog": 100}, "adminURL": "http://a"},
        ["spec.autoscaling.min 3 is more than spec.autoscaling.max 2", "lower it"],
    ),
    (
        {
            "autoscaling": {"max": 2, "targetBacklog": 100},
            "adminURL": "http://a",
            "subscriptionType": "Exclusive",
        },
        ["spec.autoscaling.max 2 is more than an Exclusive subscription takes", "use 1"],
    ),
    ({"serverAddress": "pulsar://a:0"}, ["spec.serverAddress 'pulsar://a:0'", "1 to 65535"]),
    ({"serverAddress": "pulsar://a:6650,b:65536"}, ["spec.serverAddress", "b:65536", "1 to 65535"]),
    ({"serverAddress": "pulsar://a:99999/"}, ["spec.serverAddress", "1 to 65535"]),
    ({"serverAddress": "pulsar://a:b"}, ["spec.serverAddress", '"pulsar://a:b"', "pulsar("]),
    ({"serverAddress": "pulsar://a:1:2"}, ["spec.serverAddress", "pulsar("]),
    ({"serverAddress": "http://a:8080"}, ["spec.serverAddress", "pulsar("]),
    ({"adminURL": "ftp://a:8443"}, ["spec.adminURL", '"ftp://a:8443"', "https?://"]),
    ({"adminURL": "https://localhost"}, ["spec.adminURL", "operator's own Pod", "broker's Service"]),
    ({"adminURL": "http://a:8080/admin"}, ["spec.adminURL", '"http://a:8080/admin"']),
    ({"adminURL": "http://me:word@a:8080"}, ["spec.adminURL", "me:word@a"]),
    ({"adminURL": "http://a:65536"}, ["spec.adminURL 'http://a:65536'", "1 to 65535"]),
    ({"adminURL": "http://localhost:8080"}, ["spec.adminURL", "operator's own Pod", "broker's Service"]),
    ({"adminURL": "http://127.0.0.1/"}, ["spec.adminURL", "operator's own Pod"]),
    (
        {
            "adminURL": "http://a:8080",
            "serverAddress": "pulsar+ssl://a:6651",
            "auth": {"tokenSecretRef": {"name": "a"}},
        },
        ["spec.adminURL 'http://a:8080'", "credentials of spec.auth in clear", "use https://, or leave out"],
    ),
    *(
        (
            {"adminURL": "http://a", "serverAddress": "pulsar+ssl://a", "auth": auth},
            ["credentials of spec.auth in clear"],
        )
        for auth in (BASIC, OAUTH2)
    ),
    (
        {"auth": {**BASIC, **OAUTH2}},
        ["spec.auth", "more than one of tokenSecretRef, basicSecretRef and oauth2"],
    ),
    (
        {"replay": {"from": "2026-11-24T06:45:00Z"}},
        ["spec.replay is done by the broker's admin API", "adminURL"],
    ),
    ({"adminURL": "http://a", "replay": {"from": "yesterday"}}, ["spec.replay.from", "date-time"]),
    ({"adminURL": "http://a", "replay": {}}, ["spec.replay.from", "Required"]),
    ({"auth": {"basicSecretRef": {}}}, ["spec.auth.basicSecretRef.name", "Required"]),
    ({"auth": {"oauth2": {"issuerURL": "https://a"}}}, ["spec.auth.oauth2.credentialsSecretRef", "Required"]),
    *(
        ({"auth": {"oauth2": {**OAUTH2["oauth2"], "issuerURL": url}}}, ["spec.auth.oauth2.issuerURL", url])
        for url in ("http://a", "https://me:word@a", "https://a?b=c", "https://a/#b")
    ),
    (
        {"auth": {"oauth2": {**OAUTH2["oauth2"], "scope": "a  b"}}},
        ["spec.auth.oauth2.scope", '"a  b"'],
    ),
    (
        {"tls": {"caSecretRef": {"name": "a"}}},
        ["spec.tls has no effect", "use pulsar+ssl://HOST:6651, or leave out"],
    ),
    (
        {"serverAddress": "pulsar+ssl://a", "tls": {"caSecretRef": {"name": "A"}}},
        ["spec.tls.caSecretRef.name", '"A"'],
    ),
    (
        {"serverAddress": "pulsar+ssl://a", "tls": {"clientCertificateSecretRef": {}}},
        ["spec.tls.clientCertificateSecretRef.name", "Required"],
    ),
    ({"image": "my consumer"}, ["spec.image", '"my consumer"']),
    ({"subscriptionType": "shared"}, ["spec.subscriptionType", '"shared"', '"Exclusive", "Shared"']),
    (
        {"subscriptionType": "Exclusive", "replicas": 2},
        ["spec.replicas 2", "Exclusive", "0 or 1", "Shared, Failover or Key_Shared"],
    ),
    ({"initialPosition": "First"}, ["spec.initialPosition", '"First"', '"Latest", "Earliest"']),
    ({"auth": {"tokenSecretRef": {}}}, ["spec.auth.tokenSecretRef.name", "Required"]),
    ({"auth": {"tokenSecretRef": {"name": "A"}}}, ["spec.auth.tokenSecretRef.name", '"A"']),
    ({"auth": {"tokenSecretRef": {"name": "a", "key": ".."}}}, ["spec.auth.tokenSecretRef.key", '".."']),
    (
        {"resources": {"requests": {"memory": "2Gi"}, "limits": {"memory": "1Gi"}}},
        ["spec.resources.requests.memory '2Gi'", "at most '1Gi'"],
    ),
    ({"env": [{"name": "PULSAR_TOPIC", "value": "x"}]}, ["spec.env", "'PULSAR_TOPIC'", "start with PULSAR_"]),
    ({"env": [{"name": "A B", "value": "x"}]}, ["spec.env[0].name", '"A B"']),
    ({"env": [{"name": "A"}]}, ["'A'", "either value or valueFrom"]),
    ({"env": [{"name": "A", "value": "x", "valueFrom": SECRET_KEY}]}, ["'A'", "exactly one"]),
    ({"env": [{"name": "A", "valueFrom": {}}]}, ["spec.env[0].valueFrom", "secretKeyRef or configMapKeyRef"]),
    ({"env": [{"name": "A", "valueFrom": {**SECRET_KEY, **MAP_KEY}}]}, ["valueFrom", "exactly one"]),
    ({"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}, ["spec.env[1]", "Duplicate"]),
    ({"handler": {}}, ["spec.handler", "one of python, http and container", "exactly one"]),
    ({"handler": {**PYTHON, **HTTP}}, ["spec.handler", "one of python, http and container"]),
    ({"handler": HTTP, "image": "mine:1"}, ["spec.handler", "spec.image", "leave out one"]),
    ({"retry": {}}, ["spec.retry has no effect", "set spec.handler"]),
    ({"schema": {"type": "JSON"}}, ["spec.schema has no effect", "printed as they are", "set spec.handler"]),
    ({"handler": HTTP, "schema": {}}, ["spec.schema.type", "Required"]),
    ({"handler": HTTP, "schema": {"type": "AVRO"}}, ["spec.schema.type", '"AVRO"', '"Avro", "JSON"']),
    ({"handler": HTTP, "schema": {"type": "Avro", "definition": ""}}, ["spec.schema.definition", "2 chars"]),
    ({"deadLetter": {"topic": "d"}}, ["spec.deadLetter has no effect", "set spec.handler"]),
    ({"deletionPolicy": "Unsubscribe"}, ["spec.deletionPolicy 'Unsubscribe'", "set spec.adminURL", "Retain"]),
    ({"deletionPolicy": "Delete"}, ["spec.deletionPolicy", '"Retain", "Unsubscribe"']),
    ({"handler": HTTP, "deadLetter": {"topic": "d", "keep": "no"}}, ["spec.deadLetter.keep", "boolean"]),
    ({"output": {"topic": "o"}, "image": "mine:1"}, ["spec.output has no effect", "set spec.handler"]),
    (
        {"handler": HTTP, "retry": {"maxDeliveries": 3}},
        ["spec.retry.maxDeliveries 3", "set spec.deadLetter.topic"],
    ),
    (
        {"handler": HTTP, "topic": "a", "deadLetter": {"topic": "persistent://public/default/a"}},
        ["spec.deadLetter.topic 'persistent://public/default/a'", "another topic"],
    ),
    (
        {"handler": HTTP, "topic": "persistent://public/default/a", "output": {"topic": "a"}},
        ["spec.output.topic 'a'", "another topic"],
    ),
    ({"topic": None}, ["spec.topic", "Required", "exactly one of spec.topic, spec.topics and"]),
    ({"topics": ["a"]}, ["spec.topic beside spec.topics", "exactly one"]),
    ({"topicsPattern": EU}, ["spec.topic beside spec.topicsPattern", "exactly one"]),
    ({"topic": None, "topics": ["a"], "topicsPattern": EU}, ["spec.topics beside spec.topicsPattern"]),
    ({"topic": None, "topics": []}, ["spec.topics", "at least 1"]),
    ({"topic": None, "topics": ["a", "a"]}, ["spec.topics[1]", "Duplicate"]),
    ({"topic": None, "topics": [f"t{n}" for n in range(101)]}, ["spec.topics", "at most 100"]),
    ({"topic": None, "topics": ["a b"]}, ["spec.topics[0]", '"a b"']),
    *(
        ({"topic": None, "topicsPattern": bad}, [f"spec.topicsPattern '{bad}'", "is no pattern of topics"])
        for bad in (
            "orders-.*",
            "public/default/a.*",
            "persistent://public/default/",
            "persistent://a/b/c/d.*",
            "non-persistent://a/b/c",
            "persistent://a/b/*",
            "persistent://a/b/(x",
            "persistent://a/b/(a*)*",
            "persistent://a/b/x**",
            "persistent://a/b/[z-a]",
            "persistent://a/b/x{2}",
            "persistent://a/b/(?i)x",
            r"persistent://a/b/\w",
            "persistent://a/b/[]",
            "persistent://a/b/a|b",
            "persistent://a.*/b/c",
        )
    ),
    *(
        (
            {"topic": None, "topics": ["a", "b"], "handler": HTTP, field: {"topic": topic}},
            [f"spec.{field}.topic '{topic}' is one of spec.topics", "another topic"],
        )
        for field in ("deadLetter", "output")
        for topic in ("b", "persistent://public/default/a")
    ),
    *(
        (
            {"topic": None, "topicsPattern": EU, "handler": HTTP, field: {"topic": topic}},
            [f"spec.{field}.topic '{topic}' matches spec.topicsPattern '{EU}'", "another topic"],
        )
        for field in ("deadLetter", "output")
        for topic in ("eu-dead", "public/default/eu-dead", "persistent://public/default/eu-1")
    ),
    (
        {
            "topic": None,
            "topicsPattern": EU,
            "adminURL": "http://a",
            "replay": {"from": "2026-11-24T07:00:00Z"},
        },
        ["spec.replay", f"spec.topicsPattern '{EU}'", "use spec.topics"],
    ),
    ({"handler": HTTP, "deadLetter": {}}, ["spec.deadLetter.topic", "Required"]),
    ({"handler": HTTP, "output": {"topic": "a b"}}, ["spec.output.topic", '"a b"']),
    *(
        (
            {
                "handler": {"http": {"url": "http://a", "concurrency": 2}},
                "subscriptionType": type,
                "replicas": 1,
            },
            ["spec.handler's concurrency", f"'{type}'", "Shared or Key_Shared"],
        )
        for type in ("Exclusive", "Failover")
    ),
    (
        {
            "handler": {"python": {**PYTHON["python"], "concurrency": 2}},
            "subscriptionType": "Failover",
        },
        ["spec.handler's concurrency", "'Failover'"],
    ),
    ({"handler": {**HTTP, "container": {"image": "a"}}}, ["spec.handler", "exactly one"]),
    ({"handler": {"container": {}}}, ["spec.handler.container.image", "Required"]),
    ({"handler": {"container": {"image": "a b"}}}, ["spec.handler.container.image", '"a b"']),
    ({"handler": {"container": {"image": "a", "port": 8080}}}, ["spec.handler.container.port", "8080"]),
    (
        {"metrics": {"enabled": True}, "handler": {"container": {"image": "a", "port": 9151}}},
        ["spec.handler.container.port 9151", "spec.metrics"],
    ),
    ({"metrics": {}}, ["spec.metrics.enabled", "Required"]),
    ({"handler": {"container": {"image": "a", "port": 80}}}, ["spec.handler.container.port", "1024"]),
    ({"handler": {"container": {"image": "a", "command": []}}}, ["spec.handler.container.command"]),
    ({"handler": {"container": {"image": "a", "path": "b"}}}, ["spec.handler.container.path", '"b"']),
    ({"handler": {"container": {"image": "a"}}, "image": "mine:1"}, ["spec.handler", "leave out one"]),
    (
        {"handler": {"container": {"image": "a", "concurrency": 2}}, "subscriptionType": "Failover"},
        ["spec.handler's concurrency", "'Failover'"],
    ),
    ({"handler": {"http": {}}}, ["spec.handler.http", "either url or serviceRef"]),
    (
        {"handler": {"http": {"url": "http://a", "serviceRef": {"name": "a", "port": 1}}}},
        ["spec.handler.http", "exactly one"],
    ),
    ({"handler": {"http": {"serviceRef": {"name": "a"}}}}, ["spec.handler.http.serviceRef.port", "Required"]),
    (
        {"handler": {"http": {"serviceRef": {"name": "a.b", "port": 1}}}},
        ["spec.handler.http.serviceRef.name", '"a.b"'],
    ),
    ({"handler": {"http": {"url": "ftp://a"}}}, ["spec.handler.http.url", '"ftp://a"']),
    ({"handler": {"http": {"url": "http://ada:canary@a"}}}, ["spec.handler.http.url"]),
    ({"handler": {"http": {"url": "http://a/path"}}}, ["spec.handler.http.url"]),
    ({"handler": {"http": {"url": "http://a:0"}}}, ["spec.handler.http.url 'http://a:0'", "1 to 65535"]),
    ({"handler": {"http": {"url": "http://a:65536/"}}}, ["spec.handler.http.url", "1 to 65535"]),
    ({"handler": {"http": {"url": "http://a", "path": "b"}}}, ["spec.handler.http.path", '"b"']),
    ({"handler": {"http": {"url": "http://a", "path": "/b?c=d"}}}, ["spec.handler.http.path"]),
    ({"handler": {"http": {"url": "http://a", "timeoutSeconds": 0}}}, ["spec.handler.http.timeoutSeconds"]),
    (
        {"handler": {"http": {"url": "http://a", "concurrency": 257}}},
        ["http.concurrency", "256"],
    ),
    (
        {"handler": {"python": {"configMapRef": {"name": "c"}, "handler": "orders.handle"}}},
        ["spec.handler.python.handler", '"orders.handle"'],
    ),
    ({"handler": {"python": {"handler": "a:b"}}}, ["spec.handler.python.configMapRef", "Required"]),
    (
        {"handler": HTTP, "retry": {"backoff": {"initialSeconds": 90}}},
        ["spec.retry.backoff.initialSeconds 90", "at most 60"],
    ),
    (
        {"handler": HTTP, "retry": {"backoff": {"initialSeconds": 9, "maxSeconds": 8}}},
        ["spec.retry.backoff.initialSeconds 9", "at most 8"],
    ),
    ({"handler": HTTP, "retry": {"backoff": {"factor": 0}}}, ["spec.retry.backoff.factor"]),
]
GOOD: list[Json] = [
    {"auth": OAUTH2, "tls": {"caSecretRef": {"name": "a"}}},
    {"adminURL": "http://a", "replay": {"from": "2026-11-24T06:45:00.5+01:00"}},
    {"adminURL": "https://a:8443", "serverAddress": "pulsar+ssl://a", "auth": BASIC},
    {"adminURL": "https://a", "tls": {"caSecretRef": {"name": "a"}}},
    {"serverAddress": "pulsar+ssl://a", "tls": {}},
    {
        "serverAddress": "pulsar+ssl://a",
        "auth": {"oauth2": {**OAUTH2["oauth2"], "audience": "urn:x", "scope": "a b/.default"}},
        "tls": {
            "caSecretRef": {"name": "a", "key": "ca.pem"},
            "clientCertificateSecretRef": {"name": "b"},
        },
    },
    {"auth": {"oauth2": {**OAUTH2["oauth2"], "issuerURL": "https://id.example.com:8443/realms/a_b/"}}},
    {"topic": None, "topics": ["a"]},
    {"handler": HTTP, "schema": {"type": "JSON"}},
    {"handler": PYTHON, "schema": {"type": "Avro", "definition": '{"type": "string"}'}},
    {
        "topic": None,
        "topics": [f"{'t' * 509}{n:03}" for n in range(100)],
        "handler": HTTP,
        "output": {"topic": "o"},
    },
    {
        "topic": None,
        "topics": ["a", "b/c/d"],
        "adminURL": "http://a",
        "replay": {"from": "2026-11-24T07:00:00Z"},
    },
    *(
        {"topic": None, "topicsPattern": f"persistent://a-1/b.c/{good}"}
        for good in ("x", ".*", r"orders-\d+\.v[0-9]?", "(eu|us|)?-[^a-z_-]+x*", "[A-Za-z0-9.]", "a=b:c~@%,d")
    ),
    {
        "topic": None,
        "topicsPattern": EU,
        "handler": HTTP,
        "deadLetter": {"topic": "dead"},
        "output": {"topic": "shop/x/eu-1"},
    },
    {"autoscaling": {"min": 0, "max": 1, "targetBacklog": 1}, "adminURL": "http://a"}
    | {"subscriptionType": "Exclusive"},
    {"adminURL": "http://pulsar.pulsar.svc:8080"},
    {"adminURL": "http://10.0.0.1/", "auth": {"tokenSecretRef": {"name": "a"}}},
    {"adminURL": "http://a", "serverAddress": "pulsar+ssl://a:6651"},
    {"serverAddress": "pulsar://localhost:6650"},
    {"serverAddress": "pulsar+ssl://a.example.com:6651,b_c:65535/"},
    {"serverAddress": "pulsar://[2001:db8::0:70000]:6650"},
    {"serverAddress": "pulsar://broker"},
    {"subscriptionType": "Exclusive", "replicas": 1},
    {"subscriptionType": "Exclusive", "replicas": 0},
    {"subscriptionType": "Key_Shared", "initialPosition": "Earliest", "replicas": 1000},
    {"auth": {}},
    {"auth": {"tokenSecretRef": {"name": "pulsar.token", "key": ".jwt"}}},
    {"env": [{"name": "A", "value": ""}, {"name": "b.c", "valueFrom": SECRET_KEY}]},
    {"env": [{"name": "MY_PULSAR_X", "valueFrom": MAP_KEY}], "image": "registry:5000/a/b@sha256:00"},
    {"resources": {"requests": {"cpu": "20m"}, "limits": {"cpu": 1, "memory": "1Gi"}}},
    {"handler": PYTHON},
    {"handler": HTTP, "subscriptionType": "Failover"},
    {"handler": {"container": {"image": "registry:5000/a/b@sha256:00"}}, "retry": {"backoff": {}}},
    {
        "handler": {
            "container": {
                "image": "mine",
                "command": ["/orders", ""],
                "args": ["-v"],
                "port": 1024,
                "path": "/a",
                "timeoutSeconds": 9,
                "concurrency": 256,
            }
        },
        "subscriptionType": "Shared",
    },
    {"handler": {"http": {"serviceRef": {"name": "orders", "port": 8080}, "path": "/a"}}},
    {"handler": {"http": {"url": "https://[::1]:8443/", "path": "/a/%20b", "concurrency": 256}}},
    {
        "handler": {"python": {**PYTHON["python"], "timeoutSeconds": 3600, "concurrency": 8}},
        "subscriptionType": "Key_Shared",
        "retry": {"maxDeliveries": 1, "backoff": {"initialSeconds": 60, "factor": 10, "maxSeconds": 86400}},
        "deadLetter": {"topic": "persistent://tenant/space/dead"},
        "output": {"topic": "done"},
    },
    {
        "handler": {"python": {**PYTHON["python"], "concurrency": 1}},
        "subscriptionType": "Exclusive",
        "replicas": 1,
        "retry": {"backoff": {}},
    },
]


@pytest.mark.parametrize(("patch", "said"), BAD, ids=str)
def test_bad_spec_is_refused_by_name(api: Api, patch: Json, said: list[str]) -> None:
    body = PULSAR_CONSUMER.resource("bad", merged(LEAST, patch))
    answer = api.create(PULSAR_CONSUMER.collection, body, dry_run=True)
    assert answer.status == 422, f"{answer.status}: {answer.message or 'admitted'}"
    assert "evaluating rule" not in answer.message
    assert [words for words in said if words not in answer.message] == [], answer.message


@pytest.mark.parametrize("patch", GOOD, ids=str)
def test_good_spec_is_kept_as_it_is(api: Api, patch: Json) -> None:
    spec = merged(LEAST, patch)
    body = PULSAR_CONSUMER.resource("good.with-dots", spec)
    assert api.create(PULSAR_CONSUMER.collection, body, dry_run=True).accepted()["spec"] == spec


def test_scale_sets_replicas_and_reads_what_the_status_counts(api: Api, new_name: Callable[[], str]) -> None:
    path = f"{PULSAR_CONSUMER.collection}/{new_name()}"
    body = PULSAR_CONSUMER.resource(path.rpartition("/")[2], {**LEAST, "replicas": 1})
    made = api.create(PULSAR_CONSUMER.collection, body).accepted()
    assert api.merge(f"{path}/scale", {"spec": {"replicas": 5}}).accepted()["spec"] == {"replicas": 5}
    cr = api.get(path).accepted()
    assert cr["spec"]["replicas"] == 5
    report = LOCAL.status(made, observed(), SyncResult(in_sync=True))
    status = with_transition_times(report.status, known={}, now=NOW)
    assert api.merge(f"{path}/status", {"status": status}).accepted()["status"] == status
    (workload,) = (child for child in LOCAL.desired(cr, observed()) if child.type == DEPLOYMENT)
    labels = workload.body["spec"]["template"]["metadata"]["labels"].items()
    scale = api.get(f"{path}/scale").accepted()["status"]
    assert scale["replicas"] == status["replicas"]
    assert {tuple(pair.split("=")) for pair in scale["selector"].split(",")} <= labels


def test_scale_keeps_an_exclusive_subscription_to_one(api: Api, new_name: Callable[[], str]) -> None:
    name = new_name()
    spec = {**LEAST, "subscriptionType": "Exclusive", "replicas": 1}
    api.create(PULSAR_CONSUMER.collection, PULSAR_CONSUMER.resource(name, spec)).accepted()
    answer = api.merge(f"{PULSAR_CONSUMER.collection}/{name}/scale", {"spec": {"replicas": 2}})
    assert answer.status == 422
    assert "Exclusive subscription takes" in answer.message


def test_env_of_two_managers_is_merged_by_name(api: Api, new_name: Callable[[], str]) -> None:
    name = new_name()
    for manager, variable in (("one", "A"), ("two", "B")):
        spec = {**LEAST, "env": [{"name": variable, "value": "1"}]}
        path = f"{PULSAR_CONSUMER.collection}/{name}"
        api.apply(path, PULSAR_CONSUMER.resource(name, spec), manager=manager).accepted()
    assert [item["name"] for item in api.get(path).accepted()["spec"]["env"]] == ["A", "B"]


@pytest.fixture
def applied(api: Api) -> Callable[[Child], Json]:
    """Applies one child as the operator would, in the namespace `default`, and gives back what is stored."""

    def _applied(child: Child) -> Json:
        type, meta = child.type, {**child.body["metadata"], "namespace": "default"}
        whole = {**child.body, "apiVersion": type.api_version, "kind": type.kind, "metadata": meta}
        path = type.path(namespace="default", name=meta["name"])
        answer = api.apply(path, whole, manager="kindling").accepted()
        assert satisfies(whole, answer), "something would be written for ever"
        return answer

    return _applied


EVERYTHING: dict[str, Any] = {
    "serverAddress": "pulsar://localhost:6650,[::1]:6651",
    "auth": {"tokenSecretRef": {"name": "pulsar-token"}},
    "env": [{"name": "A", "value": ""}, {"name": "B", "valueFrom": SECRET_KEY}],
    "resources": {"requests": {"cpu": 1, "memory": "0.5Gi"}, "limits": {"memory": "1024Mi"}},
}


@pytest.mark.parametrize("name", ["printer", "a.b-c.d", "9", "n" * 52])
def test_children_are_stored_as_they_are_applied(applied: Callable[[Child], Json], name: str) -> None:
    for child in LOCAL.desired(consumer(name=name, **EVERYTHING), observed()):
        applied(child)


@pytest.mark.parametrize("handler", [PYTHON, HTTP], ids=str)
def test_children_with_a_handler_are_stored_as_they_are_applied(
    applied: Callable[[Child], Json], new_name: Callable[[], str], handler: Json
) -> None:
    code = {Ref(CONFIG_MAP, "ns", "code"): {"metadata": {"uid": "c"}, "data": {"a.py": "x = 1"}}}
    more: dict[str, Any] = {"handler": handler, "deadLetter": {"topic": "dead"}, "output": {"topic": "done"}}
    for child in LOCAL.desired(consumer(name=new_name(), **more), observed(code)):
        applied(child)


def test_strategy_follows_the_subscription_type_there_and_back(
    applied: Callable[[Child], Json], new_name: Callable[[], str]
) -> None:
    """The server refuses a rollingUpdate under Recreate, also one that was there before."""
    name, known = new_name(), dict[Ref, Json]()
    for wanted, strategy in (
        ("Shared", "RollingUpdate"),
        ("Key_Shared", "Recreate"),
        ("Exclusive", "Recreate"),
        ("Shared", "Recreate"),
    ):
        cr = consumer(name=name, subscriptionType=wanted)
        child = LOCAL.desired(cr, observed(known))[1]
        stored = applied(child)
        assert stored["spec"]["strategy"]["type"] == strategy
        known = {child.ref: stored}
    done = {"observedGeneration": 99, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1}
    [(ref, last)] = known.items()
    child = LOCAL.desired(cr, observed({ref: {**last, "status": done}}))[1]
    assert applied(child)["spec"]["strategy"]["type"] == "RollingUpdate"
