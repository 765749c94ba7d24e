"""client-go's queue semantics: one worker a key, nothing lost while it works, back-off that forgets.

And whose turn it is: what users have changed first, and nobody never.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

import pytest
import uvloop
from kindling.engine.queue import (
    BASE_DELAY_SECONDS,
    LOW_PRIORITY_EVERY,
    MAX_DELAY_SECONDS,
    POLLS_A_SECOND,
    TIMER,
    Queue,
)

On = Callable[[Coroutine[None, None, None]], None]


@pytest.fixture(params=[asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def on(request: pytest.FixtureRequest) -> On:
    """The operator runs on uvloop, whose timers are not quite asyncio's."""
    run: On = request.param
    return run


def test_many_adds_are_one_pass(on: On) -> None:
    async def run() -> None:
        queue: Queue[str] = Queue()
        for _ in range(5):
            queue.add("a")
        assert await queue.get() == "a"
        queue.done("a")
        assert queue.idle

    on(run())


def test_added_while_worked_on_waits_for_the_worker(on: On) -> None:
    async def run() -> None:
        queue: Queue[str] = Queue()
        queue.add("a")
        await queue.get()
        queue.add("a")
        queue.add("a")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(queue.get(), 0.02)
        queue.done("a")
        assert await asyncio.wait_for(queue.get(), 1) == "a"
        queue.done("a")
        assert queue.idle

    on(run())


def test_a_key_has_waited_since_it_was_first_named_and_for_that_cause(on: On) -> None:
    """Also since while its worker was busy with what was known before."""

    async def run() -> None:
        queue: Queue[str] = Queue()
        queue.add("a", cause="first")
        await asyncio.sleep(0.02)
        queue.add("a", cause="second", high_priority=True)
        await queue.get()
        waited = queue.waited("a")
        assert (waited.cause, waited.seconds >= 0.015) == ("first", True)
        queue.add("a", cause="third")
        queue.add("a", cause="fourth")
        await asyncio.sleep(0.02)
        queue.done("a")
        await queue.get()
        waited = queue.waited("a")
        assert (waited.cause, waited.seconds >= 0.015) == ("third", True)
        queue.done("a")
        queue.add_after("a", 0.01)
        await queue.get()
        assert queue.waited("a").cause == TIMER

    on(run())


def test_waiting_workers_each_get_a_key(on: On) -> None:
    async def run() -> None:
        queue: Queue[int] = Queue()
        workers = [asyncio.create_task(queue.get()) for _ in range(3)]
        await asyncio.sleep(0)
        for key in range(3):
            queue.add(key)
        assert sorted(await asyncio.gather(*workers)) == [0, 1, 2]

    on(run())


def test_earliest_timer_counts(on: On) -> None:
    async def run() -> None:
        queue: Queue[str] = Queue()
        queue.add_after("a", 30)
        queue.add_after("a", 0.01)
        queue.add_after("a", 30)
        assert await asyncio.wait_for(queue.get(), 1) == "a"
        queue.done("a")
        await asyncio.sleep(0.03)
        assert queue.idle

    on(run())


def test_whoever_went_well_is_looked_at_again_when_it_says_so_and_not_before(on: On) -> None:
    async def run() -> None:
        queue: Queue[str] = Queue()
        queue.add_after("a", 0.01)
        queue.forget("a")
        await asyncio.sleep(0.05)
        assert queue.idle
        queue.add_after("a", 0.01)
        assert await asyncio.wait_for(queue.get(), 1) == "a"
        queue.forget("a")

    on(run())


@pytest.mark.parametrize("seconds", [0, 0.0004, 0.01])
def test_what_is_added_again_at_once_may_be_added_again(on: On, seconds: float) -> None:
    """As a pass that made the children asks for the next one, and fails before its turn."""

    async def run() -> None:
        queue: Queue[str] = Queue()
        queue.add_after("a", seconds)
        queue.add_after("a", 30)
        queue.add_after("a", 0)
        assert await asyncio.wait_for(queue.get(), 1) == "a"
        queue.add_after("a", 0)
        queue.add_rate_limited("a")
        queue.done("a")
        assert await asyncio.wait_for(queue.get(), 1) == "a"
        queue.done("a")
        queue.shut_down()

    on(run())


def test_backoff_doubles_is_bounded_and_forgets(on: On) -> None:
    async def run() -> None:
        queue: Queue[str] = Queue()
        pauses = [queue.add_rate_limited("a") for _ in range(30)]
        assert BASE_DELAY_SECONDS * 0.75 <= pauses[0] <= BASE_DELAY_SECONDS * 1.25
        assert pauses[4] > 4 * pauses[0]
        assert max(pauses) <= MAX_DELAY_SECONDS * 1.25
        queue.forget("a")
        assert queue.add_rate_limited("a") <= BASE_DELAY_SECONDS * 1.25
        queue.shut_down()

    on(run())


def test_oldest_seconds_is_the_age_of_the_oldest_key(on: On) -> None:
    async def run() -> None:
        queue: Queue[str] = Queue()
        assert queue.oldest_seconds == 0.0
        queue.add("a")
        await asyncio.sleep(0.05)
        queue.add("b")
        queue.add("a")  # waits on as before
        assert 0.05 <= queue.oldest_seconds < 5
        assert await queue.get() == "a"
        assert queue.oldest_seconds < 0.05

    on(run())


async def order(queue: Queue[str]) -> list[str]:
    """In which order the keys that wait now are given out."""
    found = []
    while not queue.idle:
        found.append(await queue.get())
        queue.done(found[-1])
    return found


def test_what_a_user_has_changed_comes_first(on: On) -> None:
    async def run() -> None:
        queue: Queue[str] = Queue()
        queue.add("settling")
        queue.add("new", high_priority=True)
        queue.add("newer", high_priority=True)
        queue.add("new")  # its children's events put it back no place
        assert await order(queue) == ["new", "newer", "settling"]

    on(run())


def test_a_settling_key_that_is_changed_goes_over_to_the_urgent_and_waits_on_as_long(on: On) -> None:
    async def run() -> None:
        queue: Queue[str] = Queue()
        for key in ("other", "changed"):
            queue.add(key)
        await asyncio.sleep(0.05)
        queue.add("changed", high_priority=True)
        assert len(queue) == 2
        assert await queue.get() == "changed"
        assert queue.oldest_seconds >= 0.05

    on(run())


def test_changed_while_worked_on_is_urgent_afterwards_whatever_else_names_it(on: On) -> None:
    async def run() -> None:
        queue: Queue[str] = Queue()
        queue.add("a")
        await queue.get()
        queue.add("a", high_priority=True)
        queue.add("a")
        queue.add("b")
        queue.done("a")
        assert await order(queue) == ["a", "b"]

    on(run())


def test_the_settling_get_their_share_however_much_is_urgent(on: On) -> None:
    async def run() -> None:
        queue: Queue[str] = Queue()
        for number in range(2 * LOW_PRIORITY_EVERY):
            queue.add(f"settling {number}")
            queue.add(f"new {number}", high_priority=True)
        turns = await order(queue)
        assert [key.split()[0] for key in turns[: 2 * LOW_PRIORITY_EVERY]].count("settling") == 2
        assert turns[-1] == f"settling {2 * LOW_PRIORITY_EVERY - 1}"

    on(run())


def test_oldest_looks_at_both_kinds_of_keys(on: On) -> None:
    async def run() -> None:
        queue: Queue[str] = Queue()
        queue.add("settling")
        await asyncio.sleep(0.05)
        queue.add("new", high_priority=True)
        assert queue.oldest_seconds >= 0.05
        assert await queue.get() == "new"
        assert queue.oldest_seconds >= 0.05

    on(run())


def test_the_more_keys_poll_the_less_often_each_does(on: On) -> None:
    """So what is at fault costs no more than a few do, however many they are."""

    async def run() -> None:
        queue: Queue[int] = Queue()
        many = POLLS_A_SECOND * 50
        waits = [queue.add_poll(key, 10.0) for key in range(many)]
        assert waits[:200] == [10.0] * 200
        assert waits[-1] == many / POLLS_A_SECOND == 50
        # One that polls again is the same one; what no longer polls holds up none.
        queue.forget(0)
        assert queue.add_poll(0, 10.0) == 50
        for key in range(many):
            queue.forget(key)
        assert queue.add_poll(0, 10.0) == 10
        queue.shut_down()

    on(run())


def test_an_event_does_not_wait_for_the_poll(on: On) -> None:
    async def run() -> None:
        queue: Queue[str] = Queue()
        queue.add_poll("a", 10.0)
        queue.add("a")
        assert await asyncio.wait_for(queue.get(), 1) == "a"
        queue.done("a")
        queue.shut_down()

    on(run())
