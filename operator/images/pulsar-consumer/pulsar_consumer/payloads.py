"""Payloads of Avro and JSON, read by the definition of their schema: Pulsar has Avro's for both."""

from __future__ import annotations

import io
import json
from bisect import bisect_left
from typing import Any, NoReturn

import fastavro

from pulsar_consumer.decoded import Mismatch


class UnreadableDefinition(Exception):
    """What is no definition of Avro."""


class Definition:
    """A definition of Avro, with the types that it names."""

    def __init__(self, given: Any) -> None:
        """:raises UnreadableDefinition: when it is none."""
        self.names: dict[str, Any] = {}
        try:
            self.schema: Any = fastavro.parse_schema(given, named_schemas=self.names)
        except Exception as error:  # noqa: BLE001 - of many kinds, for what anybody may have registered
            raise UnreadableDefinition(f"no definition of Avro ({type(error).__name__})") from None


class AvroPayload:
    """Of Avro's binary encoding: `written` by one definition, and `wanted` by another one if it is given."""

    def __init__(self, written: Definition, wanted: Definition | None = None) -> None:
        self._written = written.schema
        self._wanted = None if wanted is None else wanted.schema
        if isinstance(self._written, dict) and isinstance(self._wanted, dict) and "name" in self._wanted:
            # A consumer's record may have another name than the producer's, as with Pulsar's own clients.
            self._written = {**self._written, "name": self._wanted["name"]}

    def read(self, data: bytes) -> Any:
        """:raises Mismatch: when it is not, or not as a whole, what the definition says."""
        stream = io.BytesIO(data)
        try:
            value = fastavro.schemaless_reader(stream, self._written, self._wanted)
        except Exception as error:  # noqa: BLE001 - bytes of something else end in many kinds
            raise Mismatch(self._explained(data, error)) from None
        if left := len(data) - stream.tell():
            raise Mismatch(f"{left} bytes are left after the last field")
        return value

    def _explained(self, data: bytes, error: Exception) -> str:
        fields = self._written.get("fields", []) if isinstance(self._written, dict) else []
        if fields:
            broken = bisect_left(range(1, len(fields) + 1), True, key=lambda count: self._fails(data, count))
            if broken == len(fields):
                return "it cannot be read as spec.schema.definition"
            where = f"field {fields[broken]['name']!r}"
        else:
            where = "the payload"
        if isinstance(error, EOFError):
            return f"{where} is cut off"
        return f"the bytes of {where} are not of its type"

    def _fails(self, data: bytes, count: int) -> bool:
        """Whether its first so many fields cannot be read."""
        first = {**self._written, "fields": self._written["fields"][:count]}
        try:
            fastavro.schemaless_reader(io.BytesIO(data), first, None)
        except Exception:  # noqa: BLE001 - as above
            return True
        return False


class JsonPayload:
    """Of JSON, checked by the definition that it was published with, and by another one if it is given."""

    def __init__(self, written: Definition, wanted: Definition | None = None) -> None:
        self._definitions = [written] if wanted is None else [written, wanted]

    def read(self, data: bytes) -> Any:
        """:raises Mismatch: when it is no JSON, or not what a definition says."""
        try:
            value = json.loads(data.decode(), parse_constant=_no_constant)
            for definition in self._definitions:
                if words := _misfit(value, definition.schema, definition.names, ""):
                    raise Mismatch(words)
        except json.JSONDecodeError as error:
            raise Mismatch(f"it is not JSON: {error.msg} at character {error.pos}") from None
        except UnicodeDecodeError:
            raise Mismatch("it is not UTF-8") from None
        except RecursionError:
            raise Mismatch("it is nested too deeply") from None
        except ValueError:
            raise Mismatch("it has a number that JSON does not have, or one of thousands of digits") from None
        return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


_RANGES = {"int": 2**31, "long": 2**63}
_TYPES: dict[str, tuple[type, ...]] = {
    "null": (type(None),),
    "boolean": (bool,),
    "int": (int,),
    "long": (int,),
    "float": (int, float),
    "double": (int, float),
    "string": (str,),
    # As text, which clients encode each in their own way.
    "bytes": (str,),
    "fixed": (str,),
    "enum": (str,),
    "record": (dict,),
    "map": (dict,),
    "array": (list,),
}
_WORDS = {
    type(None): "null",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "text",
    dict: "an object",
    list: "a list",
}


def _misfit(value: Any, schema: Any, names: dict[str, Any], path: str) -> str:
    """Which field is not as the schema has it, and why; empty if all are."""
    if isinstance(schema, list):
        return _misfit_of_union(value, schema, names, path)
    if isinstance(schema, str):
        if schema in names:
            return _misfit(value, names[schema], names, path)
        schema = {"type": schema}
    kind = schema["type"]
    if not isinstance(kind, str) or kind in names:
        return _misfit(value, kind, names, path)
    if "logicalType" in schema:
        return ""  # dates and decimals, which clients write as text, number or list
    where = f"field {path!r}" if path else "the payload"
    if not _is_of(value, kind):
        return f"{where} is {_WORDS[type(value)]}, not {_name(schema)}"
    if kind in _RANGES and not -_RANGES[kind] <= value < _RANGES[kind]:
        return f"{where} is out of the range of {kind}"
    if kind == "enum" and value not in schema["symbols"]:
        return f"{where} is none of the symbols of {_name(schema)}"
    return _misfit_inside(value, schema, names, path)


def _is_of(value: Any, kind: str) -> bool:
    return isinstance(value, _TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))


def _misfit_of_union(value: Any, branches: list[Any], names: dict[str, Any], path: str) -> str:
    found = [_misfit(value, branch, names, path) for branch in branches]
    if "" in found:
        return ""
    others = [words for words, branch in zip(found, branches, strict=True) if branch != "null"]
    if len(others) == 1 and value is not None:
        return others[0]
    where = f"field {path!r}" if path else "the payload"
    return f"{where} fits none of {', '.join(map(_name, branches))}"


def _misfit_inside(value: Any, schema: dict[str, Any], names: dict[str, Any], path: str) -> str:
    """Of a record, a map or a list. A map's keys are not named: they are the message's."""
    inside: list[tuple[Any, Any, str]] = []
    if schema["type"] == "record":
        for field in schema["fields"]:
            name, here = field["name"], f"{path}.{field['name']}".lstrip(".")
            if name in value:
                inside.append((value[name], field["type"], here))
            elif "default" not in field and _misfit(None, field["type"], names, here):
                return f"field {here!r} is missing"
    elif schema["type"] == "map":
        inside = [(each, schema["values"], f"{path}.*") for each in value.values()]
    elif schema["type"] == "array":
        inside = [(each, schema["items"], f"{path}[{index}]") for index, each in enumerate(value)]
    for each, type_, here in inside:
        if words := _misfit(each, type_, names, here):
            return words
    return ""


def _name(schema: Any) -> str:
    if isinstance(schema, dict):
        return str(schema.get("name") or schema["type"])
    return str(schema)
