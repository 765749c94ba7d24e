"""The work queue: each key is worked on by one worker at a time, once, however many events named it.

client-go's workqueue in small: *dirty* keys wait, *processing* keys are being worked on, a key added
meanwhile waits for its worker to be done. What a user has changed comes before what is merely settling,
as in controller-runtime's priority queue. No kopf here: its own queues keep every event.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

FIRST_SECONDS = 0.05
LONGEST_SECONDS = 60.0
SHARE = 16
"""Of so many turns the settling get one at least, however much is urgent."""


class Queue(Generic[K]):
    """Keys to reconcile. All methods but `get` return at once; not safe across threads."""

    def __init__(self) -> None:
        # dirty key -> when it came (monotonic), by whether it is urgent; each key in one of them
        self._urgent: OrderedDict[K, float] = OrderedDict()
        self._settling: OrderedDict[K, float] = OrderedDict()
        self._turn = 0
        self._again: dict[K, bool] = {}  # dirty while processing -> urgent
        self._processing: set[K] = set()
        self._failures: dict[K, int] = {}
        # when (the loop's clock), and what calls then; below a millisecond uvloop gives no TimerHandle
        self._timers: dict[K, tuple[float, asyncio.Handle]] = {}
        self._wake = asyncio.Event()

    def __len__(self) -> int:
        return len(self._urgent) + len(self._settling) + len(self._again)

    @property
    def idle(self) -> bool:
        """Nothing waits and nothing is being worked on (timers aside)."""
        return not (len(self) or self._processing)

    @property
    def oldest_seconds(self) -> float:
        """How long the longest waiting key has waited."""
        now = time.monotonic()
        return max(
            (now - next(iter(lane.values())) for lane in (self._urgent, self._settling) if lane), default=0.0
        )

    def add(self, key: K, *, urgent: bool = False) -> None:
        """A key that waits already keeps its place, unless it is urgent only now."""
        if key in self._processing:
            self._again[key] = self._again.get(key, False) or urgent
        elif urgent:
            self._urgent.setdefault(key, self._settling.pop(key, time.monotonic()))
            self._wake.set()
        elif key not in self._urgent:
            self._settling.setdefault(key, time.monotonic())
            self._wake.set()

    def add_after(self, key: K, seconds: float) -> None:
        """Add later; of several timers of a key the earliest counts."""
        loop = asyncio.get_running_loop()
        when = loop.time() + seconds
        if key in self._timers:
            known, timer = self._timers[key]
            if known <= when:
                return
            timer.cancel()
        self._timers[key] = when, loop.call_later(seconds, self._fire, key)

    def retry(self, key: K) -> float:
        """Add after this key's back-off, which doubles with each call until `forget`; returns seconds."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        pause = min(LONGEST_SECONDS, FIRST_SECONDS * 2.0 ** min(failures, 16))
        pause *= random.uniform(0.75, 1.25)
        self.add_after(key, pause)
        return pause

    def forget(self, key: K) -> None:
        """The key went well: its next back-off starts small, and no earlier wish to look again counts."""
        self._failures.pop(key, None)
        if (waiting := self._timers.pop(key, None)) is not None:
            waiting[1].cancel()

    async def get(self) -> K:
        """The longest waiting key of the urgent, or of the settling; it must be given back with `done`."""
        while not (self._urgent or self._settling):
            self._wake.clear()
            await self._wake.wait()
        self._turn += 1
        settling = self._settling and (not self._urgent or self._turn % SHARE == 0)
        key, _ = (self._settling if settling else self._urgent).popitem(last=False)
        self._processing.add(key)
        return key

    def done(self, key: K) -> None:
        self._processing.discard(key)
        if (urgent := self._again.pop(key, None)) is not None:
            self.add(key, urgent=urgent)

    def close(self) -> None:
        """Drop all timers."""
        for _, timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _fire(self, key: K) -> None:
        self._timers.pop(key, None)
        self.add(key)
