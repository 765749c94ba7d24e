"""client-go's queue semantics: one worker a key, nothing lost while it works, back-off that forgets."""

from __future__ import annotations

import asyncio

import pytest
from kindling.engine.queue import FIRST_SECONDS, LONGEST_SECONDS, Queue


def test_many_adds_are_one_pass() -> None:
    async def run() -> None:
        queue: Queue[str] = Queue()
        for _ in range(5):
            queue.add("a")
        assert await queue.get() == "a"
        queue.done("a")
        assert queue.idle

    asyncio.run(run())


def test_added_while_worked_on_waits_for_the_worker() -> None:
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

    asyncio.run(run())


def test_waiting_workers_each_get_a_key() -> None:
    async def run() -> None:
        queue: Queue[int] = Queue()
        workers = [asyncio.create_task(queue.get()) for _ in range(3)]
        await asyncio.sleep(0)
        for key in range(3):
            queue.add(key)
        assert sorted(await asyncio.gather(*workers)) == [0, 1, 2]

    asyncio.run(run())


def test_earliest_timer_counts() -> None:
    async def run() -> None:
        queue: Queue[str] = Queue()
        queue.add_after("a", 30)
        queue.add_after("a", 0.01)
        queue.add_after("a", 30)
        assert await asyncio.wait_for(queue.get(), 1) == "a"
        queue.done("a")
        await asyncio.sleep(0.03)
        assert queue.idle

    asyncio.run(run())


def test_backoff_doubles_is_bounded_and_forgets() -> None:
    async def run() -> None:
        queue: Queue[str] = Queue()
        pauses = [queue.retry("a") for _ in range(30)]
        assert FIRST_SECONDS * 0.75 <= pauses[0] <= FIRST_SECONDS * 1.25
        assert pauses[4] > 4 * pauses[0]
        assert max(pauses) <= LONGEST_SECONDS * 1.25
        queue.forget("a")
        assert queue.retry("a") <= FIRST_SECONDS * 1.25
        queue.close()

    asyncio.run(run())


def test_oldest_tells_how_long_the_longest_waiting_has_waited() -> None:
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

    asyncio.run(run())
