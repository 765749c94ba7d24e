"""Messages whose payload is read by their schema before a handler has them, or that are not handed over."""

from __future__ import annotations

import base64
import json
import math
from datetime import date, time
from decimal import Decimal
from typing import Any
from uuid import UUID

from pulsar_consumer.handler import Handler, Mismatched, Verdict, one_line
from pulsar_consumer.topics import plain


class Mismatch(Exception):
    """A payload that does not fit its schema: which field, and why. No value is in it."""


class Decoded:
    """The client's message, with the payload that was read as its `value()`."""

    def __init__(self, message: Any, value: Any, *, version: int, is_json: bool) -> None:
        self._message, self._value, self._is_json = message, value, is_json
        domain = message.topic_name().partition("://")[0]
        self.schema_uri = f"{domain}://{plain(message.topic_name())}?schemaVersion={version}"
        """Names the topic's schema, as CloudEvents' `dataschema`."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._message, name)

    def value(self) -> Any:
        return self._value

    def json(self) -> bytes:
        """The payload as it came where it is JSON, and else what was read as JSON."""
        return bytes(self._message.data()) if self._is_json else as_json(self._value)


class Decoding:
    """A handler that reads each payload for another one."""

    def __init__(self, handler: Handler, *, is_json: bool) -> None:
        self._handler, self._is_json = handler, is_json

    def __call__(self, message: Any) -> Verdict:
        """:raises PulsarException: when the broker does not say what the schema is."""
        if message.has_null_value():
            return self._handler(message)
        try:
            value = message.value()
        except Mismatch as error:
            return Mismatched(one_line(str(error)))
        decoded = Decoded(message, value, version=version_of(message), is_json=self._is_json)
        return self._handler(decoded)


def version_of(message: Any) -> int:
    """Of the schema that a message was published with; -1 if there was none.

    The client's own `schema_version()` raises for versions above 127, which are no UTF-8.
    """
    return int(message._message.int_schema_version())


def as_json(value: Any) -> bytes:
    """What was read of Avro. Bytes are base64; numbers that JSON does not have are text, as decimals are."""
    return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":")).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, date | time):  # a datetime is a date
        return value.isoformat()
    if isinstance(value, Decimal | UUID):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
