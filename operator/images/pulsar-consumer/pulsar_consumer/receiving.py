"""One message after the other from a consumer, and which batch it came in."""

from __future__ import annotations

from contextlib import suppress

import pulsar

TURN_MILLISECONDS = 500
REST_MILLISECONDS = 100


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
