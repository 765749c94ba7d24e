"""Events are read a few at a time, and no reconciliation waits while others' are being read."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest
from kindling.engine import event_lookups as module
from kindling.engine.event_lookups import AT_ONCE, EventLookups
from kindling.engine.store import Key
from kindling.kinds.base import WarningEvent
from kindling.kube.errors import ServerError
from kindling.kube.resources import POD, Object, Ref

from tests.unit.operator.test_external import scenario, until

SAID = {
    "reason": "FailedMount",
    "note": "timed out",
    "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"},
}
FOUND = WarningEvent("FailedMount", "timed out", "2026-01-01T00:00:00Z")
WAIT_SECONDS = 0.05


def key(number: int) -> Key:
    return Key("toy.example.com", "ns", f"x{number}")


def pod(number: int) -> Ref:
    return Ref(POD, "ns", f"x{number}-0")


@dataclass
class Server:
    """Answers once `answering` is set; `reading` are the requests under way, `most` were so at once."""

    answering: asyncio.Event = field(default_factory=asyncio.Event)
    failure: Exception | None = None
    asked: list[str] = field(default_factory=list)
    reading: int = 0
    most: int = 0

    async def warnings(self, ref: Ref, *, uid: str) -> list[Object]:
        self.asked.append(uid)
        self.reading += 1
        self.most = max(self.most, self.reading)
        try:
            await self.answering.wait()
        finally:
            self.reading -= 1
        if self.failure is not None:
            raise self.failure
        return [SAID]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAIT_SECONDS", WAIT_SECONDS)


def test_an_answer_that_comes_soon_is_had_at_once_and_asked_for_each_time() -> None:
    async def steps() -> None:
        server, named = Server(), list[Key]()
        server.answering.set()
        lookups = EventLookups(api=server, requeue=named.append)
        assert await lookups.newest(key(0), {}) == {}
        for _ in range(2):
            assert await lookups.newest(key(0), {pod(0): "u"}) == {pod(0): FOUND}
        assert (server.asked, named) == (["u", "u"], [])

    scenario(steps)


def test_of_a_thousand_few_are_read_at_once_and_nobody_waits_for_his_turn() -> None:
    async def steps() -> None:
        server, named = Server(), list[Key]()
        lookups = EventLookups(api=server, requeue=named.append)
        loop = asyncio.get_running_loop()
        began = loop.time()
        for number in range(1000):
            assert await lookups.newest(key(number), {pod(number): f"u{number}"}) is None
        assert loop.time() - began < 5 * WAIT_SECONDS + 1
        for number in range(1000):
            assert await lookups.newest(key(number), {pod(number): f"u{number}"}) is None, (
                "nor asked for twice"
            )
        server.answering.set()
        await until(lambda: len(named) == 1000)
        assert sorted(named) == sorted(map(key, range(1000)))
        assert (server.most, len(server.asked)) == (AT_ONCE, 1000)
        for number in range(1000):
            assert await lookups.newest(key(number), {pod(number): f"u{number}"}) == {pod(number): FOUND}
        assert len(server.asked) == 1000

    scenario(steps)


def test_what_is_asked_of_another_object_is_read_in_its_place() -> None:
    async def steps() -> None:
        server, named = Server(), list[Key]()
        lookups = EventLookups(api=server, requeue=named.append)
        assert await lookups.newest(key(0), {pod(0): "old"}) is None
        assert await lookups.newest(key(0), {pod(0): "new"}) is None
        server.answering.set()
        await until(lambda: named == [key(0)])
        assert await lookups.newest(key(0), {pod(0): "new"}) == {pod(0): FOUND}
        assert (server.asked, server.reading) == (["old", "new"], 0)

    scenario(steps)


def test_an_answer_that_nobody_came_for_is_not_given_much_later(monkeypatch: pytest.MonkeyPatch) -> None:
    async def steps() -> None:
        server, named = Server(), list[Key]()
        lookups = EventLookups(api=server, requeue=named.append)
        assert await lookups.newest(key(0), {pod(0): "u"}) is None
        server.answering.set()
        await until(lambda: named == [key(0)])
        monkeypatch.setattr(module, "FRESH_SECONDS", 0.1)
        await asyncio.sleep(0.2)
        assert await lookups.newest(key(0), {pod(0): "u"}) == {pod(0): FOUND}
        assert server.asked == ["u", "u"]

    scenario(steps)


def test_what_is_forgotten_is_read_no_more_and_requeues_nobody() -> None:
    async def steps() -> None:
        server, named = Server(), list[Key]()
        lookups = EventLookups(api=server, requeue=named.append)
        assert await lookups.newest(key(0), {pod(0): "u"}) is None
        lookups.forget(key(0))
        await until(lambda: server.reading == 0)
        assert named == []

    scenario(steps)


def test_a_failure_is_that_of_whoever_asked() -> None:
    async def steps() -> None:
        server, named = Server(failure=ServerError(status=500, reason="", message="no")), list[Key]()
        lookups = EventLookups(api=server, requeue=named.append)
        assert await lookups.newest(key(0), {pod(0): "u"}) is None
        server.answering.set()
        await until(lambda: named == [key(0)])
        with pytest.raises(ServerError):
            await lookups.newest(key(0), {pod(0): "u"})
        server.failure = None
        assert await lookups.newest(key(0), {pod(0): "u"}) == {pod(0): FOUND}

    scenario(steps)
