"""Others' objects are watched while a resource looks for one: from the first that does to the last."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from kindling.engine.queue import Queue
from kindling.engine.store import Key
from kindling.kube.reflector import EventHandler
from kindling.kube.resources import POD, Object, Ref, ResourceType
from kindling.kube.watch_monitor import METADATA, WatchMonitor
from kindling.on_demand import OnDemandWatches

from tests.unit.operator.watcher_kind import TYPE, child_labels, key, new_store, obj, watcher

PATH = "/api/v1/pods"


class Followed:
    """In the place of a Reflector: a test delivers its events, and sets `synced`."""

    def __init__(self, on_event: EventHandler) -> None:
        self.on_event, self.synced, self.running = on_event, asyncio.Event(), False

    async def run(self) -> None:
        self.running = True
        try:
            await asyncio.Event().wait()
        finally:
            self.running = False


class World:
    def __init__(self) -> None:
        self.store, self.queue = new_store(), Queue[Key]()
        self.monitor = WatchMonitor({PATH + METADATA: POD, PATH: POD}, seconds=60, relisted=lambda _: None)
        self.followed: list[Followed] = []
        self.demands = OnDemandWatches(
            {PATH: POD}, store=self.store, queue=self.queue, monitor=self.monitor, make_reflector=self._follow
        )

    def _follow(self, path: str, type: ResourceType, on_event: EventHandler) -> Any:
        assert (path, type) == (PATH, POD)
        self.followed.append(Followed(on_event))
        return self.followed[-1]

    def put(self, cr: Object) -> None:
        self.store.handle_event(TYPE, "ADDED", cr)

    def known(self) -> set[Ref]:
        return self.store.refs(POD)


def played(play: Callable[[World], Awaitable[None]]) -> None:
    async def run() -> None:
        world = World()
        tasks = [asyncio.create_task(each) for each in world.demands.run()]
        await asyncio.sleep(0)
        await play(world)
        for task in tasks:
            assert not task.done()
            task.cancel()

    asyncio.run(run())


async def rest() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_from_the_first_that_looks_to_the_last() -> None:
    async def play(world: World) -> None:
        world.put(watcher("b", 1))
        await rest()
        assert not world.followed
        assert not world.demands.active(POD)
        world.put(watcher("a", 2, pods=["joe"]))
        world.put(watcher("c", 3, pods=["ann"]))
        await rest()
        (one,) = world.followed
        assert one.running
        assert METADATA in str(world.monitor.not_started)
        one.on_event(POD, "ADDED", obj("joe", 4, ns="far"))
        world.store.handle_event(TYPE, "DELETED", watcher("a", 5, pods=["joe"]))
        await rest()
        assert one.running
        world.store.handle_event(TYPE, "MODIFIED", watcher("c", 6))
        await rest()
        assert not one.running
        assert world.known() == set()
        assert METADATA not in str(world.monitor.not_started)
        world.put(watcher("a", 7, pods=["joe"]))
        await rest()
        assert len(world.followed) == 2

    played(play)


def test_nothing_is_said_of_what_is_not_listed_yet() -> None:
    """Or a restart would say of every friend that it is missing."""

    async def play(world: World) -> None:
        world.put(watcher("a", 1, pods=["joe"]))
        world.put(watcher("b", 2))
        await rest()
        assert world.store.waits_for_list(key("a"))
        assert not world.store.waits_for_list(key("b"))
        world.followed[0].on_event(POD, "ADDED", obj("joe", 3))
        while not world.queue.idle:
            world.queue.done(await world.queue.get())
        world.followed[0].synced.set()
        await rest()
        assert not world.store.waits_for_list(key("a"))
        assert await world.queue.get() == key("a")

    played(play)


OURS = {"labels": child_labels("b")}


def test_ours_are_kept_whole_and_their_metadata_is_passed_over() -> None:
    async def play(world: World) -> None:
        world.put(watcher("a", 1, pods=["joe"]))
        world.put(watcher("b", 2))
        await rest()
        whole = obj("joe", 3, metadata=OURS, status={"phase": "Running"})
        world.demands.on_event(POD, "ADDED", whole)
        world.followed[0].on_event(POD, "ADDED", obj("joe", 3, metadata=OURS))
        assert world.store.get(Ref(POD, "ns", "joe")) == whole
        world.followed[0].on_event(POD, "DELETED", obj("joe", 4, metadata=OURS))
        world.demands.on_event(POD, "DELETED", obj("joe", 4, metadata=OURS))
        assert world.known() == set()
        world.demands.on_event(POD, "MODIFIED", whole)  # late
        assert world.known() == set()

    played(play)


def test_a_label_that_comes_or_goes_loses_nothing_in_either_order_of_the_watches() -> None:
    async def play(world: World) -> None:
        world.put(watcher("a", 1, pods=["joe"]))
        await rest()
        others = world.followed[0].on_event
        ref, shed, ours = Ref(POD, "ns", "joe"), obj("joe", 5), obj("joe", 4, metadata=OURS, status={"x": 1})
        for order in (0, 1):
            version = 10 * order

            def at(found: Object, version: int = version) -> Object:
                meta = found["metadata"]
                return {
                    **found,
                    "metadata": {**meta, "resourceVersion": str(int(meta["resourceVersion"]) + version)},
                }

            world.demands.on_event(POD, "ADDED", at(ours))
            events = [
                lambda at=at: world.demands.on_event(POD, "DELETED", at({**ours, **shed})),
                lambda at=at: others(POD, "MODIFIED", at(shed)),
            ]
            for deliver in events if order else reversed(events):
                deliver()
            assert world.store.get(ref) == at(shed), order
            again = {**at(ours), "metadata": {**at(ours)["metadata"], "resourceVersion": str(version + 6)}}
            events = [
                lambda again=again: world.demands.on_event(POD, "ADDED", again),
                lambda again=again: others(POD, "MODIFIED", {"metadata": again["metadata"]}),
            ]
            for deliver in events if order else reversed(events):
                deliver()
            assert world.store.get(ref) == again, order

    played(play)


def test_a_watch_that_fails_ends_the_process() -> None:
    """As any other part does that fails: nobody would see that it is gone."""

    async def run() -> None:
        world = World()

        class Broken(Followed):
            async def run(self) -> None:
                raise ValueError("a bug")

        def make_reflector(_path: str, _type: ResourceType, on_event: EventHandler) -> Any:
            return Broken(on_event)

        demands = OnDemandWatches(
            {PATH: POD},
            store=world.store,
            queue=world.queue,
            monitor=world.monitor,
            make_reflector=make_reflector,
        )
        (part,) = demands.run()
        world.put(watcher("a", 1, pods=["joe"]))
        with pytest.raises(ValueError, match="a bug"):
            await asyncio.wait_for(part, 5)

    asyncio.run(run())
