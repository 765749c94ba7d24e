"""What is sent: to the output topic, to the dead letters, and wherever a Function publishes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import pulsar

from pulsar_consumer.client import REASONS, Hopeless

Send = Callable[[str, "bytes | None", dict[str, Any]], Any]
"""Sends to a topic, with the client's own arguments; returns the id once the broker has the message."""


class Outbox:
    """The producers of one client after the other; several threads send at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._client: Any = None
        self._producers: dict[str, Any] = {}

    def connect(self, client: Any, topics: Mapping[str, str]) -> None:
        """From now on, send by this client; `topics` by the field that names each are asked for at once.

        :raises Hopeless: when the broker will never take messages for one of them.
        """
        with self._lock:
            self._client, self._producers = client, {}
        for field, topic in topics.items():
            try:
                self._producer(topic)
            except pulsar.PulsarException as error:
                if found := REASONS.get(type(error)):
                    reason, words = found
                    raise Hopeless(reason, f"{words} ({field} {topic!r})") from None
                raise

    def is_connected(self) -> bool:
        """Whether each producer is."""
        with self._lock:
            return all(producer.is_connected() for producer in self._producers.values())

    def send(self, topic: str, content: bytes | None, arguments: dict[str, Any]) -> Any:
        """:raises PulsarException: when the broker has not taken it."""
        return self._producer(topic).send(content, **arguments)

    def _producer(self, topic: str) -> Any:
        with self._lock:
            if topic not in self._producers:
                self._producers[topic] = self._client.create_producer(topic, block_if_queue_full=True)
            return self._producers[topic]


def arguments_of(message: Any, properties: dict[str, str]) -> dict[str, Any]:
    """What a message made of another one has of it."""
    found: dict[str, Any] = {"properties": properties}
    if key := message.partition_key():
        found["partition_key"] = key
    if key := message.ordering_key():
        found["ordering_key"] = key
    if moment := message.event_timestamp():
        found["event_timestamp"] = moment
    return found
