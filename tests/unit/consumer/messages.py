"""Messages as the client gives them, and a consumer and a broker that note what is done."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

import pulsar


@dataclass(frozen=True)
class Message:
    """With the client's own kind of id."""

    payload: bytes = b"hello"
    entry: int = 0
    index: int = -1
    key: str = ""
    sent: dict[str, str] = field(default_factory=dict, hash=False)
    event: int = 0
    null: bool = False
    topic: str = "persistent://public/default/t"
    version: int = -1
    redelivered: int = 0

    @property
    def _message(self) -> Message:
        """The client has the version of the schema in its own library's message."""
        return self

    def int_schema_version(self) -> int:
        return self.version

    def data(self) -> bytes:
        return self.payload

    def properties(self) -> dict[str, str]:
        return dict(self.sent)

    def partition_key(self) -> str:
        return self.key

    def ordering_key(self) -> str:
        return ""

    def event_timestamp(self) -> int:
        return self.event

    def publish_timestamp(self) -> int:
        return 1_767_225_600_123

    def redelivery_count(self) -> int:
        return self.redelivered

    def has_null_value(self) -> bool:
        return self.null

    def topic_name(self) -> str:
        return self.topic

    def message_id(self) -> Any:
        return pulsar.MessageId(-1, 7, self.entry, self.index)


@dataclass
class Record:
    """What happened, in order: `("send", topic, payload, arguments)`, `("acknowledge", message)`."""

    events: list[tuple[Any, ...]] = field(default_factory=list)
    failure: Exception | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def record(self, name: str, value: float) -> bool:
        self.events.append(("record", name, value))
        return True

    def send(self, topic: str, content: bytes | None, arguments: dict[str, Any]) -> None:
        if self.failure is not None:
            raise self.failure
        with self.lock:
            self.events.append(("send", topic, content, arguments))

    def acknowledge(self, message: Message) -> None:
        with self.lock:
            self.events.append(("acknowledge", message))

    def acknowledged(self) -> list[Message]:
        return [event[1] for event in list(self.events) if event[0] == "acknowledge"]

    def sent(self, topic: str) -> list[tuple[bytes | None, dict[str, Any]]]:
        return [event[2:] for event in list(self.events) if event[:2] == ("send", topic)]
