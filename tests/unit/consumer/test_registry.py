"""Schemas as the broker has them: each message is read by its own version, or not handed on at all."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pulsar
import pytest
from pulsar_consumer.__main__ import _schema
from pulsar_consumer.client import Hopeless
from pulsar_consumer.decoded import Decoded, Decoding, Mismatch, version_of
from pulsar_consumer.errors import BadSetting
from pulsar_consumer.handler import Handled, Mismatched, Verdict
from pulsar_consumer.registry import RegistrySchema
from pulsar_consumer.schema import Schema
from pulsar_consumer.settings import Consumer

from tests.unit.consumer.test_payloads import SECRET, written

LEAST = {"PULSAR_SERVER": "pulsar://a", "PULSAR_TOPIC": "t", "PULSAR_SUBSCRIPTION_NAME": "s"}
TYPES = pulsar._pulsar.SchemaType
FIRST = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
SECOND = {**FIRST, "fields": [*FIRST["fields"], {"name": "note", "type": "string", "default": "none"}]}
TOPIC = "persistent://public/default/orders"


@dataclass
class Client:
    """Of a broker with these schemas by version, the newest last. A failure is raised once."""

    schemas: list[Any]
    asked: list[tuple[str, int]] = field(default_factory=list)
    failure: Exception | None = None

    def get_schema_info(self, topic: str, version: int) -> Any:
        self.asked.append((topic, version))
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure
        if version >= len(self.schemas) or not self.schemas:
            raise pulsar.TopicNotFound
        return self.schemas[version]


@dataclass(frozen=True)
class Raw:
    """A message as the client's own library has it, and as the client gives it: with the schema."""

    payload: bytes
    version: int = 0
    topic: str = TOPIC
    null: bool = False
    schema: RegistrySchema | None = None

    def data(self) -> bytes:
        return self.payload

    def has_null_value(self) -> bool:
        return self.null

    def topic_name(self) -> str:
        return self.topic

    def int_schema_version(self) -> int:
        return self.version

    @property
    def _message(self) -> Raw:
        return self

    def value(self) -> Any:
        assert self.schema is not None
        return self.schema.decode_message(self)


def info(definition: Any, type: Any = TYPES.AVRO) -> Any:
    return pulsar._pulsar.SchemaInfo(type, "orders", json.dumps(definition))


def schema_of(client: Client, type: str = "Avro", definition: Any = None) -> RegistrySchema:
    made = RegistrySchema(Schema(type=type, definition=definition))
    made.attach_client(client)
    return made


def test_each_message_is_read_by_the_version_that_it_was_published_with() -> None:
    client = Client([info(FIRST), info(SECOND)])
    schema = schema_of(client)
    assert schema.decode_message(Raw(written({"id": 1}, FIRST), 0)) == {"id": 1}
    newer = written({"id": 2, "note": "b"}, SECOND)
    assert schema.decode_message(Raw(newer, 1)) == {"id": 2, "note": "b"}
    assert schema.decode_message(Raw(newer, 1, topic=f"{TOPIC}-partition-3")) == {"id": 2, "note": "b"}
    assert client.asked == [(TOPIC, 0), (TOPIC, 1)]  # once for each version


def test_with_a_definition_every_version_is_read_as_that() -> None:
    schema = schema_of(Client([info(FIRST), info(SECOND)]), definition=SECOND)
    assert schema.decode_message(Raw(written({"id": 1}, FIRST), 0)) == {"id": 1, "note": "none"}
    assert schema.decode_message(Raw(written({"id": 2, "note": "b"}, SECOND), 1)) == {"id": 2, "note": "b"}


def test_broker_gets_the_definition_and_nothing_without_one() -> None:
    """The client sends no schema of bytes, so the broker compares nothing."""
    assert schema_of(Client([])).schema_info().schema_type() == TYPES.BYTES
    given = schema_of(Client([]), definition=SECOND).schema_info()
    assert (given.schema_type(), json.loads(given.schema())) == (TYPES.AVRO, SECOND)
    assert schema_of(Client([]), "JSON", SECOND).schema_info().schema_type() == TYPES.JSON


@pytest.mark.parametrize(
    ("schemas", "version", "words"),
    [
        ([info(FIRST)], -1, "it was published without a schema"),
        ([info(FIRST)], 4, "the broker does not have version 4 of its schema any more"),
        ([info(FIRST, TYPES.JSON)], 0, "it was published with a schema of JSON, not Avro"),
        ([info({"type": "object"})], 0, "version 0 of its schema is no definition of Avro"),
    ],
)
def test_without_a_schema_that_can_be_read_nothing_is(schemas: list[Any], version: int, words: str) -> None:
    with pytest.raises(Mismatch, match=words):
        schema_of(Client(schemas)).decode_message(Raw(written({"id": 1}, FIRST), version))


def test_broker_that_does_not_answer_is_no_fault_of_the_message() -> None:
    client = Client([info(FIRST)], failure=pulsar.Timeout())
    message = Raw(written({"id": 1}, FIRST), schema=schema_of(client))
    handler = Decoding(lambda message: Handled(), is_json=False)
    with pytest.raises(pulsar.Timeout):
        handler(message)
    assert handler(message) == Handled()


def test_topic_of_another_type_is_reported_and_one_without_a_schema_is_not() -> None:
    with pytest.raises(Hopeless, match=r"IncompatibleSchema: the schema of 'orders' is JSON, not Avro"):
        schema_of(Client([info(FIRST), info(FIRST, TYPES.JSON)])).check(["orders"])
    schema_of(Client([info(FIRST, TYPES.JSON), info(FIRST)])).check(["orders"])
    schema_of(Client([])).check(["orders", "others"])


def test_client_is_given_a_schema_only_where_one_is_asked_for() -> None:
    handled = {**LEAST, "PULSAR_HANDLER_URL": "http://a"}
    assert _schema(Consumer.load({**LEAST, "PULSAR_SCHEMA_TYPE": "Avro"})) is None  # messages are printed
    assert _schema(Consumer.load(handled)) is None
    assert isinstance(_schema(Consumer.load({**handled, "PULSAR_SCHEMA_TYPE": "Avro"})), RegistrySchema)


def test_definition_that_is_none_of_avro_is_a_bad_setting() -> None:
    with pytest.raises(BadSetting, match=r"spec.schema.definition: it is no definition of Avro"):
        schema_of(Client([]), definition={"type": "object"})


def test_handler_gets_the_message_and_its_value_and_is_not_called_without() -> None:
    seen: list[Any] = []

    def handle(message: Any) -> Verdict:
        seen.append((message.value(), message.data(), message.schema_uri))
        return Handled(b"out")

    schema = schema_of(Client([info(FIRST)]))
    data, handler = written({"id": 1}, FIRST), Decoding(handle, is_json=False)
    partition = f"{TOPIC}-partition-1"
    assert handler(Raw(data, schema=schema, topic=partition)) == Handled(b"out")
    assert seen == [({"id": 1}, data, f"{TOPIC}?schemaVersion=0")]
    verdict = handler(Raw(SECRET.encode(), schema=schema))
    assert isinstance(verdict, Mismatched)
    assert verdict.error == "SchemaMismatch: 10 bytes are left after the last field"
    assert len(seen) == 1


def test_message_without_a_value_has_none_and_needs_no_schema() -> None:
    """A service gets it as it came, too: `null` would be a value."""
    values: list[Any] = []

    def handle(message: Any) -> Verdict:
        assert not isinstance(message, Decoded)
        values.append(message.value())
        return Handled()

    handler = Decoding(handle, is_json=False)
    assert handler(Raw(b"", -1, null=True, schema=schema_of(Client([]), "JSON"))) == Handled()
    assert values == [None]


def test_json_goes_on_as_it_came_and_avro_as_json() -> None:
    json_message = Decoded(Raw(b'{ "id" : 1 }'), {"id": 1}, version=0, is_json=True)
    assert json_message.json() == b'{ "id" : 1 }'
    assert Decoded(Raw(b"\x02"), {"id": 1}, version=0, is_json=False).json() == b'{"id":1}'


def test_version_is_read_of_the_clients_own_message() -> None:
    """The property that we use of it is private; a message that was not published has no version."""
    assert version_of(pulsar.Message._wrap(pulsar._pulsar.MessageBuilder().content(b"a").build())) == -1
