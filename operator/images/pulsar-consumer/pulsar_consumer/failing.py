"""A handler that fails on every message, or on one again and again, and which one that is.

The operator sees a Pod's containers, not what is in them. So the first time that nothing is handled any
more, the process ends and leaves the reason as its termination message; the kubelet starts it again, and a
marker in the Pod's own folder keeps it unready, and from ending again, until a message is handled. Messages
are received and retried all the same. A message that fails while others are handled ends nothing: it is on
the page that the operator asks for.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

FAILURES = 10
SECONDS = 60.0
MOST_LISTED = 5
_LONGEST_KIND, _LONGEST_TOPIC = 64, 255


class HandlerFailing(Exception):
    """So many failures for so long, and no success between them; one line says which was the last."""


class PoisonMessage(HandlerFailing):
    """The same, and all of them are of one message, by a handler that has handled others before."""


@dataclass
class _Message:
    """One that has failed, and is neither acknowledged nor a dead letter.

    `successes`: how many of others there were by then. `passed`: it failed again after another one had been
    handled, so it is not the handler that fails. `given_up`: it would be a dead letter if there were a topic.
    `known`: how many of others were handled when it was both.
    """

    topic: str
    began: float
    since: str
    successes: int
    passed: bool = False
    given_up: bool = False
    known: int | None = None
    kind: str = ""


class Failing:
    """Counts successes and failures. With the `marker`, the container before failed like that."""

    def __init__(self, marker: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._marker, self._clock = marker, clock
        self._lock = threading.Lock()
        self._failures, self._began, self._last = 0, 0.0, ""
        self._of_one: str | None = None
        self._successes = 0
        self._messages: dict[str, _Message] = {}
        self._marked = marker.exists()

    @property
    def marked(self) -> bool:
        """Whether it has failed like that, and handled no message since."""
        return self._marked

    def success(self, id: str = "") -> None:
        with self._lock:
            self._failures = 0
            self._successes += 1
            self._messages.pop(id, None)
            if self._marked:
                self._marker.unlink(missing_ok=True)
                self._marked = False

    def failure(self, id: str, error: str, *, topic: str = "", given_up: bool = False) -> None:
        """`error` is `KIND: WORDS`; the words may be a message's, and stay here."""
        kind = error.partition(":")[0]
        with self._lock:
            now = self._clock()
            found = self._messages.get(id)
            if found is None:
                since = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
                found = self._messages[id] = _Message(topic[:_LONGEST_TOPIC], now, since, self._successes)
            found.passed = found.passed or self._successes > found.successes
            found.given_up = found.given_up or given_up
            found.kind = kind[:_LONGEST_KIND]
            if found.passed and found.given_up and found.known is None:
                found.known = self._successes
            if found.known is not None and found.known < self._successes:
                return  # however long nothing else comes, it is not the handler that fails
            if self._failures == 0:
                self._began, self._of_one = now, id
            self._failures += 1
            self._of_one = id if id == self._of_one else None
            self._last = f"the last with {kind} of message {id}"

    def settled(self, id: str) -> None:
        """It is a dead letter now: no success, and no failure any more."""
        with self._lock:
            self._messages.pop(id, None)

    def renewed(self) -> None:
        """What is not acknowledged comes again, here or elsewhere."""
        with self._lock:
            self._messages.clear()

    def poison(self) -> list[dict[str, str]]:
        """The messages that fail again and again, of a handler that handles others, the oldest first."""
        with self._lock:
            now = self._clock()
            return [
                {"id": id, "topic": each.topic, "error": each.kind, "since": each.since}
                for id, each in self._messages.items()
                if each.passed and each.given_up and now - each.began >= SECONDS
            ][:MOST_LISTED]

    def check(self) -> None:
        """:raises HandlerFailing: (PoisonMessage) the first time."""
        with self._lock:
            seconds = self._clock() - self._began
            one = self._messages.get(self._of_one) if self._of_one is not None else None
            if self._marked or self._failures < FAILURES or seconds < SECONDS:
                return
            if one is not None and one.passed and one.given_up:
                return  # the page has it
            self._marker.parent.mkdir(parents=True, exist_ok=True)
            self._marker.touch()
            self._marked = True
            if one is not None and one.given_up and self._successes:
                raise PoisonMessage(
                    f"message {self._of_one} has failed {self._failures} times in {seconds:.0f} s, the last "
                    f"with {one.kind}, and no other has been handled since"
                )
            raise HandlerFailing(f"{self._failures} failures and no success in {seconds:.0f} s, {self._last}")
