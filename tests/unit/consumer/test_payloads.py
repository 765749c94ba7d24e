"""Payloads of real Avro and JSON: what is read, what is refused, and that no value is in the words."""

from __future__ import annotations

import io
import json
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pulsar_consumer.decoded import Mismatch, as_json
from pulsar_consumer.payloads import AvroPayload, Definition, JsonPayload, UnreadableDefinition

SECRET = "canary-5c1e"
CUSTOMER = {"type": "record", "name": "Customer", "fields": [{"name": "name", "type": "string"}]}
FIELDS: list[Any] = [
    {"name": "id", "type": "long"},
    {"name": "note", "type": ["null", "string"]},
    {"name": "customer", "type": CUSTOMER},
    {"name": "color", "type": {"type": "enum", "name": "Color", "symbols": ["RED", "BLUE"]}},
    {"name": "lines", "type": {"type": "array", "items": "int"}},
    {"name": "tags", "type": {"type": "map", "values": "string"}},
    {"name": "other", "type": ["null", "Customer"]},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "raw", "type": "bytes"},
]
ORDER = {"type": "record", "name": "Order", "namespace": "shop", "fields": FIELDS}
VALUE: dict[str, Any] = {
    "id": 7,
    "note": None,
    "customer": {"name": "Ada"},
    "color": "RED",
    "lines": [1, 2],
    "tags": {"a": "b"},
    "other": {"name": "Bob"},
    "at": datetime(2026, 1, 1, tzinfo=UTC),
    "raw": b"\xff\x00",
}
AS_JSON = {**VALUE, "at": 1_767_225_600_000, "raw": "/wA="}
MISSING = object()
NUMBER = "it has a number that JSON does not have, or one of thousands of digits"


def written(value: Any, schema: Any) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, schema, value)
    return stream.getvalue()


def refused(payload: AvroPayload | JsonPayload, data: bytes) -> str:
    with pytest.raises(Mismatch) as error:
        payload.read(data)
    return str(error.value)


AVRO, JSON = AvroPayload(Definition(ORDER)), JsonPayload(Definition(ORDER))


def test_avro_is_read_with_all_that_it_nests() -> None:
    assert AVRO.read(written(VALUE, ORDER)) == VALUE


def test_field_that_is_cut_off_is_named_wherever_that_is() -> None:
    data = written(VALUE, ORDER)
    named = [refused(AVRO, data[:length]) for length in range(len(data))]
    assert named[0] == "field 'id' is cut off"
    assert named[-1] == "field 'raw' is cut off"
    # In the order of the fields, each of which is at least one byte.
    order = [field["name"] for field in FIELDS]
    seen = [order.index(words.split("'")[1]) for words in named]
    assert seen == sorted(seen)
    assert set(seen) == set(range(len(order)))


def test_bytes_that_are_something_else_name_the_first_field_that_they_do_not_fit() -> None:
    assert refused(AVRO, b"rubbish") == "the bytes of field 'note' are not of its type"
    assert refused(AVRO, written({**VALUE, "customer": {"name": SECRET}}, ORDER) + b"!!") == (
        "2 bytes are left after the last field"
    )


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for payload in (AVRO, JSON):
        with suppress(Mismatch):
            payload.read(data)


@given(st.integers(0, 200), st.integers(0, 255))
def test_what_is_read_of_damaged_avro_has_every_field(position: int, byte: int) -> None:
    data = bytearray(written(VALUE, ORDER))
    data[position % len(data)] = byte
    try:
        found = AVRO.read(bytes(data))
    except Mismatch:
        return
    assert set(found) == set(VALUE)


def test_writers_and_readers_definition_may_differ_as_avro_says() -> None:
    older = {**ORDER, "name": "OlderOrder", "fields": FIELDS[:3]}
    added = {"name": "currency", "type": "string", "default": "EUR"}
    wanted = {**ORDER, "fields": [FIELDS[0], added]}
    payload = AvroPayload(Definition(older), Definition(wanted))
    value = {name: VALUE[name] for name in ("id", "note", "customer")}
    assert payload.read(written(value, older)) == {"id": 7, "currency": "EUR"}
    without = {**ORDER, "fields": [FIELDS[0], {"name": "currency", "type": "string"}]}
    payload = AvroPayload(Definition(older), Definition(without))
    assert refused(payload, written(value, older)) == "it cannot be read as spec.schema.definition"


def test_definition_that_is_no_record_is_read_too() -> None:
    payload = AvroPayload(Definition({"type": "array", "items": "string"}))
    assert payload.read(written(["a"], {"type": "array", "items": "string"})) == ["a"]
    assert refused(payload, b"\x02\x0ashort") == "the payload is cut off"


def test_json_is_what_was_sent() -> None:
    assert JSON.read(json.dumps(AS_JSON).encode()) == AS_JSON
    more = {**AS_JSON, "unknown": 1}
    assert JSON.read(json.dumps(more).encode()) == more


@pytest.mark.parametrize("absent", ["note", "other"])
def test_json_may_leave_out_what_may_be_null(absent: str) -> None:
    """As Pulsar's client for Java does."""
    value = {name: each for name, each in AS_JSON.items() if name != absent}
    assert JSON.read(json.dumps(value).encode()) == value


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("id", MISSING, "field 'id' is missing"),
        ("id", SECRET, "field 'id' is text, not long"),
        ("id", True, "field 'id' is a boolean, not long"),
        ("id", 1.5, "field 'id' is a number, not long"),
        ("id", 2**63, "field 'id' is out of the range of long"),
        ("id", None, "field 'id' is null, not long"),
        ("note", {SECRET: 1}, "field 'note' is an object, not string"),
        ("customer", {"name": 5}, "field 'customer.name' is a number, not string"),
        ("customer", [SECRET], "field 'customer' is a list, not shop.Customer"),
        ("color", SECRET, "field 'color' is none of the symbols of shop.Color"),
        ("lines", [1, 2, SECRET], "field 'lines[2]' is text, not int"),
        ("lines", [2**31], "field 'lines[0]' is out of the range of int"),
        ("tags", {SECRET: 1}, "field 'tags.*' is a number, not string"),
        ("other", {"name": []}, "field 'other.name' is a list, not string"),
    ],
)
def test_json_that_does_not_fit_names_the_field_and_no_value(name: str, value: Any, words: str) -> None:
    changed = {**AS_JSON, name: value}
    if value is MISSING:
        del changed[name]
    assert refused(JSON, json.dumps(changed).encode()) == words


def test_json_of_a_union_of_several_names_them() -> None:
    fields = [{"name": "size", "type": ["null", "int", "string"]}]
    payload = JsonPayload(Definition({"type": "record", "name": "R", "fields": fields}))
    assert payload.read(b'{"size": "L"}') == {"size": "L"}
    assert refused(payload, b'{"size": 1.5}') == "field 'size' fits none of null, int, string"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "it is not JSON: Expecting value at character 0"),
        (b'{"id": canary', "it is not JSON: Expecting value at character 7"),
        (b"\xff", "it is not UTF-8"),
        (b'{"id": NaN}', NUMBER),
        (b'{"id": ' + b"9" * 5000 + b"}", NUMBER),
        (b"[" * 100_000, "it is nested too deeply"),
        (b"5", "the payload is a number, not shop.Order"),
    ],
)  # fmt: skip
def test_payload_that_is_no_json_object(data: bytes, words: str) -> None:
    assert refused(JSON, data) == words


def test_json_is_checked_by_the_readers_definition_too() -> None:
    wanted = Definition({**ORDER, "fields": [*FIELDS, {"name": "currency", "type": "string"}]})
    payload = JsonPayload(Definition(ORDER), wanted)
    assert refused(payload, json.dumps(AS_JSON).encode()) == "field 'currency' is missing"


@pytest.mark.parametrize(
    "given_", [None, 5, "nonsense", {"type": "object", "id": "urn:x"}, {"type": "record"}]
)
def test_what_is_no_definition(given_: Any) -> None:
    with pytest.raises(UnreadableDefinition, match="no definition of Avro"):
        Definition(given_)


def test_everything_that_avro_has_can_be_written_as_json() -> None:
    value = {
        **VALUE,
        "price": Decimal("1.50"),
        "ratio": float("nan"),
        "most": float("-inf"),
        "on": VALUE["at"].date(),
    }
    assert json.loads(as_json(value)) == {
        **AS_JSON,
        "at": "2026-01-01T00:00:00+00:00",
        "price": "1.50",
        "ratio": "NaN",
        "most": "-Infinity",
        "on": "2026-01-01",
    }
