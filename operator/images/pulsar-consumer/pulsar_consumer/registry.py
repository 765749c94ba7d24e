"""The schemas that the broker has of a topic: it keeps each version, and a message names its own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pulsar
from pulsar.schema import Schema

from pulsar_consumer.client import Hopeless
from pulsar_consumer.decoded import Mismatch
from pulsar_consumer.errors import BadSetting
from pulsar_consumer.payloads import AvroPayload, Definition, JsonPayload, UnreadableDefinition
from pulsar_consumer.schema import Schema as Wanted
from pulsar_consumer.topics import plain

INCOMPATIBLE_SCHEMA = "IncompatibleSchema"
TYPES = {"Avro": pulsar._pulsar.SchemaType.AVRO, "JSON": pulsar._pulsar.SchemaType.JSON}
_BYTES = pulsar._pulsar.SchemaType.BYTES
_LATEST = -1

Payload = AvroPayload | JsonPayload


class RegistrySchema(Schema):  # type: ignore[misc]
    """What a consumer subscribes with, so that a message's `value()` is its payload, read by its own schema.

    With a definition the broker compares it with the topic's, as that of any client; without one it does not.
    """

    def __init__(self, wanted: Wanted) -> None:
        """:raises BadSetting: when the definition is none of Avro."""
        self._type = wanted.type
        self._definition: Definition | None = None
        self._payloads: dict[tuple[str, int], Payload] = {}
        if wanted.definition is None:
            super().__init__(bytes, _BYTES, None, "BYTES")
            return
        try:
            self._definition = Definition(wanted.definition)
        except UnreadableDefinition as error:
            raise BadSetting(f"spec.schema.definition: it is {error}") from None
        super().__init__(dict, TYPES[wanted.type], wanted.definition, wanted.type.upper())

    def encode(self, obj: Any) -> bytes:
        raise NotImplementedError("nothing is sent with it")

    def decode(self, data: bytes) -> Any:
        raise NotImplementedError("the message says which schema it has")

    def decode_message(self, msg: Any) -> Any:
        """:raises Mismatch: when the payload does not fit its schema, or there is none.
        :raises PulsarException: when the broker does not answer.
        """
        if msg.has_null_value():
            return None
        version = msg.int_schema_version()
        if version < 0:
            raise Mismatch("it was published without a schema")
        return self._payload(plain(msg.topic_name()), version, msg.topic_name()).read(msg.data())

    def check(self, topics: Sequence[str]) -> None:
        """:raises Hopeless: when the newest schema of one of the topics is of another type."""
        for topic in topics:
            try:
                found = self._client.get_schema_info(topic, _LATEST)
            except pulsar.TopicNotFound:
                continue  # none yet: whoever publishes the first message brings it
            if found.schema_type() != TYPES[self._type]:
                words = f"the schema of {topic!r} is {found.schema_type().name}, not {self._type}"
                raise Hopeless(INCOMPATIBLE_SCHEMA, words)

    def _payload(self, name: str, version: int, topic: str) -> Payload:
        if (known := self._payloads.get((name, version))) is not None:
            return known
        try:
            info = self._client.get_schema_info(topic, version)
        except pulsar.TopicNotFound:
            raise Mismatch(f"the broker does not have version {version} of its schema any more") from None
        if info.schema_type() != TYPES[self._type]:
            raise Mismatch(f"it was published with a schema of {info.schema_type().name}, not {self._type}")
        try:
            written = Definition(json.loads(info.schema()))
        except (ValueError, UnreadableDefinition):
            raise Mismatch(f"version {version} of its schema is no definition of Avro") from None
        kind = AvroPayload if self._type == "Avro" else JsonPayload
        return self._payloads.setdefault((name, version), kind(written, self._definition))
