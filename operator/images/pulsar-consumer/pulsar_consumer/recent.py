"""How the calls of the handler went of late: counts and a percentile over a moving window."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

SECONDS = 300
"""The window; it moves on by PART_SECONDS at a time, so it is up to that much shorter."""
PART_SECONDS = 30
_SMALLEST, _STEP = 0.001, 1.1
"""Seconds: a call is counted as one that took the next of these: 1 ms, and each a tenth more."""
_LOG_STEP = math.log(_STEP)


@dataclass
class _Part:
    """Of the window; `times` by the number of the step."""

    number: int
    calls: int = 0
    failures: int = 0
    times: dict[int, int] = field(default_factory=dict)


class Recent:
    """Each call in constant time."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._parts: deque[_Part] = deque(maxlen=SECONDS // PART_SECONDS)

    def called(self, seconds: float, *, failed: bool) -> None:
        step = 0 if seconds <= _SMALLEST else math.ceil(math.log(seconds / _SMALLEST) / _LOG_STEP)
        number = int(self._clock() // PART_SECONDS)
        with self._lock:
            if not self._parts or self._parts[-1].number != number:
                self._parts.append(_Part(number))
            part = self._parts[-1]
            part.calls += 1
            part.failures += failed
            part.times[step] = part.times.get(step, 0) + 1

    def figures(self) -> dict[str, int]:
        """Two digits of each: they say the same while little changes. Without a call, no percentile."""
        oldest = int(self._clock() // PART_SECONDS) - SECONDS // PART_SECONDS
        with self._lock:
            parts = [part for part in self._parts if part.number > oldest]
            calls, failures = sum(part.calls for part in parts), sum(part.failures for part in parts)
            times: Counter[int] = Counter()
            for part in parts:
                times.update(part.times)
        found = {"calls": _rounded(calls), "failures": _rounded(failures)}
        left = calls - math.ceil(calls * 0.99)
        for step in sorted(times, reverse=True):
            left -= times[step]
            if left < 0:
                found["p99Milliseconds"] = _rounded(math.ceil(round(_STEP**step * _SMALLEST * 1000, 6)))
                break
        return found


def _rounded(count: int) -> int:
    unit: int = 10 ** max(0, len(str(count)) - 2)
    return count // unit * unit
