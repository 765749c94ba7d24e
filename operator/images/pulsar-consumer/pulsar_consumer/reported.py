"""What a Pod's consumer has reported by ending: it ends once for each reason, and then tries by itself.

The operator reads why a container ended, not what runs in it. Were each attempt a new container, the kubelet
would wait longer from one to the next, up to five minutes, while the broker has long been back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

RETRY_SECONDS = 10.0
_TURN_SECONDS = 0.5


class Reported:
    """The reason that stands in the `marker`, a file of the Pod's own that outlives a container."""

    def __init__(self, marker: Path) -> None:
        self._marker = marker
        self._reason = marker.read_text() if marker.exists() else ""

    def has(self, words: str) -> bool:
        """Whether a container of this Pod has ended for the reason of these `REASON: WORDS`."""
        return bool(self._reason) and self._reason == _reason(words)

    def report(self, words: str) -> None:
        """Before the container ends with them."""
        self._reason = _reason(words)
        self._marker.parent.mkdir(parents=True, exist_ok=True)
        self._marker.write_text(self._reason)

    def clear(self) -> None:
        """It is connected: the next time is another one."""
        if self._reason:
            self._marker.unlink(missing_ok=True)
            self._reason = ""


def pause(stop: threading.Event, turn: Callable[[], None], *, seconds: float = RETRY_SECONDS) -> None:
    """Wait until the next attempt, or for the stop; `turn` says meanwhile that nothing is stuck."""
    for _ in range(round(seconds / _TURN_SECONDS)):
        turn()
        if stop.wait(_TURN_SECONDS):
            return


def _reason(words: str) -> str:
    return words.partition(":")[0]
