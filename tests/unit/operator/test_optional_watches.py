"""A type that a cluster need not serve is watched while it does, and asked for only when one needs it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from kindling import optional_watches
from kindling.engine.optional_types import OptionalTypes
from kindling.engine.queue import Queue
from kindling.engine.store import Key
from kindling.kube.errors import error_from
from kindling.kube.resources import CERTIFICATE, ResourceType
from kindling.kube.watch_monitor import WatchMonitor

from tests.unit.operator.watcher_kind import key, new_store

PATH = CERTIFICATE.path(namespace=None)


class Reflected:
    """In the place of a Reflector: a test sets `synced`, and `gone` once the type is not served."""

    def __init__(self) -> None:
        self.synced, self.gone = asyncio.Event(), asyncio.Event()

    async def run(self) -> None:
        await self.gone.wait()


class World:
    def __init__(self) -> None:
        self.answers: list[bool | int] = []
        self.questions = 0
        self.reflected: list[Reflected] = []
        self.queue, self.types = Queue[Key](), OptionalTypes([CERTIFICATE])
        self.monitor = WatchMonitor({PATH: CERTIFICATE}, seconds=60, relisted=lambda _: None, optional=[PATH])
        self.watch = optional_watches.OptionalWatch(
            CERTIFICATE,
            [PATH],
            served=self._served,
            types=self.types,
            store=new_store(),
            queue=self.queue,
            monitor=self.monitor,
            make_reflector=self._reflect,
        )

    async def _served(self, type: ResourceType) -> bool:
        self.questions += 1
        answer = self.answers.pop(0)
        if isinstance(answer, bool):
            return answer
        raise error_from(status=answer, body={"message": "no"})

    def _reflect(self, path: str, type: ResourceType) -> Any:
        self.reflected.append(Reflected())
        return self.reflected[-1]


async def rest() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optional_watches, "ASK_SECONDS", 0)


def played(play: Callable[[World], Awaitable[None]], *answers: bool | int) -> None:
    async def run() -> None:
        world = World()
        world.answers = list(answers)
        task = asyncio.create_task(world.watch.run())
        await rest()
        await play(world)
        task.cancel()

    asyncio.run(run())


def test_what_is_not_served_is_asked_for_only_when_a_resource_needs_it() -> None:
    async def play(world: World) -> None:
        assert world.watch.known.is_set()
        assert world.questions == 1
        assert world.types.unserved == {CERTIFICATE}
        assert world.monitor.not_started is None
        world.types.need(key("one"), [])
        await rest()
        assert world.questions == 1
        world.types.need(key("one"), [CERTIFICATE])
        await rest()
        assert world.questions == 2
        assert not world.reflected

    played(play, False, False)


def test_once_it_is_served_those_who_wait_are_reconciled() -> None:
    async def play(world: World) -> None:
        world.types.need(key("one"), [CERTIFICATE])
        await rest()
        assert world.types.unserved == {CERTIFICATE}, "not before it is listed"
        assert len(world.queue) == 0
        world.reflected[0].synced.set()
        await rest()
        assert world.types.unserved == frozenset()
        assert len(world.queue) == 1
        assert world.monitor.not_started is not None

    played(play, False, True)


def test_nothing_works_before_what_is_served_is_listed_and_trouble_is_no_answer() -> None:
    async def play(world: World) -> None:
        assert world.questions == 2
        assert not world.watch.known.is_set()
        world.reflected[0].synced.set()
        await rest()
        assert world.watch.known.is_set()

    played(play, 500, True)


def test_a_type_that_goes_is_not_served_any_more() -> None:
    async def play(world: World) -> None:
        world.reflected[0].synced.set()
        await rest()
        world.reflected[0].gone.set()
        await rest()
        assert world.types.unserved == {CERTIFICATE}
        assert world.monitor.not_started is None

    played(play, True)
