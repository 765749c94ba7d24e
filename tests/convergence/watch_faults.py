"""What can go wrong with a watch: events lost, late, held back; cut, ended by 410; begun in the past.

Apart from the proxy, which knows of requests; this knows of what one long answer brings, line by line.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import web

GONE = {
    "type": "ERROR",
    "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"},
}
EVERY = "*"


@dataclass(frozen=True)
class Event:
    """One event of a watch: the `number`-th, from 1, that concerns this namespace and resource."""

    namespace: str
    plural: str
    number: int


@dataclass
class Streams:
    """Its methods may be called from any thread; a path of EVERY means all watches."""

    version: int | None = None
    """If set, what is listed is as it was then."""
    delay_seconds: float = 0.0
    """How late each event comes."""
    seen: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How many events came so far, by namespace and resource; one that several watches bring counts once."""
    drops: set[Event] = field(default_factory=set)
    cuts: set[Event] = field(default_factory=set)
    """Events in whose place the connection breaks off; they come with the next watch."""
    fired: set[Event] = field(default_factory=set)
    _silent: set[str] = field(default_factory=set)
    _gone: set[str] = field(default_factory=set)
    _watched: set[str] = field(default_factory=set)
    _numbers: dict[tuple[str, str, str], int] = field(default_factory=dict)
    _lost: set[tuple[str, str, str]] = field(default_factory=set)
    _ends: int = 0
    _loop: asyncio.AbstractEventLoop | None = None
    _change: asyncio.Event = field(default_factory=asyncio.Event)

    def begin(self) -> None:
        """Once, on the loop that it works on."""
        self._loop = asyncio.get_running_loop()

    def stall(self, path: str) -> None:
        self._silent.add(path)
        self.notify()

    def resume(self, path: str) -> None:
        """End the stall: what was held back comes now."""
        self._silent.discard(path)
        self.notify()

    def expire(self, path: str) -> None:
        self._gone |= self._watched if path == EVERY else {path}
        self.resume(path)

    def cut(self) -> None:
        """End every watch, with whatever was on its way."""
        self._ends += 1
        self.notify()

    async def notified(self) -> None:
        """Until something changes, here or by way of `notify`."""
        await self._change.wait()

    def notify(self) -> None:
        """Have all that waits look again."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._pulse)

    def _pulse(self) -> None:
        self._change.set()
        self._change = asyncio.Event()

    def _quiet(self, path: str) -> bool:
        return path in self._silent or EVERY in self._silent

    async def may_begin(self, path: str) -> None:
        """A watch that begins in a stall gets no answer before it ends."""
        while self._quiet(path):
            await self._change.wait()

    async def carry(
        self,
        path: str,
        plural: str,
        source: aiohttp.ClientResponse,
        sink: web.StreamResponse,
    ) -> None:
        """Pass on what the watch brings, as far as it may, until either side ends it.

        Raises `ConnectionResetError` where it is cut.
        """
        ends = self._ends
        lines: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        reading = asyncio.create_task(_read(source, lines))
        self._watched.add(path)
        try:
            while True:
                at, line = await self._next(path, lines, ends=ends)
                if not line:
                    return
                if path not in self._gone and self.delay_seconds:
                    loop = asyncio.get_running_loop()
                    await asyncio.sleep(max(0.0, at + self.delay_seconds - loop.time()))
                if path in self._gone:
                    self._gone.discard(path)
                    await sink.write(json.dumps(GONE).encode() + b"\n")
                    return
                event = self._event(plural, line)
                if event in self.cuts and event is not None:
                    self.cuts.discard(event)
                    self.fired.add(event)
                    self._forget(event, line)
                    raise ConnectionResetError("cut")
                if event is not None:
                    await sink.write(line)
        finally:
            reading.cancel()

    async def _next(
        self, path: str, lines: asyncio.Queue[tuple[float, bytes]], *, ends: int
    ) -> tuple[float, bytes]:
        """The next line once it may be passed on; any at all, where 410 is to be said in its place."""
        getting = asyncio.create_task(lines.get())
        changing: asyncio.Task[object] | None = None
        try:
            while True:
                if ends != self._ends:
                    raise ConnectionResetError("cut")
                if path in self._gone:
                    return (0.0, b"-")
                if getting.done() and not self._quiet(path):
                    return getting.result()
                changing = asyncio.create_task(self._change.wait())
                waited = {changing} if self._quiet(path) else {changing, getting}
                await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
                changing.cancel()
        finally:
            getting.cancel()
            if changing is not None:
                changing.cancel()

    def _forget(self, event: Event, line: bytes) -> None:
        """It comes once more, as if for the first time."""
        self.seen[event.namespace, event.plural] -= 1
        del self._numbers[_mark(event.plural, json.loads(line))]

    def _event(self, plural: str, line: bytes) -> Event | None:
        """Which one it is; None for one that is lost, now and whenever it is sent again."""
        found = json.loads(line)
        if found["type"] in ("BOOKMARK", "ERROR"):
            return Event("", plural, 0)
        mark = _mark(plural, found)
        namespace = found["object"]["metadata"].get("namespace", "")
        if mark in self._lost:
            return None
        if mark not in self._numbers:
            self.seen[namespace, plural] += 1
            self._numbers[mark] = self.seen[namespace, plural]
        event = Event(namespace, plural, self._numbers[mark])
        if event in self.drops:
            self.fired.add(event)
            self._lost.add(mark)
            return None
        return event


def _mark(plural: str, found: Mapping[str, Any]) -> tuple[str, str, str]:
    """What an event has in common with itself, whichever watch brings it."""
    meta = found["object"]["metadata"]
    return plural, meta["uid"], f"{found['type']} {meta['resourceVersion']}"


async def _read(source: aiohttp.ClientResponse, lines: asyncio.Queue[tuple[float, bytes]]) -> None:
    loop = asyncio.get_running_loop()
    try:
        async for line in source.content:
            lines.put_nowait((loop.time(), line))
    except aiohttp.ClientError:
        pass
    lines.put_nowait((loop.time(), b""))
