"""The strategies draw what a schema admits and reach its edges; the judge sees what it does not admit."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import Phase, find, given, settings

from tests.unit.schema.drawing import Json, UnknownPart, drawn_from, flaws

NAME: Json = {"type": "string", "minLength": 2, "maxLength": 9, "pattern": "^[a-z]+$"}
AMOUNT: Json = {
    "x-kubernetes-int-or-string": True,
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "minimum": 0,
    "maxLength": 8,
    "pattern": "^[0-9]+m?$",
}
SCHEMA: Json = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": NAME,
        "free": {"type": "string", "maxLength": 3},
        "count": {"type": "integer", "minimum": 1, "maximum": 3},
        "size": {"type": "integer", "format": "int32"},
        "amount": AMOUNT,
        "flag": {"type": "boolean", "default": True},
        "choice": {"type": "string", "enum": ["A", "B"]},
        "maybe": {"type": "string", "maxLength": 2, "nullable": True},
        "since": {"type": "string", "format": "date-time"},
        "map": {"type": "object", "additionalProperties": NAME, "maxProperties": 2},
        "list": {
            "type": "array",
            "maxItems": 3,
            "items": {"type": "object", "required": ["name"], "properties": {"name": NAME, "value": NAME}},
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
        "set": {"type": "array", "items": NAME, "minItems": 1, "x-kubernetes-list-type": "set"},
    },
}


@settings(max_examples=300)
@given(drawn_from(SCHEMA))
def test_what_is_drawn_is_admitted(value: Any) -> None:
    assert list(flaws(SCHEMA, value)) == []


FIELDS = SCHEMA["properties"]


@pytest.mark.parametrize(
    ("schema", "reached"),
    [
        (NAME, lambda value: len(value) == 2),
        (NAME, lambda value: len(value) == 9),
        (NAME | {"maxLength": 500}, lambda value: len(value) == 500),
        (FIELDS["free"], lambda value: any(ord(char) > 0xFFFF for char in value)),
        (FIELDS["count"], lambda value: value == 3),
        (FIELDS["size"], lambda value: value == -(2**31)),
        (AMOUNT, lambda value: isinstance(value, int)),
        (AMOUNT, lambda value: isinstance(value, str)),
        (FIELDS["maybe"], lambda value: value is None),
        (FIELDS["map"], lambda value: len(value) == 2),
        (FIELDS["list"], lambda value: len(value) == 3),
        (SCHEMA, lambda value: set(value) == {"name"}),
        (SCHEMA, lambda value: len(value) > len(FIELDS) // 2),
    ],
)
def test_the_edges_are_reached(schema: Json, reached: Any) -> None:
    assert reached(found(schema, reached))


@pytest.mark.parametrize(
    ("change", "flaw"),
    [
        ({"name": None}, ".name is null"),
        ({"name": "a"}, ".name has 1"),
        ({"name": "Ab"}, "does not match"),
        ({"name": "ab\n"}, "does not match"),
        ({"count": 4}, ".count has 4"),
        ({"count": True}, "not of type"),
        ({"count": "3"}, "not of type"),
        ({"choice": "C"}, "none of"),
        ({"other": 1}, ".other is not in the schema"),
        ({"map": {"k": "A"}}, ".map.k"),
        ({"list": [{"name": "ab"}, {"name": "ab"}]}, "twice"),
        ({"list": [{}]}, ".list[0].name is missing"),
        ({"set": []}, ".set has 0"),
        ({"amount": "1k"}, "does not match"),
    ],
)
def test_what_is_not_admitted_is_seen(change: Json, flaw: str) -> None:
    found = list(flaws(SCHEMA, {"name": "abc", **change}))
    assert [each for each in found if flaw in each], found


@pytest.mark.parametrize(
    "part", [{"oneOf": []}, {"type": "number"}, {"type": "string", "format": "uuid"}, {"anyOf": []}]
)
def test_a_part_that_is_not_known_is_not_passed_over(part: Json) -> None:
    with pytest.raises(UnknownPart):
        drawn_from(part)


def test_patterns_are_read_as_the_server_reads_them() -> None:
    """`\\S` is any but ASCII's white space; `$` is the end, and not before a last line break."""
    word: Json = {"type": "string", "pattern": "^\\S+$", "maxLength": 4}
    assert list(flaws(word, "a\u2003b")) == []
    assert list(flaws(word, "ab\n")) != []
    assert not found(word, lambda text: not text.isascii()).isascii()


def found(schema: Json, wanted: Any) -> Any:
    """A value of that sort, not made any smaller; fails where none is drawn."""
    unshrunk = settings(max_examples=5000, database=None, phases=[Phase.generate])
    return find(drawn_from(schema), wanted, settings=unshrunk)
