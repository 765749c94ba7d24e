"""One message after the other from a consumer, and which batch it came in."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

import pulsar

TURN_MILLISECONDS = 500
REST_MILLISECONDS = 100
LOST_SECONDS = 30.0
MOST_SKIPPED = 1000
"""Messages of other topics, among which the rest of a batch is looked for at a stop."""


class Stop(Protocol):
    """Whether no more messages are to be received."""

    def is_set(self) -> bool: ...


class Until:
    """Set once asked to stop, or once one `is_outdated`: by a client that another one must follow."""

    def __init__(self, stop: Stop, *is_outdated: Callable[[], bool]) -> None:
        self._stop, self._is_outdated = stop, is_outdated

    def is_set(self) -> bool:
        return self._stop.is_set() or any(outdated() for outdated in self._is_outdated)


class Lost:
    """Whether a consumer has been unconnected for LOST_SECONDS.

    One of a pattern never drops a topic that was deleted, and is unconnected from then on: the client
    expects it among its partitions. Subscribed again, it does without.
    """

    def __init__(
        self, is_connected: Callable[[], bool], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._is_connected, self._clock = is_connected, clock
        self._since: float | None = None

    def __call__(self) -> bool:
        if self._is_connected():
            self._since = None
            return False
        now = self._clock()
        self._since = now if self._since is None else self._since
        return now - self._since >= LOST_SECONDS


def next_message(consumer: pulsar.Consumer, *, milliseconds: int) -> pulsar.Message | None:
    with suppress(pulsar.Timeout):
        return consumer.receive(timeout_millis=milliseconds)
    return None


class Begun:
    """The batches of which a part was handled, the last one of each topic: messages of several topics come
    in between each other.
    """

    def __init__(self) -> None:
        self._batches: dict[str, tuple[object, ...]] = {}
        self._skipped = 0

    def handled(self, message: pulsar.Message) -> None:
        if (batch := batch_of(message)) is not None:
            self._batches[message.topic_name()] = batch
        else:
            self._batches.pop(message.topic_name(), None)

    def any(self) -> bool:
        """Whether the rest of one may come: of a batch that was handled whole, nobody knows, and other
        topics may have messages for ever.
        """
        return bool(self._batches) and self._skipped < MOST_SKIPPED

    def continues(self, message: pulsar.Message) -> bool:
        """Whether it is of a batch that is begun; if not, its topic has no such batch any more."""
        topic = message.topic_name()
        if topic in self._batches and batch_of(message) == self._batches[topic]:
            return True
        self._batches.pop(topic, None)
        self._skipped += 1
        return False


def batch_of(message: pulsar.Message) -> tuple[object, ...] | None:
    """The batch the message came in; None of one that came alone."""
    id = message.message_id()
    if id.batch_index() < 0:
        return None
    return message.topic_name(), id.ledger_id(), id.entry_id()
