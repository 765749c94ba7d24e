"""The store keeps the newest version from watches and writes, indexes owners, and holds no Secret's data."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from kindling.engine.store import Key, Store
from kindling.kube.resources import POD, SECRET, SERVICE, Object, Ref, ResourceType

TYPE = ResourceType("example.com", "v1", "Postgresql", "postgresqls")
KEY = Key(TYPE.group_kind, "ns", "db")
LABELS = {"kindling.dev/kind": TYPE.group_kind, "app.kubernetes.io/instance": "db"}


def obj(name: str, version: int, *, uid: str = "u", **meta: Any) -> Object:
    return {
        "metadata": {"namespace": "ns", "name": name, "uid": uid, "resourceVersion": str(version), **meta}
    }


@pytest.fixture
def store() -> Store:
    return Store([TYPE])


def test_objects_of_a_namespace_share_its_name_in_memory(store: Store) -> None:
    for name in ("one", "two"):
        read = orjson.loads(orjson.dumps(obj(name, 1)))  # As it comes: a text of its own for each.
        store.upsert(SERVICE, read)
    assert len({id(ref.namespace) for ref in store.refs(SERVICE)}) == 1


def test_older_word_does_not_undo_a_newer_write(store: Store) -> None:
    store.upsert(SERVICE, {**obj("s", 100, labels=LABELS), "spec": "ours"})
    assert store.upsert(SERVICE, {**obj("s", 99, labels=LABELS), "spec": "stale"}) == set()
    found = store.get(Ref(SERVICE, "ns", "s"))
    assert found is not None
    assert found["spec"] == "ours"


def test_versions_compare_as_numbers(store: Store) -> None:
    store.upsert(SERVICE, {**obj("s", 9), "spec": "old"})
    store.upsert(SERVICE, {**obj("s", 10), "spec": "new"})
    found = store.get(Ref(SERVICE, "ns", "s"))
    assert found is not None
    assert found["spec"] == "new"


def test_late_answer_does_not_raise_the_dead(store: Store) -> None:
    store.delete(SERVICE, obj("s", 11))
    store.upsert(SERVICE, obj("s", 10))
    assert store.get(Ref(SERVICE, "ns", "s")) is None
    store.upsert(SERVICE, obj("s", 12, uid="next"))
    assert store.get(Ref(SERVICE, "ns", "s")) is not None


def test_late_deletion_spares_the_namesake(store: Store) -> None:
    store.upsert(SERVICE, obj("s", 12, uid="next"))
    store.delete(SERVICE, obj("s", 11, uid="u"))
    assert store.get(Ref(SERVICE, "ns", "s")) is not None


def test_child_is_found_by_label_and_by_owner(store: Store) -> None:
    assert store.upsert(TYPE, obj("db", 1, uid="cr")) == {KEY}
    assert store.upsert(SERVICE, obj("by-label", 2, labels=LABELS)) == {KEY}
    assert store.upsert(SERVICE, obj("by-owner", 3, ownerReferences=[{"uid": "cr"}])) == {KEY}
    assert {ref.name for ref in store.children(KEY)} == {"by-label", "by-owner"}
    assert store.delete(SERVICE, obj("by-label", 4, labels=LABELS)) == {KEY}
    assert {ref.name for ref in store.children(KEY)} == {"by-owner"}


def test_what_outlives_its_resource_is_found_by_its_own_label_whatever_another_tool_says(
    store: Store,
) -> None:
    """Argo CD, say, writes the name of an Application where the resource's was."""
    labels = {"kindling.dev/kind": TYPE.group_kind, "kindling.dev/name": "db"}
    assert store.upsert(SERVICE, obj("kept", 1, labels=labels)) == {KEY}
    assert store.upsert(SERVICE, obj("kept", 2, labels={**labels, "app.kubernetes.io/instance": "app"})) == {
        KEY
    }
    assert {ref.name for ref in store.children(KEY)} == {"kept"}


def test_child_that_changes_hands_concerns_both(store: Store) -> None:
    store.upsert(SERVICE, obj("s", 1, labels=LABELS))
    moved = {**LABELS, "app.kubernetes.io/instance": "other"}
    assert store.upsert(SERVICE, obj("s", 2, labels=moved)) == {KEY, Key(TYPE.group_kind, "ns", "other")}
    assert store.children(KEY) == {}


def test_unknown_kind_concerns_nobody(store: Store) -> None:
    labels = {"kindling.dev/kind": "toy.example.com", "app.kubernetes.io/instance": "x"}
    assert store.upsert(SERVICE, obj("s", 1, labels=labels)) == set()


def test_secrets_and_noise_are_not_kept(store: Store) -> None:
    noise: dict[str, Any] = {
        "managedFields": [1],
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "pw", "a": "b"},
    }
    store.upsert(
        SECRET,
        {**obj("s", 1, **noise), "data": {"password": "cHc="}, "stringData": {"x": "y"}, "type": "Opaque"},
    )
    assert store.get(Ref(SECRET, "ns", "s")) == obj("s", 1, annotations={"a": "b"})
    store.upsert(POD, {**obj("p", 1), "spec": {"containers": []}, "status": {"phase": "Running"}})
    assert store.get(Ref(POD, "ns", "p")) == {**obj("p", 1), "status": {"phase": "Running"}}


def test_a_childs_repeated_event_enqueues_nothing(store: Store) -> None:
    """Each of our writes comes back as an event; of a resource itself, a status may ask for more."""
    assert store.upsert(SERVICE, obj("s", 5, labels=LABELS)) == {KEY}
    assert store.upsert(SERVICE, obj("s", 5, labels=LABELS)) == set()
    assert store.upsert(SERVICE, obj("s", 6, labels=LABELS)) == {KEY}
    assert store.upsert(TYPE, obj("db", 7)) == store.upsert(TYPE, obj("db", 7)) == {KEY}


def test_child_seen_before_its_owner_is_found_when_it_is_seen_again(store: Store) -> None:
    child = obj("s", 2, ownerReferences=[{"uid": "cr"}])
    assert store.upsert(SERVICE, child) == set()
    store.upsert(TYPE, obj("db", 1, uid="cr"))
    assert store.upsert(SERVICE, child) == {KEY}


def test_what_it_gives_out_is_nobodys_but_the_askers(store: Store) -> None:
    store.upsert(SERVICE, {**obj("s", 1, labels=LABELS), "spec": {"a": 1}})
    store.children(KEY)[Ref(SERVICE, "ns", "s")]["spec"]["a"] = 2
    assert store.children(KEY)[Ref(SERVICE, "ns", "s")]["spec"] == {"a": 1}
