"""When each member is probed again: in turn, so many seconds after the last time, and so many a second."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, NoReturn, TypeVar

T = TypeVar("T", bound=Hashable)


class ProbeSchedule(Generic[T]):
    """`run` calls `ask` for each member that is due. Where more are due than it may ask, all wait longer."""

    def __init__(self, *, every_seconds: float, most_a_second: float, ask: Callable[[T], Awaitable[None]]):
        self._every_seconds, self._pause, self._ask = every_seconds, 1 / most_a_second, ask
        # In this order, since all wait equally long; those that wait for nothing are at its beginning.
        self._due: OrderedDict[T, float] = OrderedDict()
        self._more = asyncio.Event()
        self._asking: set[asyncio.Task[None]] = set()

    def __contains__(self, member: T) -> bool:
        return member in self._due

    def add(self, member: T) -> None:
        """Due after the usual time, unless its time is fixed already."""
        if member not in self._due:
            self._due[member] = asyncio.get_running_loop().time() + self._every_seconds
            self._more.set()

    def add_first(self, member: T) -> None:
        """Due now, before all others."""
        self._due[member] = asyncio.get_running_loop().time()
        self._due.move_to_end(member, last=False)
        self._more.set()

    def remove(self, member: T) -> None:
        self._due.pop(member, None)

    async def run(self) -> NoReturn:
        """For ever; what is being asked ends with it."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                while not self._due:
                    self._more.clear()
                    await self._more.wait()
                self._more.clear()
                member, due = next(iter(self._due.items()))
                if due > loop.time():
                    await self._wait(due - loop.time())
                    continue
                del self._due[member]
                task = asyncio.ensure_future(self._ask(member))
                self._asking.add(task)
                task.add_done_callback(self._asking.discard)
                await asyncio.sleep(self._pause)
        finally:
            for task in self._asking:
                task.cancel()

    async def _wait(self, seconds: float) -> None:
        """Until then, or until there is one more, which may be due before."""
        try:
            async with asyncio.timeout(seconds):
                await self._more.wait()
        except TimeoutError:
            return
