"""A cluster in memory with the real store, queue, reconciler and resync in it, driven step by step."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from kindling.engine.dependencies import Dependencies
from kindling.engine.edits import Edit
from kindling.engine.event_lookups import EventLookups
from kindling.engine.external import ExternalState
from kindling.engine.flight_recorder import FlightRecorder
from kindling.engine.metrics import Metrics
from kindling.engine.plan import Apply, plan
from kindling.engine.queue import Queue
from kindling.engine.resource_writer import Outdated
from kindling.engine.restart_queue import RestartQueue
from kindling.engine.resync import Resync
from kindling.engine.store import Key, Store, key_of
from kindling.engine.worker import Reconciler
from kindling.kinds.base import ExternalResult, Kind, Observed, RequeueAfter
from kindling.kinds.conditions import find_condition, rfc3339
from kindling.kinds.metadata import MANAGED_BY_LABEL, MANAGER, named_in
from kindling.kinds.postgresql.login import Login
from kindling.kinds.registry import Options, kinds
from kindling.kinds.server_tls import DEFAULT_LIFE
from kindling.kube.errors import ApiError
from kindling.kube.resources import Object, Ref, ResourceType, ref_of

from tests.model.faults import Crash, FaultyApi
from tests.model.memory import MemoryApi
from tests.model.workloads import run_pods

IMAGES = {
    "postgres": "postgres:17",
    "postgres-init": "postgres-init:1",
    "postgres-backup": "backup:17",
    "memcached": "memcached:1",
    "exporters": "exporters:1",
    "pulsar-consumer": "consumer:1",
}
OPTIONS = Options(IMAGES, "kindling-system", "broker.pulsar:6650", (), DEFAULT_LIFE)
KINDS = kinds(IMAGES, local_broker=OPTIONS.local_broker)
KINDS_BY_NAME: dict[str, Kind] = {kind.type.group_kind: kind for kind in KINDS}
WATCHES = {type for kind in KINDS for type in kind.watches}
RESOURCES = [kind.type for kind in KINDS]
FOLLOWED = list(dict.fromkeys(type for kind in KINDS for type in (*kind.children, *kind.watches)))
NOW = datetime(2026, 1, 2, tzinfo=UTC)
AGES = timedelta(minutes=11)
"""Longer than anything that is only a matter of time."""

Event = tuple[str, ResourceType, Object]


class World:
    """`settle` delivers the watch log and reconciles until nothing is left to do."""

    def __init__(self) -> None:
        self.api = MemoryApi()
        self.faulty = FaultyApi(self.api, claimed=self._claimed)
        self.logins: list[Login] = []
        self.status_changes: list[tuple[str, str]] = []
        self.repaired: list[tuple[str, str]] = []
        self.answer: ExternalResult | Callable[[Any], ExternalResult] = ExternalResult(ok=True)
        self.failures = 0
        self.now = NOW
        self.api.clock = lambda: rfc3339(self.now)
        self.kinds_by_name = KINDS_BY_NAME
        self.noted = ""
        """What the operator noted for its next leader."""
        self.recorder = FlightRecorder(clock=lambda: self.now)
        """Of all operator processes: what one has in memory does not matter here."""
        self.lost = False
        """Whether events were lost since all was last listed."""
        self.interfered = False
        """Whether anybody did anything in the midst of the pass that is under way."""
        self.restart()

    def restart(self) -> None:
        """A new operator process: it lists all objects and has not seen anything before."""
        self.store = Store(
            [kind.type for kind in KINDS],
            watches=sorted(WATCHES, key=str),
            watched_objects={kind.type.group_kind: kind.watched_objects for kind in KINDS},
        )
        self.queue: Queue[Key] = Queue()
        self.later: set[Key] = set()
        dependencies = Dependencies(
            recorder=self.recorder,
            api=self.faulty,
            store=self.store,
            external_state=ExternalState(
                send=self._ask, run=self._ask, requeue=self.queue.add, clock=lambda: self.now
            ),
            event_lookups=EventLookups(api=self.faulty, requeue=self.queue.add),
            status_changed=self._status_changed,
            repaired=self._repaired,
            clock=lambda: self.now,
            restart_queue=self._restart_queue(),
        )
        self.reconciler = Reconciler(dependencies=dependencies, kinds=self.kinds_by_name)
        self._resync = Resync(
            api=self.faulty,
            store=self.store,
            queue=self.queue,
            metrics=Metrics(),
            resources=[kind.type for kind in KINDS],
            children=[type for type in FOLLOWED if type not in RESOURCES],
            namespaces=(),
            selector=f"{MANAGED_BY_LABEL}={MANAGER}",
            watches=sorted(WATCHES, key=str),
        )
        self._watched: deque[Event] = deque()
        self._read = len(self.api.events)
        self.lost = False
        for ref, obj in self.api.objects.items():
            if self._selected(ref.type, obj):
                self.store.upsert(ref.type, obj)
        for ref in self.api.objects:
            if ref.type.group_kind in KINDS_BY_NAME:
                self.queue.add(key_of(ref))

    def restart_as_of(self, past: Sequence[Event]) -> None:
        """A new operator process that lists what there was after these events: its API server lags behind.
        Whatever it reads by name is what there is, and its watches bring nothing of what happened between.
        """
        live, view = dict(self.api.objects), dict[Ref, Object]()
        for what, type, obj in past:
            view.pop(ref_of(type, obj), None)
            if what != "DELETED":
                view[ref_of(type, obj)] = obj
        self._become(view)
        self.restart()
        self._become(live)

    def _become(self, objects: Mapping[Ref, Object]) -> None:
        self.api.objects.clear()
        self.api.objects.update(objects)

    def _restart_queue(self) -> RestartQueue:
        async def note(text: str) -> None:
            self.noted = text

        store, queue = self.store, self.queue
        restart_queue = RestartQueue(
            exists=lambda key: store.resource(key) is not None,
            wake=queue.add,
            note=note,
            clock=lambda: self.now,
        )
        restart_queue.restore(self.noted)
        return restart_queue

    @property
    def waiting(self) -> deque[Event]:
        """The watch events that were not delivered yet."""
        self._watched += self.api.events[self._read :]
        self._read = len(self.api.events)
        return self._watched

    def forget(self, *types: ResourceType) -> None:
        """The watches of these types never deliver their pending events."""
        kept = [event for event in self.waiting if event[1] not in types]
        self.lost |= len(kept) < len(self._watched)
        self._watched = deque(kept)

    def deliver(self) -> None:
        """Hand over all that happened, in its order."""
        while self.waiting:
            self._notice(self.waiting.popleft())

    def deliver_badly(self, dice: random.Random) -> None:
        """Each watch by itself runs ahead, lags behind, loses events or delivers them twice."""
        by_type: dict[ResourceType, deque[Event]] = {}
        for event in self.waiting:
            by_type.setdefault(event[1], deque()).append(event)
        lagging = {type for type in by_type if dice.random() < 0.3}
        held = {type: dice.randrange(len(watch)) for type, watch in by_type.items() if type in lagging}
        while pending := [type for type, watch in by_type.items() if len(watch) > held.get(type, 0)]:
            event = by_type[dice.choice(pending)].popleft()
            fate = dice.random()
            self.lost |= fate < 0.15
            for _ in range(0 if fate < 0.15 else 2 if fate < 0.4 else 1):
                self._notice(event)
        self._watched = deque(event for watch in by_type.values() for event in watch)

    def work(self) -> None:
        """Reconcile what is queued, one after the other."""

        async def run() -> None:
            for _ in range(200):
                if not len(self.queue):
                    return
                key = await self.queue.get()
                self.interfered = False
                try:
                    result = await self.reconciler.reconcile(key)
                except ApiError:
                    self.failures += 1
                    self.later.add(key)
                except Outdated:
                    self.later.add(key)
                except Crash:
                    self.restart()
                    continue
                else:
                    if result == RequeueAfter(0):
                        self.queue.add(key)
                    elif isinstance(result, RequeueAfter):
                        self.later.add(key)
                self.queue.done(key)
            raise AssertionError("200 passes and no rest: something is written again and again")

        asyncio.run(run())

    def settle(self, *, pods: bool = True) -> None:
        for _ in range(50):
            if pods:
                run_pods(self.api)
            if not self.waiting and not len(self.queue):
                return
            self.deliver()
            self.work()
        raise AssertionError("no rest after 50 rounds")

    def wait_long(self) -> None:
        """Time passes until it changes nothing: what was to be tried or looked at again is, and well."""
        for _ in range(20):
            failures, writes, asked = self.failures, self.api.writes.total(), self.later
            self.later = set()
            self.now += AGES
            self.repeat_probes()
            for key in asked:
                self.queue.add(key)
            self.settle()
            if (failures, writes) == (self.failures, self.api.writes.total()):
                return
        raise AssertionError(f"no rest as time passes: {self.later}")

    def resync(self) -> None:
        asyncio.run(self._resync.once())
        self.lost = False

    def writes_at_rest(self) -> int:
        """Writes of a further full look at everything."""
        before = self.api.writes.total()
        self.resync()
        self.settle()
        return self.api.writes.total() - before

    def writes_of_probes(self) -> int:
        """Writes of what probes say whose time has come."""
        before = self.api.writes.total()
        self.repeat_probes()
        self.settle()
        return self.api.writes.total() - before

    def status(self, kind: Kind, name: str) -> Object:
        found: Object = self.api.objects[Ref(kind.type, "ns", name)].get("status", {})
        return found

    def repeat_probes(self) -> None:
        """As if their time had come."""
        state = self.reconciler.dependencies.external_state

        async def run() -> None:
            for member in list(state._probes):
                await state._ask_again(member)

        asyncio.run(run())

    async def _ask(self, request: Any) -> ExternalResult:
        self.logins.append(request)
        return self.answer(request) if callable(self.answer) else self.answer

    def _status_changed(self, type: ResourceType, cr: Object, before: Object, after: Object) -> None:
        self.status_changes.append((cr["metadata"]["name"], after["conditions"][0]["reason"]))

    def _repaired(self, type: ResourceType, cr: Object, action: Apply, edit: Edit | None) -> None:
        self.repaired.append((action.type.kind, "new" if action.new else "edited"))

    def _notice(self, event: Event) -> None:
        seen, type, obj = event
        # A label taken off is a deletion, to a watch that selects by it.
        gone = seen == "DELETED" or not self._selected(type, obj)
        for key in (self.store.delete if gone else self.store.upsert)(type, obj):
            self.queue.add(key)

    def _claimed(self, ref: Ref) -> None:
        """Who says that it is Ready as specified knows of nothing that is not."""
        cr = self.api.objects[ref]
        ready, kind = find_condition(cr["status"], "Ready"), self.kinds_by_name[ref.type.group_kind]
        if ready.get("status") != "True" or ready["observedGeneration"] != cr["metadata"]["generation"]:
            return
        own = {r: obj for r, obj in self.api.objects.items() if r.type in kind.children or r.type in WATCHES}
        unseen = [
            r
            for r, obj in own.items()
            if named_in(obj["metadata"].get("labels") or {}) == ref.name
            and version(self.store.get(r)) != version(obj)
        ]
        if self.interfered or self.lost or unseen or kind.paused(cr):
            return
        observed = Observed(
            objects=own, now=self.now, entropy=b"", watched=self.store.watched_by(key_of(ref))
        )
        left = plan(type=ref.type, cr=cr, desired=kind.desired(cr, observed), observed=own).actions
        assert not left, f"{ref} claims to be Ready before {left}"

    def _selected(self, type: ResourceType, obj: Object) -> bool:
        if type in WATCHES or type.group_kind in KINDS_BY_NAME:
            return True
        return (obj["metadata"].get("labels") or {}).get(MANAGED_BY_LABEL) == MANAGER


def version(obj: Object | None) -> str | None:
    return obj["metadata"]["resourceVersion"] if obj is not None else None


def resource(kind: Kind, name: str, /, **spec: object) -> Object:
    return {"metadata": {"namespace": "ns", "name": name}, "spec": spec, "apiVersion": kind.type.api_version}
