"""How much the operator writes, as the API server counts it: for each kind what it must, at rest nothing."""

from __future__ import annotations

import time
from collections import Counter

import pytest
from kindling.kinds.base import Kind
from kindling.kube.resources import SECRET, Ref

from tests.apiserver.conftest import Replica
from tests.apiserver.support.apiclient import Json
from tests.apiserver.support.audit import Request
from tests.apiserver.support.cluster import KINDS_BY_NAME, Cluster, ref_to
from tests.apiserver.support.kinds import (
    MEMCACHED,
    MY_CUSTOM_RESOURCE,
    OF_ANOTHER,
    POSTGRESQL,
    POSTGRESQL_EXAMPLE,
    PULSAR_CONSUMER,
    WITH_A_STORE,
)

MAKERS = {crd: kind for crd, kind in KINDS_BY_NAME.items() if kind.type.kind not in OF_ANOTHER}
EACH_KIND = pytest.mark.parametrize("served", MAKERS.values(), ids=MAKERS.keys())
STATUS_WRITES = 2
MANY = 20
REST_SECONDS = 10.0
RESTART_SECONDS = 5.0
MORE_MEMORY: Json = {"resources": {"limits": {"memory": "640Mi"}}}
CHANGES: dict[str, Json] = {
    POSTGRESQL.id: MORE_MEMORY,
    POSTGRESQL_EXAMPLE.id: MORE_MEMORY,
    MEMCACHED.id: {"containerPort": 11311},
    PULSAR_CONSUMER.id: {"topic": "invoices"},
    MY_CUSTOM_RESOURCE.id: {"name": "another-friend"},
}

pytestmark = pytest.mark.usefixtures("replica")


@pytest.fixture(scope="module")
def many(running_cluster: Cluster, replica: Replica, namespace: str) -> tuple[int, list[Ref]]:
    """Many resources of each kind, at rest; the mark is from before the first of them."""
    mark = running_cluster.audit.mark()
    refs = []
    for number in range(MANY):
        for kind, served in enumerate(KINDS_BY_NAME.values()):
            name = f"many-{kind}-{number}"  # No two kinds share names, which would be a conflict.
            running_cluster.create(served, namespace, name)
            refs.append(ref_to(served, namespace, name))
    running_cluster.wait_settled(*refs, seconds=60)
    return mark, refs


def _listed(writes: list[Request]) -> str:
    return ", ".join(f"{request.verb} {request.resource} {request.name}" for request in writes)


def _expect(cluster: Cluster, ref: Ref, writes: list[Request]) -> int:
    """One write for each child, no more than two of the status; returns how many of the status."""
    served = next(served for served in KINDS_BY_NAME.values() if served.type == ref.type)
    children = cluster.children(served, ref.namespace, ref.name)
    made = Counter(
        (request.group, request.resource, request.name) for request in writes if not request.status
    )
    wanted = Counter((child.type.group, child.type.plural, child.name) for child in children)
    assert made == wanted, _listed(writes)
    status = len([request for request in writes if request.status])
    assert 1 <= status <= STATUS_WRITES, _listed(writes)
    return status


@EACH_KIND
def test_new_resource_takes_a_write_for_each_child_and_two_at_most(
    running_cluster: Cluster, namespace: str, served: Kind
) -> None:
    name = f"one-{list(KINDS_BY_NAME.values()).index(served)}"
    ref, mark = ref_to(served, namespace, name), running_cluster.audit.mark()
    running_cluster.create(served, namespace, ref.name)
    running_cluster.wait_settled(ref)
    try:
        writes = running_cluster.audit.writes(mark, namespace=namespace)
        status = _expect(running_cluster, ref, writes)
        asked = running_cluster.audit.requests(mark)
        read = [r.resource for r in asked if r.verb == "get" and r.name.startswith(ref.name)]
        assert read.count(ref.type.plural) == bool(served.children)  # Is it still there?
        if SECRET not in served.children:  # No name is looked up where nothing is made once for all.
            assert len(read) <= 1
        said = [request for request in asked if request.resource == "events"]
        print(
            f"{ref.type.group_kind}: {len(writes) - status} children, {status} of the status, "
            f"{len(said)} Events; Ready is {running_cluster.ready(ref).get('reason')}"
        )
    finally:
        running_cluster.delete(ref)
        running_cluster.audit.wait_quiet()


def test_many_resources_take_no_more_each(
    running_cluster: Cluster, namespace: str, many: tuple[int, list[Ref]]
) -> None:
    mark, refs = many
    writes = running_cluster.audit.writes(mark, namespace=namespace)
    for ref in refs:
        served = next(served for served in KINDS_BY_NAME.values() if served.type == ref.type)
        names = {(c.type.plural, c.name) for c in running_cluster.children(served, ref.namespace, ref.name)}
        names.add((f"{ref.type.plural}/status", ref.name))
        own = [
            request
            for request in writes
            if (request.resource, request.name) in names and request.group in _groups(served)
        ]
        _expect(running_cluster, ref, own)


def test_at_rest_nothing_is_written(
    running_cluster: Cluster, namespace: str, many: tuple[int, list[Ref]]
) -> None:
    mark = running_cluster.audit.mark()
    time.sleep(REST_SECONDS)
    assert _listed(running_cluster.audit.writes(mark, namespace=namespace)) == ""


@EACH_KIND
def test_changed_field_takes_a_write_for_each_child_that_it_changes(
    running_cluster: Cluster, namespace: str, many: tuple[int, list[Ref]], served: Kind
) -> None:
    """And one more, once, for each that may hold fields by creation that are no longer wanted."""
    if served.type.kind in WITH_A_STORE:
        pytest.skip("without a database and a store it has nothing to change: tests/cluster/test_backup.py")
    ref = next(ref for ref in many[1] if ref.type == served.type)
    before = running_cluster.children(served, ref.namespace, ref.name)
    mark = running_cluster.audit.mark()
    running_cluster.merge(ref, {"spec": CHANGES[f"{served.type.plural}.{served.type.group}"]})
    running_cluster.wait_settled(ref)
    after = running_cluster.children(served, ref.namespace, ref.name)
    changed = Counter(
        (child.type.plural, child.name)
        for child in before.keys() | after.keys()
        if _wanted(before.get(child)) != _wanted(after.get(child))
    )
    assert bool(changed) == bool(before)
    for child, obj in before.items():
        changed[child.type.plural, child.name] += _by_creation(obj) and not _by_creation(after[child])
    writes = running_cluster.audit.writes(mark, namespace=namespace)
    made = Counter((request.resource, request.name) for request in writes if not request.status)
    assert made == +changed, _listed(writes)
    # Beside these two, the old Pod's deletion and its successor's creation may be reported.
    assert 1 <= len(writes) - made.total() <= STATUS_WRITES + 2, _listed(writes)


def test_nothing_of_kopf_is_left_on_anything(
    running_cluster: Cluster, namespace: str, many: tuple[int, list[Ref]]
) -> None:
    found = []
    for item in running_cluster.everything():
        meta = item["metadata"]
        managers = [entry["manager"] for entry in meta.get("managedFields", ())]
        words = [*meta.get("annotations", {}), *meta.get("finalizers", ()), *managers]
        found += [(item["kind"], meta["name"], word) for word in words if "kopf" in word.lower()]
    assert found == []


def test_no_resource_waits_for_a_finalizer(
    running_cluster: Cluster, namespace: str, many: tuple[int, list[Ref]]
) -> None:
    kept = [ref for ref in many[1] if (running_cluster.get(ref) or {})["metadata"].get("finalizers")]
    assert kept == []


def test_restart_writes_nothing(
    running_cluster: Cluster, replica: Replica, namespace: str, many: tuple[int, list[Ref]]
) -> None:
    replica.stop()
    mark = running_cluster.audit.mark()
    replica.start()
    time.sleep(RESTART_SECONDS)
    assert _listed(running_cluster.audit.writes(mark, namespace=namespace)) == ""
    watched = {
        request.resource for request in running_cluster.audit.requests(mark) if request.verb == "watch"
    }
    assert {served.type.plural for served in KINDS_BY_NAME.values()} <= watched, "it had not started to look"


def test_no_request_was_beyond_its_rights(
    running_cluster: Cluster, namespace: str, many: tuple[int, list[Ref]]
) -> None:
    assert [request for request in running_cluster.audit.requests(0) if request.forbidden] == []


def _groups(served: Kind) -> set[str]:
    return {served.type.group, *(type.group for type in served.children)}


def _by_creation(child: Json) -> bool:
    """Whether fields of it are ours because we created it."""
    entries = child["metadata"]["managedFields"]
    return any((entry["manager"], entry["operation"]) == ("kindling", "Update") for entry in entries)


def _wanted(child: Json | None) -> Json:
    """What of a child the operator may have a hand in: no status, no book-keeping of the server."""
    kept = {key: value for key, value in (child or {}).items() if key not in ("status", "metadata")}
    meta = (child or {}).get("metadata", {})
    return {**kept, **{key: meta.get(key) for key in ("uid", "labels", "annotations", "ownerReferences")}}
