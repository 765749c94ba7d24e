"""What is refused at the door, and in which words: the field, the value, what is allowed instead.

Each case is a resource that differs from an admitted one in one respect, so that nothing but that
respect can be the reason.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.apiserver.support.apiclient import Api, Json
from tests.apiserver.support.kinds import (
    BACKUP,
    DOCUMENTED,
    MEMCACHED,
    MINIMAL_SPECS,
    MY_CUSTOM_RESOURCE,
    POSTGRESQL,
    PULSAR_CONSUMER,
    RESTORE,
    Kind,
    merged,
)

ROLE = "[A-Za-z_][A-Za-z0-9_.-]*"
LONGEST_NAME = 52

# The kind, what is laid over its least spec, and what the refusal must contain.
BAD_SPECS: list[tuple[Kind, Json, list[str]]] = [
    (
        POSTGRESQL,
        {"defaultUser": "a", "defaultuser": "b"},
        ["spec.defaultUser 'a'", "spec.defaultuser 'b'", "only one"],
    ),
    (POSTGRESQL, {"defaultUser": "kindling"}, ["spec.defaultUser", "'kindling'", "any other than kindling"]),
    (POSTGRESQL, {"defaultuser": "pg_monitor"}, ["spec.defaultuser", "'pg_monitor'", "start with pg_"]),
    (POSTGRESQL, {"defaultUser": "public"}, ["spec.defaultUser", "'public'", "any other than"]),
    (POSTGRESQL, {"defaultUser": "none"}, ["spec.defaultUser", "'none'", "any other than"]),
    (POSTGRESQL, {"defaultUser": "template1"}, ["spec.defaultUser", "'template1'", "any other than"]),
    (POSTGRESQL, {"defaultUser": "1st"}, ["spec.defaultUser", '"1st"', ROLE]),
    (POSTGRESQL, {"defaultUser": "a b"}, ["spec.defaultUser", '"a b"', ROLE]),
    (POSTGRESQL, {"defaultUser": 'a"b'}, ["spec.defaultUser", ROLE]),
    (POSTGRESQL, {"defaultuser": "a'b"}, ["spec.defaultuser", ROLE]),
    (POSTGRESQL, {"defaultUser": ""}, ["spec.defaultUser", '""', "at least 1"]),
    (POSTGRESQL, {"defaultUser": "u" * 64}, ["spec.defaultUser", "more than 63"]),
    (POSTGRESQL, {"password": ""}, ["spec.password", "at least 1"]),
    (POSTGRESQL, {"storage": {"size": "0"}}, ["spec.storage.size '0'", "greater than 0"]),
    (POSTGRESQL, {"storage": {"size": "0.0Gi"}}, ["spec.storage.size '0.0Gi'", "greater than 0"]),
    (POSTGRESQL, {"storage": {"size": "-1Gi"}}, ["spec.storage.size", "-1Gi", "[KMGTPE]i"]),
    (POSTGRESQL, {"storage": {"size": "10 GB"}}, ["spec.storage.size", "10 GB", "[KMGTPE]i"]),
    (POSTGRESQL, {"storage": {"size": 10}}, ["spec.storage.size", "integer", "of type string"]),
    (
        POSTGRESQL,
        {"storage": {"storageClassName": "Fast"}},
        ["spec.storage.storageClassName", '"Fast"', "[a-z0-9]"],
    ),
    (
        POSTGRESQL,
        {"resources": {"limits": {"memory": "1 GB"}}},
        ["spec.resources.limits.memory", '"1 GB"', "[KMGTPE]i"],
    ),
    (
        POSTGRESQL,
        {"resources": {"requests": {"cpu": -1}}},
        ["spec.resources.requests.cpu", "-1", "equal to 0"],
    ),
    (
        POSTGRESQL,
        {"resources": {"requests": {"cpu": 1.5}}},
        ["spec.resources.requests.cpu", "number", "integer,string"],
    ),
    (
        POSTGRESQL,
        {"resources": {"requests": {"cpu": 2}, "limits": {"cpu": "1500m"}}},
        ["spec.resources.requests.cpu '2'", "at most '1500m'"],
    ),
    (
        POSTGRESQL,
        {"resources": {"requests": {"memory": "2Gi"}, "limits": {"memory": "2G"}}},
        ["spec.resources.requests.memory '2Gi'", "at most '2G'"],
    ),
    (
        POSTGRESQL,
        {"resources": {"requests": {"ephemeral-storage": "2Gi"}, "limits": {"ephemeral-storage": 1}}},
        ["spec.resources.requests.ephemeral-storage '2Gi'", "at most '1'"],
    ),
    (POSTGRESQL, {"image": "postgres 17"}, ["spec.image", '"postgres 17"', "[A-Za-z0-9._:/@-]"]),
    (POSTGRESQL, {"deletionPolicy": "retain"}, ["spec.deletionPolicy", '"retain"', '"Retain", "Delete"']),
    (MEMCACHED, {"size": 101}, ["spec.size", "101", "less than or equal to 100"]),
    (MEMCACHED, {"size": 0}, ["spec.size", "0", "greater than or equal to 1"]),
    (MEMCACHED, {"size": "2"}, ["spec.size", "string", "of type integer"]),
    (MEMCACHED, {"containerPort": 0}, ["spec.containerPort", "0", "greater than or equal to 1"]),
    (MEMCACHED, {"containerPort": 65536}, ["spec.containerPort", "65536", "less than or equal to 65535"]),
    (PULSAR_CONSUMER, {"serverAddress": None}, ["spec.serverAddress", "Required"]),
    (PULSAR_CONSUMER, {"topic": None}, ["spec.topic", "Required"]),
    (PULSAR_CONSUMER, {"subscriptionName": None}, ["spec.subscriptionName", "Required"]),
    (PULSAR_CONSUMER, {"replicas": None}, ["spec.replicas", "Required"]),
    (
        PULSAR_CONSUMER,
        {"serverAddress": "localhost:6650"},
        ["spec.serverAddress", '"localhost:6650"', "pulsar("],
    ),
    (PULSAR_CONSUMER, {"serverAddress": "pulsar://"}, ["spec.serverAddress", '"pulsar://"', "pulsar("]),
    (PULSAR_CONSUMER, {"topic": "my topic"}, ["spec.topic", '"my topic"', r"'^\S+$'"]),
    (PULSAR_CONSUMER, {"subscriptionName": ""}, ["spec.subscriptionName", '""', "at least 1"]),
    (PULSAR_CONSUMER, {"replicas": -1}, ["spec.replicas", "-1", "greater than or equal to 0"]),
    (PULSAR_CONSUMER, {"replicas": 1001}, ["spec.replicas", "1001", "less than or equal to 1000"]),
    (MY_CUSTOM_RESOURCE, {"name": None}, ["spec.name", "Required"]),
    (MY_CUSTOM_RESOURCE, {"name": ""}, ["spec.name", '""', "at least 1"]),
    (MY_CUSTOM_RESOURCE, {"name": "Funny Joe"}, ["spec.name", '"Funny Joe"', "[a-z0-9]"]),
    (MY_CUSTOM_RESOURCE, {"name": "j" * 254}, ["spec.name", "more than 253"]),
]


def _title(value: object) -> str | None:
    if isinstance(value, Kind):
        return str(value.manifest["spec"]["names"]["kind"])
    return str(value)[:60] if isinstance(value, dict) else ""


def _refused(api: Api, kind: Kind, body: Json) -> str:
    answer = api.create(kind.collection, body, dry_run=True)
    assert answer.status == 422, f"{answer.status}: {answer.message or 'admitted'}"
    # The words of a CEL rule that broke rather than decided.
    assert "evaluating rule" not in answer.message, answer.message
    return answer.message


@pytest.mark.parametrize(("kind", "patch", "said"), BAD_SPECS, ids=_title)
def test_bad_spec_is_refused_by_name(api: Api, kind: Kind, patch: Json, said: list[str]) -> None:
    least = MINIMAL_SPECS[kind.id]
    api.create(kind.collection, kind.resource("least", least), dry_run=True).accepted()
    message = _refused(api, kind, kind.resource("bad", merged(least, patch)))
    assert [words for words in said if words not in message] == [], message


ALL = ("cpu", "memory", "ephemeral-storage")


@pytest.mark.parametrize(
    ("kind", "path", "name"),
    [
        (kind, path, name)
        for kind, path, names in (
            (POSTGRESQL, "resources", ALL),
            (POSTGRESQL, "exporter.resources", ALL[:2]),
            (MEMCACHED, "resources", ALL),
            (PULSAR_CONSUMER, "resources", ALL),
            (BACKUP, "verify.resources", ALL),
            (RESTORE, "postgresql.resources", ALL),
        )
        for name in names
    ],
    ids=lambda value: _title(value) or value,
)
def test_a_request_above_its_limit_is_refused_by_name(api: Api, kind: Kind, path: str, name: str) -> None:
    patch: Json = {"requests": {name: "2G"}, "limits": {name: "1G"}}
    for field in reversed(path.split(".")):
        patch = {field: patch}
    if path.startswith("exporter"):
        patch["exporter"]["enabled"] = True  # which it requires
    message = _refused(api, kind, kind.resource("bad", merged(MINIMAL_SPECS[kind.id], patch)))
    assert f"spec.{path}.requests.{name} '2G' exceeds its limit: use at most '1G'" in message, message


@pytest.mark.parametrize(
    "password",
    ["canary\nnext line", "canary\rreturn", "canary\0nul", "canary" + "x" * 1019],
    ids=["newline", "carriage return", "NUL", "too long"],
)
def test_refused_password_is_not_repeated(api: Api, password: str) -> None:
    message = _refused(api, POSTGRESQL, POSTGRESQL.resource("bad", {"password": password}))
    assert "spec.password" in message
    assert "1024" in message
    assert "canary" not in message


@pytest.mark.parametrize("field", ["defaultUser", "image", "deletionPolicy"])
def test_password_is_not_repeated_when_another_field_is_refused(api: Api, field: str) -> None:
    message = _refused(api, POSTGRESQL, POSTGRESQL.resource("bad", {"password": "canary", field: "?"}))
    assert f"spec.{field}" in message
    assert "canary" not in message


@pytest.mark.parametrize("kind", [POSTGRESQL, MEMCACHED], ids=_title)
@pytest.mark.parametrize("name", ["n" * (LONGEST_NAME + 1), "a.b", "1st", "0"])
def test_name_that_no_service_can_bear_is_refused(api: Api, kind: Kind, name: str) -> None:
    message = _refused(api, kind, kind.resource(name, {}))
    assert f"metadata.name '{name}'" in message
    assert "1 to 52 lowercase letters, digits and hyphens" in message


def test_pulsar_consumer_name_is_short_enough_for_its_deployment(api: Api) -> None:
    spec, name = MINIMAL_SPECS[PULSAR_CONSUMER.id], "n" * (LONGEST_NAME + 1)
    message = _refused(api, PULSAR_CONSUMER, PULSAR_CONSUMER.resource(name, spec))
    assert f"metadata.name '{name}'" in message
    assert "at most 52" in message


@pytest.mark.parametrize("kind", DOCUMENTED.values(), ids=_title)
def test_longest_name_is_admitted(api: Api, kind: Kind) -> None:
    longest = 253 if kind is MY_CUSTOM_RESOURCE else LONGEST_NAME
    name = "n" * longest
    api.create(kind.collection, kind.resource(name, MINIMAL_SPECS[kind.id]), dry_run=True).accepted()


@pytest.mark.parametrize("kind", DOCUMENTED.values(), ids=_title)
def test_resource_without_spec_is_refused(api: Api, kind: Kind) -> None:
    body = kind.resource("bad", {})
    del body["spec"]
    assert "spec: Required value" in _refused(api, kind, body)


@pytest.mark.parametrize("kind", DOCUMENTED.values(), ids=_title)
def test_unknown_field_is_refused_and_not_dropped(api: Api, kind: Kind) -> None:
    spec = {**MINIMAL_SPECS[kind.id], "mispelt": 1}
    answer = api.create(kind.collection, kind.resource("bad", spec), dry_run=True)
    assert answer.status == 400
    assert 'unknown field "spec.mispelt"' in answer.message


def test_bad_update_leaves_what_was_there(api: Api, new_name: Callable[[], str]) -> None:
    path = f"{MEMCACHED.collection}/{new_name()}"
    created = api.create(
        MEMCACHED.collection, MEMCACHED.resource(path.rpartition("/")[2], {"size": 2})
    ).accepted()
    assert api.merge(path, {"spec": {"size": 101}}).status == 422
    assert api.get(path).accepted()["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"]
