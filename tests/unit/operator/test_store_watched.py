"""Resources that watch other writers' objects: enqueued by every change of these, and by nothing else."""

from __future__ import annotations

import gc
import sys
from types import FrameType
from typing import Any

import pytest
from kindling.engine import store as module
from kindling.engine.store import Store
from kindling.kinds.base import WatchedObject
from kindling.kinds.metadata import INSTANCE_LABEL, KIND_LABEL
from kindling.kube.resources import POD, SECRET, SEEN_WHOLE, VOLUME_CLAIM, Ref

from tests.unit.operator.watcher_kind import TYPE, child_labels, key, new_store, obj, watcher


@pytest.mark.parametrize("pod_first", [True, False])
def test_found_in_whatever_order_they_come(pod_first: bool) -> None:
    store = new_store()
    events = [(POD, obj("joe", 1, ns="far")), (TYPE, watcher("a", 2, pods=["joe"]))]
    for type, what in events if pod_first else reversed(events):
        assert key("a") in store.upsert(type, what) or (type == POD and pod_first)
    assert store.watched_by(key("a")).keys() == {Ref(POD, "far", "joe")}


def test_every_watcher_is_enqueued_and_nothing_else() -> None:
    store = new_store()
    store.upsert(TYPE, watcher("a", 1, pods=["joe"]))
    store.upsert(TYPE, watcher("b", 2, ns="far", pods=["ann", "joe"]))
    store.upsert(TYPE, watcher("c", 3, pods=["ann"]))
    assert store.upsert(POD, obj("joe", 4, ns="far")) == {key("a"), key("b", ns="far")}
    assert store.delete(POD, obj("joe", 5, ns="far")) == {key("a"), key("b", ns="far")}
    assert store.upsert(POD, obj("joe-2", 6)) == set()


def test_a_look_into_one_namespace_sees_no_other() -> None:
    store = new_store()
    store.upsert(TYPE, watcher("a", 1, secrets=["token"]))
    assert store.upsert(SECRET, obj("token", 2, ns="far", data={"k": "dg=="})) == set()
    assert store.upsert(SECRET, obj("token", 3, data={"k": "dg=="})) == {key("a")}
    assert store.watched_by(key("a")) == {Ref(SECRET, "ns", "token"): obj("token", 3)}


def test_a_pod_that_is_being_deleted_is_there_until_it_is_gone() -> None:
    store = new_store()
    store.upsert(TYPE, watcher("a", 1, pods=["joe"]))
    store.upsert(POD, obj("joe", 2))
    store.upsert(POD, obj("joe", 3, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}))
    assert store.watched_by(key("a"))
    store.delete(POD, obj("joe", 4))
    assert not store.watched_by(key("a"))


def test_a_changed_spec_looks_elsewhere_and_no_longer_there() -> None:
    store = new_store()
    store.upsert(POD, obj("joe", 1))
    store.upsert(TYPE, watcher("a", 2, pods=["joe"]))
    store.upsert(TYPE, watcher("a", 3, pods=["ann"]))
    assert store.watched_by(key("a")) == {}
    assert store.upsert(POD, obj("joe", 4)) == set()
    assert store.upsert(POD, obj("ann", 5)) == {key("a")}


def test_an_older_spec_does_not_turn_its_eyes_back() -> None:
    store = new_store()
    store.upsert(TYPE, watcher("a", 3, pods=["ann"]))
    assert store.upsert(TYPE, watcher("a", 2, pods=["joe"])) == set()
    assert store.upsert(POD, obj("joe", 4)) == set()


def test_a_deleted_resource_is_not_enqueued_and_a_new_one_of_its_name_is() -> None:
    store = new_store()
    store.upsert(TYPE, watcher("a", 1, pods=["joe"]))
    assert store.delete(TYPE, watcher("a", 2, pods=["joe"])) == {key("a")}
    assert store.upsert(POD, obj("joe", 3)) == set()
    assert store.watched_by(key("a")) == {}
    store.upsert(TYPE, {**obj("a", 4, uid="next"), "spec": {"pods": ["joe"]}})
    assert store.watched_by(key("a")).keys() == {Ref(POD, "ns", "joe")}


def test_a_late_word_does_not_bring_a_pod_back() -> None:
    store = new_store()
    store.upsert(TYPE, watcher("a", 1, pods=["joe"]))
    store.delete(POD, obj("joe", 9))
    store.delete(POD, obj("joe", 5))  # delivered twice, the second time out of order
    assert store.upsert(POD, obj("joe", 7)) == set()
    assert store.watched_by(key("a")) == {}


def test_a_namesakes_deletion_takes_along_what_was_missed() -> None:
    """The first Pod's deletion and the second's creation were lost with a watch."""
    store = new_store()
    store.upsert(TYPE, watcher("a", 1, pods=["joe"]))
    store.upsert(POD, obj("joe", 2, uid="first"))
    assert store.delete(POD, obj("joe", 4, uid="second")) == {key("a")}
    assert store.watched_by(key("a")) == {}


def test_tombstones_are_dropped_oldest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A churn of Pods must not cost memory; the next resync drops what a late event brings back."""
    monkeypatch.setattr(module, "TOMBSTONES", 2)
    store = new_store()
    # One that dies again under its name is the youngest.
    for number, name in enumerate(["mid", "old", "mid", "new"], start=1):
        store.delete(POD, obj(name, number))
    for name in ("old", "mid", "new"):
        store.upsert(POD, obj(name, 1))
    assert store.refs(POD) == {Ref(POD, "ns", "old")}


def test_of_anybodys_pod_only_who_it_is_is_kept() -> None:
    store = new_store()
    noise = {"labels": {"app": "x"}, "annotations": {"a": "b"}, "ownerReferences": [{"uid": "ns/a"}]}
    store.upsert(TYPE, watcher("a", 1, pods=["joe"]))
    store.upsert(POD, obj("joe", 2, metadata=noise, spec={"containers": []}, status={"phase": "Running"}))
    assert store.get(Ref(POD, "ns", "joe")) == obj("joe", 2)


def test_ours_are_kept_whole_and_are_children_too() -> None:
    store = new_store()
    store.upsert(TYPE, watcher("a", 1, pods=["joe"]))
    ours = obj("joe", 2, metadata={"labels": child_labels("b")}, status={"phase": "Running"})
    assert store.upsert(POD, ours) == {key("a"), key("b")}
    assert store.children(key("b")) == {Ref(POD, "ns", "joe"): ours}


def test_one_that_sheds_our_label_is_no_child_any_more() -> None:
    """As in a watch by label; else a bare projection would pass for the child, and never be repaired."""
    store = new_store()
    store.upsert(TYPE, watcher("b", 1))
    store.upsert(SECRET, obj("s", 2, metadata={"labels": child_labels("b")}))
    left = {KIND_LABEL: TYPE.group_kind, INSTANCE_LABEL: "b"}
    shed = obj("s", 3, metadata={"labels": left, "ownerReferences": [{"uid": "ns/b"}]})
    assert store.upsert(SECRET, shed) == {key("b")}
    assert store.children(key("b")) == {}


def test_a_kind_of_ours_may_be_watched_by_another() -> None:
    store = Store(
        [TYPE],
        watches=[TYPE],
        watched_objects={TYPE.group_kind: lambda cr: [WatchedObject(TYPE, cr["spec"]["of"])]},
    )
    store.upsert(TYPE, obj("backup", 1, spec={"of": "db"}))
    assert store.upsert(TYPE, obj("db", 2, spec={"of": "x"})) == {key("db"), key("backup")}
    assert store.watched_by(key("backup")) == {Ref(TYPE, "ns", "db"): obj("db", 2, spec={"of": "x"})}
    assert store.delete(TYPE, obj("db", 3)) == {key("db"), key("backup")}


def test_an_unrelated_pod_costs_the_same_among_many_as_among_few() -> None:
    def steps(resources: int) -> int:
        store = new_store()
        for number in range(resources):
            store.upsert(TYPE, watcher(f"r{number}", number, pods=[f"friend-{number}"]))
            store.upsert(POD, obj(f"friend-{number}", number))
        taken = 0

        def count(frame: FrameType, event: str, _: Any) -> Any:
            nonlocal taken
            frame.f_trace_opcodes = True
            taken += event == "opcode"
            return count

        before = sys.gettrace()
        gc.disable()  # what is called on a collection, by Hypothesis for one, would be counted too
        sys.settrace(count)
        try:
            keys = store.upsert(POD, obj("stranger", 10**6)) | store.delete(POD, obj("stranger", 10**6 + 1))
        finally:
            sys.settrace(before)
            gc.enable()
        assert keys == set()
        return taken

    steps(5)  # once: what is loaded and remembered with the first use is not counted
    assert 0 < steps(5) == steps(2000)


def test_an_own_write_concerns_those_who_watch_the_object_but_do_not_own_it() -> None:
    """The owner's reconciliation knows what it wrote; only this event reports it to another resource."""
    store = new_store()
    store.upsert(TYPE, watcher("owner", 1))
    store.upsert(TYPE, watcher("other", 2, secrets=["made"]))
    made = obj("made", 3, metadata={"labels": child_labels("owner")})
    store.upsert(SECRET, made)
    assert store.handle_event(SECRET, "ADDED", made) == {key("other")}
    unwatched = obj("unwatched", 4, metadata={"labels": child_labels("owner")})
    store.upsert(SECRET, unwatched)
    assert store.handle_event(SECRET, "ADDED", unwatched) == set()


def test_a_claim_of_others_is_seen_whole_and_all_else_by_who_it_is() -> None:
    """Whether it can be used, its spec and its status say."""
    look = {TYPE.group_kind: lambda cr: [WatchedObject(type, "one", "ns") for type in (VOLUME_CLAIM, POD)]}
    store = Store([TYPE], watches=[POD, VOLUME_CLAIM], watched_objects=look)
    store.upsert(TYPE, obj("a", 1))
    parts = {"spec": {"accessModes": ["ReadWriteMany"]}, "status": {"phase": "Bound"}}
    for type in (VOLUME_CLAIM, POD):
        store.upsert(type, {**obj("one", 2), **parts})
    seen = {ref.type: found for ref, found in store.watched_by(key("a")).items()}
    assert {name: seen[VOLUME_CLAIM][name] for name in parts} == parts
    assert set(seen[POD]) == {"metadata"}
    assert frozenset({VOLUME_CLAIM}) == SEEN_WHOLE
