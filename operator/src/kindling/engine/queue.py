"""The work queue: each key is worked on by one worker at a time, once, however many events named it.

client-go's workqueue in small: *dirty* keys wait, *processing* keys are being worked on, and a key that is
added meanwhile is queued again when its worker is done. A changed spec has high priority, everything else
low, as in controller-runtime's priority queue. Kopf's own queues keep every event, so they are not used.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)

BASE_DELAY_SECONDS = 0.05
MAX_DELAY_SECONDS = 60.0
POLLS_A_SECOND = 20
"""How many keys poll in a second: of more than 200 that do so every ten seconds, each polls less often."""
LOW_PRIORITY_EVERY = 16
"""One of so many keys is of low priority, however many of high priority wait: so those cannot starve."""
TIMER = "timer"
"""The cause of a key that a timer added: a requeue, or a retry."""


class Waited(NamedTuple):
    """How long a key waited from the first word of it to its worker, and what that word was."""

    seconds: float
    cause: str


class Queue(Generic[K]):
    """Keys to reconcile. All methods but `get` return at once; not safe across threads."""

    def __init__(self) -> None:
        # dirty key -> when it came (monotonic), by whether it is urgent; each key in one of them
        self._high: OrderedDict[K, float] = OrderedDict()
        self._low: OrderedDict[K, float] = OrderedDict()
        self._picked = 0
        self._dirty: dict[K, bool] = {}  # dirty while processing -> urgent
        self._named: dict[K, tuple[float, str]] = {}  # waiting or dirty -> when it was first named, and why
        self._processing: dict[K, Waited] = {}
        self._failures: dict[K, int] = {}
        self._polling: set[K] = set()
        # when (the loop's clock), and what calls then; below a millisecond uvloop gives no TimerHandle
        self._timers: dict[K, tuple[float, asyncio.Handle]] = {}
        self._wake = asyncio.Event()

    def __len__(self) -> int:
        return len(self._high) + len(self._low) + len(self._dirty)

    @property
    def idle(self) -> bool:
        """Nothing waits and nothing is being worked on (timers aside)."""
        return not (len(self) or self._processing)

    @property
    def oldest_seconds(self) -> float:
        """How long the longest waiting key has waited."""
        now = time.monotonic()
        return max((now - next(iter(keys.values())) for keys in (self._high, self._low) if keys), default=0.0)

    def add(self, key: K, *, high_priority: bool = False, cause: str = "") -> None:
        """A waiting key keeps its place, unless only now its priority is high, and its first cause."""
        self._named.setdefault(key, (time.monotonic(), cause))
        if key in self._processing:
            self._dirty[key] = self._dirty.get(key, False) or high_priority
        elif high_priority:
            self._high.setdefault(key, self._low.pop(key, time.monotonic()))
            self._wake.set()
        elif key not in self._high:
            self._low.setdefault(key, time.monotonic())
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

    def add_poll(self, key: K, seconds: float) -> float:
        """Add later; the later, the more keys poll, of which this is one until `forget`. Returns seconds."""
        self._polling.add(key)
        pause = max(seconds, len(self._polling) / POLLS_A_SECOND)
        self.add_after(key, pause)
        return pause

    def add_rate_limited(self, key: K) -> float:
        """Add after this key's back-off, which doubles with each call until `forget`; returns seconds."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        pause = min(MAX_DELAY_SECONDS, BASE_DELAY_SECONDS * 2.0 ** min(failures, 16))
        pause *= random.uniform(0.75, 1.25)
        self.add_after(key, pause)
        return pause

    def forget(self, key: K) -> None:
        """Reset the key's back-off, and drop its timer; it polls no longer."""
        self._failures.pop(key, None)
        self._polling.discard(key)
        if (waiting := self._timers.pop(key, None)) is not None:
            waiting[1].cancel()

    async def get(self) -> K:
        """The longest waiting key of high priority, or of low; call `done` with it afterwards."""
        while not (self._high or self._low):
            self._wake.clear()
            await self._wake.wait()
        self._picked += 1
        low_priority = self._low and (not self._high or self._picked % LOW_PRIORITY_EVERY == 0)
        key, _ = (self._low if low_priority else self._high).popitem(last=False)
        named, cause = self._named.pop(key)
        self._processing[key] = Waited(time.monotonic() - named, cause)
        return key

    def waited(self, key: K) -> Waited:
        """Of a key that is being worked on."""
        return self._processing[key]

    def done(self, key: K) -> None:
        self._processing.pop(key, None)
        if (high_priority := self._dirty.pop(key, None)) is not None:
            self.add(key, high_priority=high_priority)

    def shut_down(self) -> None:
        """Drop all timers."""
        for _, timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _fire(self, key: K) -> None:
        self._timers.pop(key, None)
        self.add(key, cause=TIMER)
