"""A handler that fails on every message: the consumer ends once for it, and is unready until a success.

The operator sees a Pod's containers, not what is in them. So the first time, the process ends and leaves the
reason as its termination message; the kubelet starts it again, and a marker in the Pod's own folder keeps it
unready, and from ending again, until a message is handled. Messages are received and retried all the same.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

FAILURES = 10
SECONDS = 60.0


class HandlerFailing(Exception):
    """So many failures for so long, and no success between them; one line says which was the last."""


class Failing:
    """Counts successes and failures. With the `marker`, the container before failed like that."""

    def __init__(self, marker: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._marker, self._clock = marker, clock
        self._lock = threading.Lock()
        self._failures, self._began, self._last = 0, 0.0, ""
        self._marked = marker.exists()

    @property
    def marked(self) -> bool:
        """Whether it has failed like that, and handled no message since."""
        return self._marked

    def success(self) -> None:
        with self._lock:
            self._failures = 0
            if self._marked:
                self._marker.unlink(missing_ok=True)
                self._marked = False

    def failure(self, id: str, error: str) -> None:
        """`error` is `KIND: WORDS`; the words may be a message's, and stay here."""
        with self._lock:
            if self._failures == 0:
                self._began = self._clock()
            self._failures += 1
            self._last = f"the last with {error.partition(':')[0]} of message {id}"

    def check(self) -> None:
        """:raises HandlerFailing: the first time."""
        with self._lock:
            seconds = self._clock() - self._began
            if self._marked or self._failures < FAILURES or seconds < SECONDS:
                return
            self._marker.parent.mkdir(parents=True, exist_ok=True)
            self._marker.touch()
            self._marked = True
            raise HandlerFailing(f"{self._failures} failures and no success in {seconds:.0f} s, {self._last}")
