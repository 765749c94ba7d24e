"""Whatever events the store gets, in whatever order, it holds the existing objects and nothing else."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from kindling.engine.store import Key
from kindling.kube.resources import POD, SECRET, SERVICE, Object, Ref, ResourceType

from tests.unit.operator.watcher_kind import TYPE, child_labels, key, new_store, obj, watched_objects

NAMESPACES, NAMES = ("ns", "far"), ("joe", "ann")
PLACES = st.tuples(st.sampled_from(NAMESPACES), st.sampled_from(NAMES))
LOOKS = st.lists(st.sampled_from([*NAMES, "nobody"]), max_size=3)
TYPES = st.sampled_from([POD, SECRET, SERVICE])


class AnyOrder(RuleBasedStateMachine):
    """A cluster's log of events, of which the store gets any, in any order, any number of times.

    The naive model: of each object the newest version counts, and all resources are searched for watchers.
    """

    @initialize()
    def start(self) -> None:
        self.store = new_store()
        self.versions = itertools.count(1)
        self.there: dict[Ref, Object] = {}
        self.log: list[tuple[bool, ResourceType, Object]] = []
        self.delivered: dict[Ref, tuple[int, Object | None]] = {}

    def write(self, type: ResourceType, ns: str, name: str, **rest: Any) -> None:
        ref, version = Ref(type, ns, name), next(self.versions)
        uid = self.there[ref]["metadata"]["uid"] if ref in self.there else f"uid-{version}"
        self.there[ref] = obj(name, version, ns=ns, uid=uid, **rest)
        self.log.append((True, type, self.there[ref]))

    @rule(place=PLACES, pods=LOOKS, secrets=LOOKS)
    def write_watcher(self, place: tuple[str, str], pods: list[str], secrets: list[str]) -> None:
        self.write(TYPE, *place, spec={"pods": pods, "secrets": secrets})

    @rule(type=TYPES, place=PLACES, owner=st.sampled_from([None, *NAMES]))
    def write_object(self, type: ResourceType, place: tuple[str, str], owner: str | None) -> None:
        self.write(type, *place, metadata={"labels": child_labels(owner)} if owner else {})

    @precondition(lambda self: self.there)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        ref = data.draw(st.sampled_from(sorted(self.there, key=str)))
        gone = self.there.pop(ref)
        meta = {**gone["metadata"], "resourceVersion": str(next(self.versions))}
        self.log.append((False, ref.type, {**gone, "metadata": meta}))

    @precondition(lambda self: self.log)
    @rule(data=st.data())
    def deliver_any(self, data: st.DataObject) -> None:
        self.deliver(data.draw(st.integers(0, len(self.log) - 1)))

    @rule()
    def deliver_all(self) -> None:
        for number in range(len(self.log)):
            self.deliver(number)
        assert {ref for ref, (_, what) in self.delivered.items() if what is not None} == self.there.keys()

    def deliver(self, number: int) -> None:
        there, type, what = self.log[number]
        ref = Ref(type, what["metadata"]["namespace"], what["metadata"]["name"])
        before = self.seen()
        concerned = (self.store.upsert if there else self.store.delete)(type, what)
        version = int(what["metadata"]["resourceVersion"])
        if version >= self.delivered.get(ref, (0, None))[0]:
            self.delivered[ref] = (version, what if there else None)
        changed = {
            name for name in before.keys() | self.seen().keys() if before.get(name) != self.seen().get(name)
        }
        assert changed <= concerned
        owners = (
            {key(name, ns=ref.namespace) for name in NAMES}
            if type != TYPE
            else {key(ref.name, ns=ref.namespace)}
        )
        looking = {
            Key(TYPE.group_kind, other.namespace, other.name)
            for other, (_, cr) in self.delivered.items()
            if other.type == TYPE
            and cr is not None
            and any(look.type == type and look.name == ref.name for look in watched_objects(cr))
        }
        assert concerned <= owners | looking

    def seen(self) -> dict[Key, set[tuple[Ref, str]]]:
        """What each resource must see, the slow way."""
        known = {ref: what for ref, (_, what) in self.delivered.items() if what is not None}
        return {
            Key(TYPE.group_kind, ref.namespace, ref.name): {
                (other, found["metadata"]["resourceVersion"])
                for look in watched_objects(cr)
                for other, found in known.items()
                if (other.type, other.name) == (look.type, look.name)
                and look.namespace in (None, other.namespace)
            }
            for ref, cr in known.items()
            if ref.type == TYPE
        }

    @invariant()
    def sees_what_is_there(self) -> None:
        for name, expected in self.seen().items():
            found = self.store.watched_by(name)
            assert {(ref, what["metadata"]["resourceVersion"]) for ref, what in found.items()} == expected

    @invariant()
    def keeps_nothing_else(self) -> None:
        """Every index is that of a fresh store which only got the existing objects."""
        fresh = new_store()
        for ref, (_, what) in self.delivered.items():
            if what is not None:
                fresh.upsert(ref.type, what)
        ours, theirs = vars(self.store), vars(fresh)
        aside = ("_tombstones", "_watched_objects", "_compressors", "_objects", "_watched")
        assert [name for name in ours if name not in aside and ours[name] != theirs[name]] == []
        watched, as_watched = vars(ours["_watched"]), vars(theirs["_watched"])
        given = ("_cached", "types_changed")
        assert [name for name in watched if name not in given and watched[name] != as_watched[name]] == []
        # The same object, packed by another sample.
        kept, expected = (
            {ref: (held.version, held.uid, held.object) for ref, held in objects.items()}
            for objects in (ours["_objects"], theirs["_objects"])
        )
        assert kept == expected


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=150, stateful_step_count=40, database=None)
