"""A status that needs the Events of a child: kept as it is until they have been read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from kindling.engine import event_lookups as module
from kindling.engine.event_lookups import EventLookups
from kindling.engine.reconciliation import RESULT_SECONDS
from kindling.engine.store import Key
from kindling.engine.worker import Reconciler
from kindling.kinds.base import RequeueAfter, Result, WarningEvent
from kindling.kinds.conditions import rfc3339
from kindling.kube.resources import POD, VOLUME_CLAIM, Object, Ref

from tests.model.test_engine_passes import KIND, ready, with_database
from tests.model.world import World

CR = Ref(KIND.type, "ns", "db")
KEY = Key(KIND.type.group_kind, "ns", "db")
QUOTA = "exceeded quota: few"


class Slow:
    """The API server, slow to list Events: until `answering` is set."""

    def __init__(self, world: World) -> None:
        self.answering, self._world = asyncio.Event(), world

    async def warnings(self, ref: Ref, *, uid: str) -> list[Object]:
        await self.answering.wait()
        said = WarningEvent("FailedCreate", QUOTA, rfc3339(self._world.now))
        return [{"reason": said.reason, "note": said.note, "metadata": {"creationTimestamp": said.at}}]


def without_its_pod() -> World:
    """A database whose Pod is gone and is not made again, for longer than that takes."""
    world = with_database()
    world.api.remove(Ref(POD, "ns", "db-0"))
    world.settle(pods=False)
    assert ready(world)["reason"] == "Reconciling"
    world.now += timedelta(seconds=30)
    return world


def unbound() -> World:
    """A database whose Pod waits for a volume."""
    world = with_database()
    placed = {
        "type": "PodScheduled",
        "status": "False",
        "lastTransitionTime": rfc3339(world.now),
        "message": "pod has unbound immediate PersistentVolumeClaims",
    }
    claim = Ref(VOLUME_CLAIM, "ns", "db-data")
    world.api.edit(claim, {"spec": {"storageClassName": "fast"}})  # As the API server would.
    world.api.set_status(claim, {"phase": "Pending"})
    world.api.set_status(Ref(POD, "ns", "db-0"), {"phase": "Pending", "conditions": [placed]})
    world.settle(pods=False)
    world.now += timedelta(seconds=30)
    return world


def passes(world: World, *steps: Callable[[Result], None]) -> None:
    """A reconciliation while the Events are being read, the steps, and the one that their answer asks for."""

    async def run() -> None:
        server, named = Slow(world), list[Key]()
        lookups = EventLookups(api=server, requeue=named.append)
        dependencies = replace(world.reconciler.dependencies, event_lookups=lookups)
        reconciler = Reconciler(dependencies=dependencies, kinds=world.reconciler.kinds)
        result = await reconciler.reconcile(KEY)
        for step in steps:
            step(result)
        server.answering.set()
        async with asyncio.timeout(5):
            while not named:
                await asyncio.sleep(0.005)
        assert named == [KEY]
        world.deliver()
        await reconciler.reconcile(KEY)

    asyncio.run(run())


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAIT_SECONDS", 0.05)


def test_the_last_status_stays_until_they_are_read() -> None:
    world = without_its_pod()
    before = world.status(KIND, "db")

    def kept(result: Result) -> None:
        assert result == RequeueAfter(RESULT_SECONDS)
        assert world.status(KIND, "db") == before

    passes(world, kept)
    assert ready(world)["reason"] == "PodMissing"
    assert QUOTA in ready(world)["message"]


def test_a_new_spec_is_reported_without_them() -> None:
    world = unbound()
    world.api.edit(CR, {"spec": {"progressDeadlineSeconds": 700}})
    world.deliver()
    generation = world.api.objects[CR]["metadata"]["generation"]

    def reported(_: Result) -> None:
        assert ready(world)["observedGeneration"] == generation

    passes(world, reported)
    assert ready(world)["reason"] == "VolumeNotBound"
    assert QUOTA in ready(world)["message"]
