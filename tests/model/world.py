"""A cluster in memory with the real store, queue and reconciler in it, driven step by step by a test."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from datetime import UTC, datetime

from kindling.engine.plan import Apply
from kindling.engine.queue import Queue
from kindling.engine.reconciliation import Ports
from kindling.engine.store import Key, Store
from kindling.engine.worker import Reconciler
from kindling.kinds.contract import MANAGED_BY_LABEL, Answer
from kindling.kinds.postgresql import Postgresql
from kindling.kinds.postgresql.login import Login
from kindling.kube.errors import ApiError
from kindling.kube.resources import Object, Ref, ResourceType

from tests.model.memory import MemoryApi

KINDS = [
    Postgresql(group=group, image="postgres:17")
    for group in ("database.technotuesday.io", "database.db.example.com")
]
SIGHTS = {type for kind in KINDS for type in kind.sights}
NOW = datetime(2026, 1, 2, tzinfo=UTC)


class World:
    """`settle` delivers the watch log and reconciles until nothing is left to do."""

    def __init__(self) -> None:
        self.api = MemoryApi()
        self.logins: list[Login] = []
        self.told: list[tuple[str, str]] = []
        self.repaired: list[tuple[str, str]] = []
        self.answer: Answer | Callable[[Login], Answer] = Answer(ok=True)
        self.failures = 0
        self.now = NOW
        self._delivered = 0
        self.restart()

    def restart(self) -> None:
        """The operator anew: it lists what there is and has not seen anything before."""
        self.store = Store(
            [kind.type for kind in KINDS],
            sights=sorted(SIGHTS, key=str),
            seeks={kind.type.label: kind.seeks for kind in KINDS},
        )
        self.queue: Queue[Key] = Queue()
        ports = Ports(
            api=self.api,
            store=self.store,
            ask=self._ask,
            tell=self._tell,
            repaired=self._repaired,
            clock=lambda: self.now,
        )
        self.reconciler = Reconciler(ports=ports, kinds={kind.type.label: kind for kind in KINDS})
        self._delivered = len(self.api.events)
        for ref, obj in self.api.objects.items():
            if self._watched(ref.type, obj):
                self.store.put(ref.type, obj)
        for ref in self.api.objects:
            if ref.type in [kind.type for kind in KINDS]:
                self.queue.add(Key(ref.type.label, ref.namespace, ref.name))

    async def _ask(self, login: Login) -> Answer:
        self.logins.append(login)
        return self.answer(login) if callable(self.answer) else self.answer

    def _tell(self, type: ResourceType, cr: Object, before: Object, after: Object) -> None:
        self.told.append((cr["metadata"]["name"], after["conditions"][0]["reason"]))

    def _repaired(self, type: ResourceType, cr: Object, action: Apply) -> None:
        self.repaired.append((action.type.kind, "new" if action.new else "edited"))

    def deliver(self, *, lose: float = 0.0, double: float = 0.0, seed: int = 0) -> None:
        """Hand over the watch log; some of it lost or told twice."""
        dice = random.Random(seed)
        for seen, type, obj in self.api.events[self._delivered :]:
            times = 0 if dice.random() < lose else 2 if dice.random() < double else 1
            for _ in range(times):
                # A label taken off is a deletion, to a watch that selects by it.
                gone = seen == "DELETED" or not self._watched(type, obj)
                for key in (self.store.drop if gone else self.store.put)(type, obj):
                    self.queue.add(key)
        self._delivered = len(self.api.events)

    def work(self) -> None:
        """Reconcile what is queued, one after the other."""

        async def run() -> None:
            for _ in range(200):
                if not len(self.queue):
                    return
                key = await self.queue.get()
                try:
                    await self.reconciler.reconcile(key)
                except ApiError:
                    self.failures += 1
                self.queue.done(key)
            raise AssertionError("200 passes and no rest: something is written again and again")

        asyncio.run(run())

    def settle(self, *, pods: bool = True) -> None:
        for _ in range(50):
            if pods:
                self.api.run_pods()
            if self._delivered == len(self.api.events) and not len(self.queue):
                return
            self.deliver()
            self.work()
        raise AssertionError("no rest after 50 rounds")

    def resync(self) -> None:
        """What `engine.resync` does with two lists, here from the model's own objects."""
        for type in {ref.type for ref in self.api.objects} | {
            t for kind in KINDS for t in (kind.type, *kind.children)
        }:
            there = {r: o for r, o in self.api.objects.items() if r.type == type and self._watched(type, o)}
            for ref in self.store.refs(type) - there.keys():
                known = self.store.get(ref)
                assert known is not None
                for key in self.store.drop(type, known):
                    self.queue.add(key)
            for obj in there.values():
                for key in self.store.put(type, obj):
                    self.queue.add(key)
        for kind in KINDS:
            for ref in self.store.refs(kind.type):
                self.queue.add(Key(kind.type.label, ref.namespace, ref.name))

    def writes_at_rest(self) -> int:
        """Writes of a further full look at everything."""
        before = self.api.writes.total()
        self.resync()
        self.settle()
        return self.api.writes.total() - before

    def status(self, kind: Postgresql, name: str) -> Object:
        found: Object = self.api.objects[Ref(kind.type, "ns", name)].get("status", {})
        return found

    def _watched(self, type: ResourceType, obj: Object) -> bool:
        if type in SIGHTS or type in [kind.type for kind in KINDS]:
            return True
        return (obj["metadata"].get("labels") or {}).get(MANAGED_BY_LABEL) == "kindling"


def postgresql(kind: Postgresql, name: str, **spec: object) -> Object:
    return {"metadata": {"namespace": "ns", "name": name}, "spec": spec, "apiVersion": kind.type.api_version}
