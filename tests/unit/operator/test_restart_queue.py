"""The line for restarts: one at a time, first come first served, halted by whoever does not come back."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pytest
from kindling.engine.restart_queue import HALT_SECONDS, LISTED_SECONDS, RestartQueue
from kindling.engine.store import Key
from kindling.kinds.base import RestartSlot
from kindling.kube.errors import Conflict

T = TypeVar("T")
A, B, C = (Key("toy.example.com", "ns", name) for name in "abc")


class Line:
    """Turns with everything about them in the open."""

    def __init__(self, noted: str = "") -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.there = {A, B, C}
        self.woken: list[Key] = []
        self.notes: list[str] = []
        self.error: Exception | None = None
        self.restart_queue = RestartQueue(
            exists=self.there.__contains__, wake=self.woken.append, note=self._note, clock=lambda: self.now
        )
        self.restart_queue.restore(noted)

    async def _note(self, text: str) -> None:
        if self.error is not None:
            raise self.error
        self.notes.append(text)

    def ask(self, key: Key, wants: bool | None = True) -> RestartSlot:
        return run(self.restart_queue.request(key, members(wants)))

    def settle(self, key: Key, wants: bool | None = False, *, ready: bool = True) -> None:
        run(self.restart_queue.release_if_ready(key, members(wants), ready=ready))


def members(wants: bool | None) -> list[str] | None:
    return None if wants is None else ["server"] if wants else []


GRANTED = RestartSlot(granted=True, member="server")
DONE = RestartSlot(granted=True)
"""What it has while its member is not Ready again."""


def run(waiting: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(waiting)


def waiting(place: int, length: int, *, halted: bool = False) -> RestartSlot:
    return RestartSlot(place=place, length=length, halted=halted)


def test_one_at_a_time_in_order() -> None:
    line = Line()
    assert line.ask(A) == GRANTED
    assert (line.ask(B), line.ask(C), line.ask(B)) == (waiting(1, 1), waiting(2, 2), waiting(1, 2))
    assert line.ask(A) == GRANTED
    line.settle(A, True)  # it wants it still
    line.settle(A, ready=False)  # it is on its way
    line.settle(B)  # not its turn
    assert line.ask(B) == waiting(1, 2)
    line.settle(A)
    assert line.woken == [B]
    assert line.ask(C) == waiting(2, 2)
    assert line.ask(B) == GRANTED
    assert line.ask(C) == waiting(1, 1)
    assert line.notes == [str(A), "", str(B)]


def test_wanting_none_leaves_the_line_but_keeps_a_turn() -> None:
    line = Line()
    line.ask(A), line.ask(B), line.ask(C)
    assert line.ask(A, False) == DONE
    assert line.ask(B, False) == RestartSlot()
    assert (line.ask(C), len(line.restart_queue)) == (waiting(1, 1), 1)
    assert line.ask(A, None) == RestartSlot()  # takes no turns any more
    assert line.woken == [C]


def test_the_first_that_leaves_names_the_next() -> None:
    line = Line()
    line.ask(A), line.ask(B), line.ask(C)
    line.settle(A)
    line.ask(B, False)
    assert line.woken == [B, C]


def test_halts_and_says_so_and_goes_on() -> None:
    line = Line()
    line.ask(A), line.ask(B)
    line.now += timedelta(seconds=HALT_SECONDS)
    assert line.ask(B) == waiting(1, 1)
    line.now += timedelta(seconds=1)
    assert line.ask(B) == waiting(1, 1, halted=True)
    assert line.restart_queue.seconds == HALT_SECONDS + 1
    line.settle(A)
    assert (line.ask(B), line.restart_queue.seconds) == (GRANTED, 0)


def test_gone_with_its_turn_or_its_place() -> None:
    line = Line()
    line.ask(A), line.ask(B), line.ask(C)
    line.there.remove(A)  # its reconciliation reports later, or never
    line.there.remove(B)
    assert line.ask(C) == GRANTED
    line = Line()
    line.ask(A), line.ask(B)
    line.there.clear()
    run(line.restart_queue.remove(B))
    run(line.restart_queue.remove(A))
    assert (line.notes[-1], line.woken, len(line.restart_queue)) == ("", [], 0)


def test_next_leader_waits_for_what_was_noted_even_if_it_is_not_listed_yet() -> None:
    line = Line(noted=str(A))
    line.there.remove(A)
    assert line.ask(B) == waiting(1, 1)
    run(line.restart_queue.remove(A))  # its children were listed before it
    assert line.ask(B) == waiting(1, 1)
    line.there.add(A)
    assert line.ask(A, False) == DONE
    assert line.ask(B) == waiting(1, 1)
    line.settle(A)
    assert line.ask(B) == GRANTED


def test_next_leader_does_not_wait_for_ever_for_what_is_gone() -> None:
    line = Line(noted=str(A))
    line.there.remove(A)
    line.now += timedelta(seconds=LISTED_SECONDS + 1)
    assert line.ask(B) == GRANTED


@pytest.mark.parametrize("noted", ["", "nonsense", "a/b", "//"])
def test_nothing_noted(noted: str) -> None:
    assert Line(noted=noted).ask(A) == GRANTED


def test_not_granted_unless_noted() -> None:
    line = Line()
    line.error = Conflict(status=409, reason="Conflict", message="another leads")
    with pytest.raises(Conflict):
        line.ask(A)
    line.error = None
    assert line.ask(B) == waiting(2, 2)
    assert line.ask(A) == GRANTED


def test_two_that_ask_while_it_is_noted() -> None:
    line = Line()
    go = asyncio.Event()

    async def both() -> list[RestartSlot]:
        async def slow(text: str) -> None:
            await go.wait()

        line.restart_queue._note = slow
        first = asyncio.ensure_future(line.restart_queue.request(A, ["server"]))
        await asyncio.sleep(0)
        second = await line.restart_queue.request(B, ["server"])
        go.set()
        return [await first, second]

    granted = run(both())
    assert [turn.granted for turn in granted] == [True, False]


def test_members_of_a_resource_one_after_the_other_each_once_it_is_ready() -> None:
    line = Line()
    queue = line.restart_queue

    def granted(*members: str) -> str:
        slot = run(queue.request(A, members))
        assert slot.granted
        return slot.member

    assert granted("m2", "m1", "m0") == "m2"
    run(queue.release_if_ready(A, ["m2", "m1", "m0"], ready=True))
    assert granted("m2", "m1", "m0") == "m2", "it has not been disrupted yet"
    assert granted("m1", "m0") == "", "m2 is on its way"
    run(queue.release_if_ready(A, ["m1", "m0"], ready=False))
    assert granted("m1", "m0") == ""
    assert line.ask(B) == waiting(1, 1)
    run(queue.release_if_ready(A, ["m1", "m0"], ready=True))
    assert (line.woken, granted("m1", "m0")) == ([A], "m1")
    line.now += timedelta(seconds=HALT_SECONDS + 1)
    assert line.ask(B) == waiting(1, 1, halted=True), "each member has its own time"
    run(queue.release_if_ready(A, ["m0"], ready=True))
    assert (granted("m0"), line.ask(B)) == ("m0", waiting(1, 1))
    run(queue.release_if_ready(A, [], ready=True))
    assert (line.woken[-1], line.ask(B)) == (B, GRANTED)


def test_next_leader_goes_on_with_the_next_member_once_the_resource_is_ready() -> None:
    first = Line()
    run(first.restart_queue.request(A, ["m1", "m0"]))
    line = Line(noted=first.notes[-1])
    assert run(line.restart_queue.request(A, ["m1", "m0"])) == DONE
    run(line.restart_queue.release_if_ready(A, ["m1", "m0"], ready=False))
    assert run(line.restart_queue.request(A, ["m1", "m0"])) == DONE
    run(line.restart_queue.release_if_ready(A, ["m1", "m0"], ready=True))
    assert run(line.restart_queue.request(A, ["m1", "m0"])).member == "m1"
