"""A thousand resources and a churn of Pods through the real store, queue and workers: what it costs.

Beside the status' own tests because this is about the engine and the kind together; the real process
and a real API server have the same claim tested elsewhere.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from kindling.engine.dependencies import Dependencies
from kindling.engine.event_lookups import EventLookups
from kindling.engine.external import ExternalState
from kindling.engine.metrics import Metrics
from kindling.engine.queue import Queue
from kindling.engine.store import Key, Store
from kindling.engine.worker import Reconciler, work
from kindling.kinds.base import ExternalResult
from kindling.kinds.mycustomresource import MyCustomResource
from kindling.kube.resources import POD, Object, Ref, ResourceType

from tests.model.memory import MemoryApi

KIND = MyCustomResource()


class CountingApi(MemoryApi):
    """Counts every call by its name; there is no `list` to be called."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()

    async def get(self, ref: Ref) -> Object:
        self.calls["get"] += 1
        return await super().get(ref)

    async def merge(self, ref: Ref, patch: Object, *, subresource: str | None = None) -> Object:
        self.calls["merge"] += 1
        known = self.objects[ref]  # not through `get`, which counts
        assert patch["metadata"]["uid"] == known["metadata"]["uid"]
        self.set_status(ref, {**known.get("status", {}), **patch["status"]})
        return self.objects[ref]


class World:
    """The engine's parts as the process has them, on an API in memory whose events come at once."""

    def __init__(self) -> None:
        self.api = CountingApi()
        self.store = Store(
            [KIND.type], watches=KIND.watches, watched_objects={KIND.type.group_kind: KIND.watched_objects}
        )
        self.queue: Queue[Key] = Queue()
        self.statuses: list[Object] = []
        self._seen = 0

    def deliver(self) -> None:
        for seen, type, obj in self.api.events[self._seen :]:
            for key in (self.store.delete if seen == "DELETED" else self.store.upsert)(type, obj):
                self.queue.add(key)
        self._seen = len(self.api.events)

    async def settle(self) -> None:
        self.deliver()
        while not self.queue.idle:
            await asyncio.sleep(0)
            self.deliver()

    def resource(self, name: str, friend: str) -> None:
        self.api.put(KIND.type, {"metadata": {"namespace": "ns", "name": name}, "spec": {"name": friend}})

    def pod(self, name: str, *, ns: str = "ns", status: Object | None = None) -> None:
        body = {"metadata": {"namespace": ns, "name": name}, "status": status or {}}
        self.api.put(POD, body)

    def healthy(self, name: str) -> Any:
        return self.api.objects[Ref(KIND.type, "ns", name)]["status"]["Healthy"]


class Faults(Metrics):
    """Remembers which passes were given up."""

    def __init__(self) -> None:
        super().__init__()
        self.errors: list[str] = []

    def failed(self, type: ResourceType, error: str) -> None:
        self.errors.append(error)


def in_world(scenario: Callable[[World], Any]) -> None:
    async def run() -> None:
        world = World()

        async def ask(_: object) -> ExternalResult:
            raise AssertionError("nothing is to be asked")

        def status_changed(type: ResourceType, cr: Object, before: Object, after: Object) -> None:
            world.statuses.append(after)

        external_state = ExternalState(send=ask, run=ask, requeue=world.queue.add)
        dependencies = Dependencies(
            api=world.api,
            store=world.store,
            external_state=external_state,
            event_lookups=EventLookups(api=world.api),
            status_changed=status_changed,
        )
        reconciler = Reconciler(dependencies=dependencies, kinds={KIND.type.group_kind: KIND})
        metrics = Faults()
        workers = [asyncio.create_task(work(reconciler, world.queue, metrics)) for _ in range(8)]
        try:
            await scenario(world)
            assert metrics.errors == []
        finally:
            for worker in workers:
                worker.cancel()
            world.queue.shut_down()

    asyncio.run(run())


def test_coming_and_going_costs_one_write_each() -> None:
    async def scenario(world: World) -> None:
        world.resource("r", "joe")
        await world.settle()
        assert (world.healthy("r"), world.api.calls) == (False, {"merge": 1})
        world.pod("joe", ns="far")
        await world.settle()
        assert (world.healthy("r"), world.api.calls) == (True, {"merge": 2})
        world.pod("joe", ns="farther")
        world.pod("joe", ns="far", status={"phase": "Failed"})
        world.api.edit(Ref(POD, "far", "joe"), {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
        world.api.remove(Ref(POD, "farther", "joe"))
        await world.settle()
        assert (world.healthy("r"), world.api.calls) == (True, {"merge": 2})
        world.api.remove(Ref(POD, "far", "joe"))
        await world.settle()
        assert (world.healthy("r"), world.api.calls) == (False, {"merge": 3})
        world.api.edit(Ref(KIND.type, "ns", "r"), {"spec": {"name": "ann"}})
        await world.settle()
        assert (world.healthy("r"), world.api.calls) == (False, {"merge": 4})
        assert world.statuses[-1]["observedGeneration"] == 2

    in_world(scenario)


def test_a_thousand_resources_and_a_churn_of_pods_list_nothing() -> None:
    """Each write is a change of truth, each look at a resource is for a Pod of its friend's name."""
    resources, friends, changes = 1000, 100, 1000

    async def scenario(world: World) -> None:
        for number in range(resources):
            world.resource(f"r{number}", f"friend-{number % friends}")
        await world.settle()
        assert world.api.calls == {"merge": resources}

        world.api.calls.clear()
        for number in range(changes):  # strangers: nobody is even queued
            world.pod(f"stranger-{number % 50}", status={"beat": number})
        world.deliver()
        assert world.queue.idle
        assert not world.api.calls

        dice, flips, there = random.Random(1), 0, Counter[int]()
        for _ in range(changes):
            friend, ns = dice.randrange(friends), dice.choice(["ns", "far", "farther"])
            ref = Ref(POD, ns, f"friend-{friend}")
            before = there[friend]
            if ref in world.api.objects:
                world.api.remove(ref)
                there[friend] -= 1
            else:
                world.pod(ref.name, ns=ns)
                there[friend] += 1
            flips += (before == 0) != (there[friend] == 0)
            await world.settle()
        assert world.api.calls == {"merge": flips * resources // friends}
        for number in range(resources):
            assert world.healthy(f"r{number}") is (there[number % friends] > 0)

        world.api.calls.clear()
        for number in range(resources):  # a resync, or a restart
            world.queue.add(Key(KIND.type.group_kind, "ns", f"r{number}"))
        await world.settle()
        assert not world.api.calls

    in_world(scenario)
