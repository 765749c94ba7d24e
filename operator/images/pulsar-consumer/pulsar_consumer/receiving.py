"""One message after the other from a consumer, and which batch it came in."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

import pulsar

TURN_MILLISECONDS = 500
REST_MILLISECONDS = 100


class Stop(Protocol):
    """Whether no more messages are to be received."""

    def is_set(self) -> bool: ...


class Until:
    """Set once asked to stop, or once `is_outdated`: by a client that another one must follow."""

    def __init__(self, stop: Stop, is_outdated: Callable[[], bool]) -> None:
        self._stop, self._is_outdated = stop, is_outdated

    def is_set(self) -> bool:
        return self._stop.is_set() or self._is_outdated()


def next_message(consumer: pulsar.Consumer, *, milliseconds: int) -> pulsar.Message | None:
    with suppress(pulsar.Timeout):
        return consumer.receive(timeout_millis=milliseconds)
    return None


def batch_of(message: pulsar.Message) -> tuple[object, ...] | None:
    """The batch the message came in; None of one that came alone."""
    id = message.message_id()
    if id.batch_index() < 0:
        return None
    return message.topic_name(), id.ledger_id(), id.entry_id()
