"""The status subresource, the scale subresource and what `kubectl get` shows of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.apiserver.support.apiclient import TABLE, Api, Json
from tests.apiserver.support.kinds import (
    DOCUMENTED,
    MEMCACHED,
    MINIMAL_SPECS,
    MY_CUSTOM_RESOURCE,
    POSTGRESQL,
    POSTGRESQL_EXAMPLE,
    PULSAR_CONSUMER,
    Kind,
    merged,
)

EACH_KIND = pytest.mark.parametrize("kind", DOCUMENTED.values(), ids=DOCUMENTED.keys())


def _condition(of_type: str) -> Json:
    return {
        "type": of_type,
        "status": "True",
        "reason": "AsObserved",
        "message": "All is well; nothing to do.",
        "observedGeneration": 1,
        "lastTransitionTime": "2024-01-02T03:04:05Z",
    }


POSTGRESQL_STATUS: Json = {
    "pgPhase": "up",
    "active": {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "db-0",
        "namespace": "default",
        "uid": "0b7c2f9e-0000-4000-8000-000000000000",
        "resourceVersion": "17",
    },
    "binding": {"name": "db-binding"},
    "version": "17.5",
    "pendingRestart": ["max_connections"],
    "initSQL": {"appliedAt": "2024-01-02T03:04:05Z"},
    "hba": ["local all kindling peer map=kindling", "host all all 10.0.0.0/8 reject"],
    "lastRestartSeconds": 8,
    "approvals": [{"name": "3f9a1c07be", "disruption": "Restart", "message": "One restart."}],
    "storage": {
        "capacity": "1229Mi",
        "usedBytes": 900000000,
        "measuredAt": "2024-01-02T03:04:05Z",
        "growthBytesPerHour": -7,
        "growthSince": "2024-01-02T03:04:05Z",
        "fullAt": "2024-01-03T03:04:05Z",
    },
    "plan": {
        "disruption": "Restart",
        "items": [
            {
                "action": "Update",
                "object": "StatefulSet/db",
                "fields": ["spec.image"],
                "disruption": "Restart",
                "message": "one restart, about 8 s",
                "seconds": 8,
            },
            {"action": "Delete", "disruption": "None", "message": "is deleted"},
        ],
    },
    "observedGeneration": 1,
    "conditions": [_condition("Ready")],
}

STATUSES: dict[str, Json] = {
    POSTGRESQL.id: POSTGRESQL_STATUS,
    POSTGRESQL_EXAMPLE.id: POSTGRESQL_STATUS,
    MEMCACHED.id: {
        "replicas": 1,
        "selector": "app.kubernetes.io/instance=cache",
        "observedGeneration": 1,
        "conditions": [_condition(name) for name in ("Available", "Progressing", "Degraded", "Ready")],
    },
    PULSAR_CONSUMER.id: {
        "server": "pulsar://broker:6650",
        "topic": "orders",
        "subscription": "printers",
        "replicas": 1,
        "observedGeneration": 1,
        "conditions": [_condition("Ready")],
    },
    MY_CUSTOM_RESOURCE.id: {
        "Healthy": False,
        "observedGeneration": 1,
        "conditions": [_condition("Ready")],
    },
}

UNSEEN: Json = {"observedGeneration": -1}

# The columns of the documents first, then Ready and Age; what only `-o wide` shows comes last.
COLUMNS: dict[str, list[tuple[str, object]]] = {
    POSTGRESQL.id: [("Phase", "up"), ("Version", "17.5")],
    POSTGRESQL_EXAMPLE.id: [("Phase", "up"), ("Version", "17.5")],
    MEMCACHED.id: [("Size", 1), ("Available", "True")],
    PULSAR_CONSUMER.id: [
        ("Server", "pulsar://broker:6650"),
        ("Topic", "orders"),
        ("Subscription", "printers"),
        ("Replicas", 1),
    ],
    MY_CUSTOM_RESOURCE.id: [("Friend", "friend"), ("Healthy", False)],
}


@pytest.fixture
def existing(api: Api, new_name: Callable[[], str]) -> Callable[[Kind], str]:
    """Create the least resource of a kind and give back its path."""

    def _existing(kind: Kind) -> str:
        name = new_name()
        api.create(kind.collection, kind.resource(name, MINIMAL_SPECS[kind.id])).accepted()
        return f"{kind.collection}/{name}"

    return _existing


@EACH_KIND
def test_documented_status_is_kept_whole(api: Api, existing: Callable[[Kind], str], kind: Kind) -> None:
    path, status = existing(kind), STATUSES[kind.id]
    api.merge(f"{path}/status", {"status": status}).accepted()
    assert api.get(path).accepted()["status"] == status


@EACH_KIND
def test_until_a_status_is_written_it_says_that_nobody_has_looked(
    api: Api, existing: Callable[[Kind], str], kind: Kind
) -> None:
    """What has no status, or none of its generation, is healthy or not to GitOps tools: kstatus."""
    path = existing(kind)
    found = api.get(path).accepted()
    assert found["status"] == UNSEEN
    assert found["metadata"]["generation"] == 1
    listed = {item["metadata"]["name"]: item for item in api.get(kind.collection).accepted()["items"]}
    assert listed[found["metadata"]["name"]]["status"] == UNSEEN
    # A merge patch is laid over it, as the operator writes its first status.
    api.merge(f"{path}/status", {"status": STATUSES[kind.id]}).accepted()
    assert api.get(path).accepted()["status"] == STATUSES[kind.id]
    api.merge(f"{path}/status", {"status": None}).accepted()
    assert api.get(path).accepted()["status"] == UNSEEN


@pytest.mark.parametrize("kind", [POSTGRESQL, POSTGRESQL_EXAMPLE], ids=lambda kind: kind.id)
@pytest.mark.parametrize("phase", ["up", "pending", "Failed"])
def test_phases_of_the_document_are_admitted_in_its_spelling(
    api: Api, existing: Callable[[Kind], str], kind: Kind, phase: str
) -> None:
    written = api.merge(f"{existing(kind)}/status", {"status": {"pgPhase": phase}}).accepted()
    assert written["status"] == {**UNSEEN, "pgPhase": phase}


@EACH_KIND
def test_status_and_spec_can_not_be_written_through_each_other(
    api: Api, existing: Callable[[Kind], str], kind: Kind
) -> None:
    path = existing(kind)
    spec = api.get(path).accepted()["spec"]
    api.merge(path, {"status": STATUSES[kind.id]}).accepted()
    after = api.merge(f"{path}/status", {"spec": None, "status": STATUSES[kind.id]}).accepted()
    assert after["spec"] == spec
    assert after["metadata"]["generation"] == 1
    untouched = existing(kind)
    api.merge(untouched, {"status": STATUSES[kind.id]}).accepted()
    assert api.get(untouched).accepted()["status"] == UNSEEN


@EACH_KIND
def test_conditions_of_two_managers_are_merged_by_type(
    api: Api, existing: Callable[[Kind], str], kind: Kind
) -> None:
    path = existing(kind)
    body = api.get(path).accepted()
    head = {key: body[key] for key in ("apiVersion", "kind")} | {
        "metadata": {"name": body["metadata"]["name"]}
    }
    needed = {"Healthy": True} if kind is MY_CUSTOM_RESOURCE else {}
    for manager, of_type in (("one", "Ready"), ("two", "Audited")):
        status = {**needed, "conditions": [_condition(of_type)]}
        api.apply(f"{path}/status", {**head, "status": status}, manager=manager).accepted()
    conditions = api.get(path).accepted()["status"]["conditions"]
    assert [condition["type"] for condition in conditions] == ["Ready", "Audited"]


@pytest.mark.parametrize(
    ("kind", "patch", "said"),
    [
        (POSTGRESQL, {"pgPhase": "failed"}, ["status.pgPhase", '"failed"', '"up", "pending", "Failed"']),
        (POSTGRESQL, {"pgPhase": "Up"}, ["status.pgPhase", '"Up"']),
        (POSTGRESQL, {"lastRestartSeconds": 0}, ["status.lastRestartSeconds", "0", "1"]),
        (
            POSTGRESQL,
            {"storage": {"capacity": "1Gi", "usedBytes": -1}},
            ["status.storage.usedBytes", "-1", "0"],
        ),
        (POSTGRESQL, {"plan": {"disruption": "Some"}}, ["status.plan.disruption", '"Some"', '"DataLost"']),
        (POSTGRESQL, {"observedGeneration": -2}, ["status.observedGeneration", "-2"]),
        (MEMCACHED, {"replicas": -1}, ["status.replicas", "-1"]),
        (MY_CUSTOM_RESOURCE, {"Healthy": None}, ["status.Healthy is needed"]),
        (MY_CUSTOM_RESOURCE, {"Healthy": "yes"}, ["status.Healthy", "boolean"]),
    ],
    ids=lambda value: value.id if isinstance(value, Kind) else str(value),
)
def test_wrong_status_is_refused(
    api: Api, existing: Callable[[Kind], str], kind: Kind, patch: Json, said: list[str]
) -> None:
    status = merged(STATUSES[kind.id], patch)
    answer = api.merge(f"{existing(kind)}/status", {"status": status})
    assert answer.status == 422
    assert [words for words in said if words not in answer.message] == [], answer.message


@EACH_KIND
@pytest.mark.parametrize(
    ("patch", "said"),
    [
        ({"status": "true"}, 'supported values: "True", "False", "Unknown"'),
        ({"reason": "not in CamelCase"}, "[A-Z][A-Za-z0-9]*"),
        ({"lastTransitionTime": "yesterday"}, "date-time"),
        ({"message": None}, "message: Required value"),
    ],
)
def test_wrong_condition_is_refused(
    api: Api, existing: Callable[[Kind], str], kind: Kind, patch: Json, said: str
) -> None:
    status = {**STATUSES[kind.id], "conditions": [merged(_condition("Ready"), patch)]}
    answer = api.merge(f"{existing(kind)}/status", {"status": status})
    assert answer.status == 422
    assert said in answer.message
    assert "status.conditions[0]" in answer.message


@EACH_KIND
def test_columns_of_the_documents_come_first(api: Api, existing: Callable[[Kind], str], kind: Kind) -> None:
    path = existing(kind)
    api.merge(f"{path}/status", {"status": STATUSES[kind.id]}).accepted()
    table = api.get(path, accept=TABLE).accepted()
    shown = [
        (column["name"], cell)
        for column, cell in zip(table["columnDefinitions"], table["rows"][0]["cells"], strict=True)
        if column["priority"] == 0
    ]
    assert shown[:-1] == [("Name", path.rpartition("/")[2]), *COLUMNS[kind.id], ("Ready", "True")]
    assert shown[-1][0] == "Age"
    wide = [column["name"] for column in table["columnDefinitions"] if column["priority"] > 0]
    figures = {MEMCACHED.id: ["HitRatio"], PULSAR_CONSUMER.id: ["Backlog"]}
    assert wide == [*figures.get(kind.id, []), "Reason"]


@EACH_KIND
def test_no_column_of_the_spec_is_empty(api: Api, existing: Callable[[Kind], str], kind: Kind) -> None:
    """What a spec leaves out has a value all the same. What is observed is unknown until it is observed."""
    table = api.get(existing(kind), accept=TABLE).accepted()
    shown = dict(zip([c["name"] for c in table["columnDefinitions"]], table["rows"][0]["cells"], strict=True))
    columns = {column["name"]: column["jsonPath"] for column in kind.version["additionalPrinterColumns"]}
    assert [n for n, path in columns.items() if path.startswith(".spec") and shown[n] in (None, "")] == []
    assert [n for n, path in columns.items() if not path.startswith((".spec", ".status", ".metadata"))] == []


def test_size_left_out_is_one_for_autoscalers_too(api: Api, existing: Callable[[Kind], str]) -> None:
    """An absent size reads as 0 replicas, and an autoscaler leaves alone what is scaled to 0."""
    assert api.get(f"{existing(MEMCACHED)}/scale").accepted()["spec"] == {"replicas": 1}


def test_scale_gets_and_sets_the_size_of_memcached(api: Api, existing: Callable[[Kind], str]) -> None:
    path = existing(MEMCACHED)
    api.merge(f"{path}/status", {"status": STATUSES[MEMCACHED.id]}).accepted()
    api.merge(f"{path}/scale", {"spec": {"replicas": 3}}).accepted()
    assert api.get(path).accepted()["spec"]["size"] == 3
    scale = api.get(f"{path}/scale").accepted()
    assert scale["spec"] == {"replicas": 3}
    assert scale["status"] == {"replicas": 1, "selector": "app.kubernetes.io/instance=cache"}


@pytest.mark.parametrize(
    ("version", "replicas"), [("v1alpha1", 4), ("v1alpha1", 0), ("v1beta1", 101), ("v1beta1", 0)]
)
def test_scale_keeps_to_the_bounds_of_size(
    api: Api, existing: Callable[[Kind], str], version: str, replicas: int
) -> None:
    path = existing(replace(MEMCACHED, served=version))
    api.merge(path, {"spec": {"size": 2}}).accepted()
    answer = api.merge(f"{path}/scale", {"spec": {"replicas": replicas}})
    assert answer.status == 422
    assert "spec.size" in answer.message
    assert api.get(path).accepted()["spec"]["size"] == 2
