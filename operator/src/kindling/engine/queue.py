"""The work queue: each key is worked on by one worker at a time, once, however many events named it.

client-go's workqueue in small: *dirty* keys wait, *processing* keys are being worked on, a key added
meanwhile waits for its worker to be done. No kopf here: its own queues keep every event.
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


class Queue(Generic[K]):
    """Keys to reconcile. All methods but `get` return at once; not safe across threads."""

    def __init__(self) -> None:
        self._ready: OrderedDict[K, float] = OrderedDict()  # dirty key -> when it came (monotonic)
        self._again: dict[K, float] = {}  # dirty while processing
        self._processing: dict[K, asyncio.Event] = {}  # set when the key is named meanwhile
        self._failures: dict[K, int] = {}
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._wake = asyncio.Event()

    def __len__(self) -> int:
        return len(self._ready) + len(self._again)

    @property
    def idle(self) -> bool:
        """Nothing waits and nothing is being worked on (timers aside)."""
        return not (self._ready or self._again or self._processing)

    @property
    def oldest_seconds(self) -> float:
        """How long the longest waiting key has waited."""
        return time.monotonic() - next(iter(self._ready.values())) if self._ready else 0.0

    def add(self, key: K) -> None:
        if key in self._processing:
            self._again.setdefault(key, time.monotonic())
            self._processing[key].set()
        elif key not in self._ready:
            self._ready[key] = time.monotonic()
            self._wake.set()

    def add_after(self, key: K, seconds: float) -> None:
        """Add later; of several timers of a key the earliest counts."""
        loop = asyncio.get_running_loop()
        known = self._timers.get(key)
        if known is not None:
            if known.when() <= loop.time() + seconds:
                return
            known.cancel()
        self._timers[key] = loop.call_later(seconds, self._fire, key)

    def retry(self, key: K) -> float:
        """Add after this key's back-off, which doubles with each call until `forget`; returns seconds."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        pause = min(LONGEST_SECONDS, FIRST_SECONDS * 2.0 ** min(failures, 16))
        pause *= random.uniform(0.75, 1.25)
        self.add_after(key, pause)
        return pause

    def forget(self, key: K) -> None:
        """The key went well: its next back-off starts small."""
        self._failures.pop(key, None)

    async def get(self) -> K:
        """The longest waiting key; it must be given back with `done`."""
        while not self._ready:
            self._wake.clear()
            await self._wake.wait()
        key, _ = self._ready.popitem(last=False)
        self._processing[key] = asyncio.Event()
        return key

    def done(self, key: K) -> None:
        self._processing.pop(key, None)
        if self._again.pop(key, None) is not None:
            self.add(key)

    async def named_again(self, key: K) -> None:
        """Until something names this key, which is being worked on; it gets another turn in any case."""
        named = self._processing[key]
        await named.wait()
        named.clear()

    def close(self) -> None:
        """Drop all timers."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _fire(self, key: K) -> None:
        self._timers.pop(key, None)
        self.add(key)
