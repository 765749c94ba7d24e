"""The consumer's whole process with a client that needs no broker: `python -m` this, with the consumer's own
environment and MESSAGES, a list of JSON with payload and properties of each.

What is sent and acknowledged are lines of JSON on standard output, after which it runs until SIGTERM.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any

import pulsar
from pulsar_consumer import __main__ as consumer

from tests.unit.consumer.messages import Message

_lock = threading.Lock()
_out = sys.stdout


def say(**what: Any) -> None:
    with _lock:
        print(json.dumps(what), file=_out, flush=True)


class Client:
    """Is its own consumer and its own producer."""

    def __init__(self, topic: str = "") -> None:
        self._topic = topic
        self._waiting = [
            Message(payload=each["payload"].encode(), entry=entry, sent=each.get("properties", {}))
            for entry, each in enumerate(json.loads(os.environ["MESSAGES"]))
        ]

    def subscribe(self, topic: Any, name: str, **options: Any) -> Client:
        return self

    def create_producer(self, topic: str, **options: Any) -> Client:
        return Client(topic)

    def is_connected(self) -> bool:
        return True

    def close(self) -> None: ...

    def receive(self, *, timeout_millis: int) -> Message:
        if not self._waiting:
            threading.Event().wait(timeout_millis / 1000)
            raise pulsar.Timeout
        return self._waiting.pop(0)

    def acknowledge(self, message: Message) -> None:
        say(acknowledged=message.entry)

    def send(self, content: bytes | None, **arguments: Any) -> str:
        say(sent=(content or b"").decode(), topic=self._topic, properties=arguments.get("properties", {}))
        return "id"


if __name__ == "__main__":
    vars(consumer)["connect"] = lambda broker: Client()
    sys.exit(consumer.main())
