"""The dead letters of this consumer: kept for who looks at them, listed, and sent back to their topic.

Without a subscription the broker drops what nobody has read, once it closes a ledger. So a consumer with a
topic for dead letters makes SUBSCRIPTION there, from its first message on. What is sent back is acknowledged,
and so not listed any more.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any, BinaryIO

import pulsar
from pulsar.schema import Schema

from pulsar_consumer.client import REASONS, Hopeless, connect, explain, log, run_to_the_end
from pulsar_consumer.handler import id_of
from pulsar_consumer.outbox import arguments_of
from pulsar_consumer.receiving import next_message
from pulsar_consumer.settings import BadSetting, Broker, keeps_dead_letters
from pulsar_consumer.topics import Topics

SUBSCRIPTION = "kindling-dead-letters"
OWN = (
    "REAL_TOPIC", "REAL_SUBSCRIPTION", "ORIGIN_MESSAGE_ID", "DEAD_LETTER_REASON", "DEAD_LETTER_ERROR",
    "DEAD_LETTER_DELIVERIES", "DEAD_LETTER_SCHEMA_VERSION",
)  # fmt: skip
"""The properties that made a dead letter of it; it is sent back without them."""
SENT_BACK = "SENT_BACK_FROM"
"""The property of one that was sent back: the id that it had as a dead letter."""
WAIT_MILLISECONDS = 10_000
"""So long without one, there are no more. The topic's last message, which ends it sooner, does not come if it
was sent back; and a broker with much to do is silent for seconds.
"""
PREFETCH = 20
"""Messages: each may have 5 MB."""
PREVIEW = 200
"""Bytes of a payload that are shown."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """`most` of them, those alone with `reason` unless that is empty. `send_back`: to the one of `topics`
    that each came from.
    """

    broker: Broker
    topics: Topics
    topic: str
    subscription: str
    reason: str = ""
    most: int = 100
    send_back: bool = False

    @staticmethod
    def load(env: Mapping[str, str], args: Sequence[str]) -> Asked:
        """:raises BadSetting: where this consumer has no topic for dead letters."""
        parser = argparse.ArgumentParser(prog="python3 -m pulsar_consumer.dead_letters")
        parser.add_argument("action", choices=("list", "redrive"))
        parser.add_argument("--reason", default="")
        parser.add_argument("--most", type=int, default=100)
        found = parser.parse_args(args)
        topic = env.get("PULSAR_DEAD_LETTER_TOPIC", "")
        if not topic:
            raise BadSetting("spec.deadLetter: there is none, so nothing is given up")
        if not keeps_dead_letters(env):
            raise BadSetting("spec.deadLetter.keep: it is false, so whoever reads the topic has them")
        return Asked(
            broker=Broker.load(env),
            topics=Topics.load(env),
            topic=topic,
            subscription=env.get("PULSAR_SUBSCRIPTION_NAME", ""),
            reason=found.reason,
            most=found.most,
            send_back=found.action == "redrive",
        )


def keep(client: Any, topic: str) -> None:
    """Make the subscription that keeps dead letters, unless it is there.

    A consumer goes on without it: what is given up is sent either way.
    """
    try:
        subscribed(client, topic, prefetch=1).close()
    except pulsar.ConsumerBusy:
        pass  # a reader looks at them, or another consumer makes it just now
    except (pulsar.AuthorizationError, pulsar.AuthenticationError) as error:
        log.warning("dead letters of %s may be dropped, nobody may subscribe: %s", topic, error)


def subscribed(client: Any, topic: str, *, prefetch: int = PREFETCH) -> Any:
    """Alone: two who look at once would each see some."""
    return client.subscribe(
        topic,
        SUBSCRIPTION,
        consumer_type=pulsar.ConsumerType.Exclusive,
        initial_position=pulsar.InitialPosition.Earliest,
        receiver_queue_size=prefetch,
    )


def run(asked: Asked, out: BinaryIO) -> None:
    """A line of JSON for each, then one with `found` and `sent`.

    :raises Hopeless, PulsarException: when the broker is not there, or refuses.
    """
    found = sent = 0
    try:
        with closing(connect(asked.broker)) as client, closing(subscribed(client, asked.topic)) as consumer:
            producers: dict[tuple[str, str], Any] = {}
            for message, name in _own(consumer, asked):
                if found == asked.most:
                    break
                found += 1
                if asked.send_back:
                    version = (message.properties() or {}).get("DEAD_LETTER_SCHEMA_VERSION", "")
                    if (producer := producers.get((name, version))) is None:
                        producer = producers[name, version] = _producer(client, name, version)
                    # Taken by the broker before it is acknowledged: killed between, it is there twice.
                    content, arguments = _as_it_was(message)
                    producer.send(content, **arguments)
                    consumer.acknowledge(message)
                    sent += 1
                out.write(json.dumps(shown(message)).encode() + b"\n")
                out.flush()
    except pulsar.ConsumerBusy:
        words = f"another reader looks at the dead letters of {asked.topic} now"
        raise Hopeless(REASONS[pulsar.ConsumerBusy][0], words) from None
    except pulsar.PulsarException as error:
        raise explain(error, asked.broker) or error from None
    out.write(json.dumps({"found": found, "sent": sent}).encode() + b"\n")
    out.flush()


def shown(message: Any) -> dict[str, Any]:
    """What is said of one. Its payload is cut off, and may be anything."""
    properties, data = message.properties() or {}, b"" if message.has_null_value() else message.data()
    return {
        "id": id_of(message),
        "reason": properties.get("DEAD_LETTER_REASON", ""),
        "error": properties.get("DEAD_LETTER_ERROR", ""),
        "deliveries": properties.get("DEAD_LETTER_DELIVERIES", ""),
        "topic": properties.get("REAL_TOPIC", ""),
        "origin": properties.get("ORIGIN_MESSAGE_ID", ""),
        "key": message.partition_key(),
        "publishTime": message.publish_timestamp(),
        "size": len(data),
        "payload": data[:PREVIEW].decode(errors="backslashreplace"),
    }


def _own(consumer: Any, asked: Asked) -> Iterator[tuple[Any, str]]:
    """Those that this subscription gave up, and the topic of each: several may have the one for them."""
    for message in _all(consumer):
        properties = message.properties() or {}
        if properties.get("REAL_SUBSCRIPTION") != asked.subscription:
            continue
        if asked.reason and properties.get("DEAD_LETTER_REASON") != asked.reason:
            continue
        if (name := asked.topics.name_of(str(properties.get("REAL_TOPIC", "")))) is not None:
            yield message, name


def _all(consumer: Any) -> Iterator[Any]:
    """Every message that waits, up to the one that was the topic's last at the beginning."""
    last = None
    with suppress(pulsar.PulsarException):  # of a topic with partitions there is none
        last = _position(consumer.get_last_message_id())
    if last is not None and last[1] < 0:
        return
    while (message := next_message(consumer, milliseconds=WAIT_MILLISECONDS)) is not None:
        yield message
        if last is not None and _position(message.message_id()) >= last:
            return


def _position(id: Any) -> tuple[int, int, int]:
    return id.ledger_id(), id.entry_id(), id.batch_index()


class _AsPublished(Schema):  # type: ignore[misc]
    """The schema that a message was published with, for a payload that is encoded by it already."""

    def __init__(self, found: Any) -> None:
        self._schema_info = found

    def encode(self, obj: Any) -> Any:
        return obj

    def decode(self, data: Any) -> Any:
        return data


def _producer(client: Any, topic: str, version: str) -> Any:
    """Of messages with that version of the topic's schema, so that all who read the topic can decode them."""
    if version:
        # The broker may not have that version any more, and a property may be anything.
        with suppress(pulsar.TopicNotFound, TypeError, ValueError):
            found = client._client.get_schema_info(topic, int(version))
            return client.create_producer(topic, schema=_AsPublished(found))
    return client.create_producer(topic)


def _as_it_was(message: Any) -> tuple[Any, ...]:
    properties = {name: value for name, value in (message.properties() or {}).items() if name not in OWN} | {
        SENT_BACK: id_of(message)
    }
    content = None if message.has_null_value() else message.data()
    return content, arguments_of(message, properties)


if __name__ == "__main__":
    run_to_the_end(lambda: run(Asked.load(os.environ, sys.argv[1:]), sys.stdout.buffer))
