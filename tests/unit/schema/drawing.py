"""From a CRD's schema to values: hypothesis strategies of all that it admits, and a judge of one value.

Both know the parts of a schema that the CRDs use and raise on any other, so that a new part cannot go
untested. CEL rules are left out: what is drawn is more than the API server lets through.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from hypothesis import strategies as st
from hypothesis.internal.conjecture.providers import AVAILABLE_PROVIDERS, HypothesisProvider

Json = dict[str, Any]

FEW = 4
"""How many elements of a list or a map are drawn at most."""
INTEGERS = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
KNOWN = frozenset(
    {
        "type", "properties", "required", "additionalProperties", "minProperties", "maxProperties",
        "items", "minItems", "maxItems", "enum", "pattern", "minLength", "maxLength",
        "minimum", "maximum", "format", "nullable", "default", "description", "anyOf",
        "x-kubernetes-int-or-string", "x-kubernetes-list-type", "x-kubernetes-list-map-keys",
        "x-kubernetes-map-type", "x-kubernetes-validations",
    }
)  # fmt: skip
FORMATS = frozenset({None, "password", "date-time", *INTEGERS})
TEXT = st.characters(codec="utf-8")


OF_THE_SEED = "kindling-seeded"
"""A backend of Hypothesis that draws the same of a seed whatever else is loaded."""


class _OfTheSeed(HypothesisProvider):
    """Draws no constants: Hypothesis takes them from whichever modules of the project are loaded, so a seed
    would give other values in a run of all tests, and after any edit.
    """

    def _maybe_draw_constant(self, *args: Any, **options: Any) -> None:
        return None


AVAILABLE_PROVIDERS[OF_THE_SEED] = _OfTheSeed


class UnknownPart(Exception):
    """A schema says something that is neither drawn nor judged here; teach both."""


def drawn_from(schema: Json) -> st.SearchStrategy[Any]:
    """Values that the schema admits; null where it is nullable, fields with a default left out too."""
    _check(schema)
    values = _drawn(schema)
    return st.none() | values if schema.get("nullable") else values


def _drawn(schema: Json) -> st.SearchStrategy[Any]:
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        return st.integers(*_bounds(schema)) | _strings(schema)
    match schema.get("type"):
        case "object" if "additionalProperties" in schema:
            values = drawn_from(schema["additionalProperties"])
            least, most = schema.get("minProperties", 0), schema.get("maxProperties", FEW)
            return st.dictionaries(
                st.text(TEXT, max_size=20), values, min_size=least, max_size=min(most, FEW)
            )
        case "object":
            fields = {name: drawn_from(below) for name, below in schema.get("properties", {}).items()}
            required = {name: fields.pop(name) for name in schema.get("required", ())}
            return st.fixed_dictionaries(required, optional=fields)
        case "array":
            least, most = schema.get("minItems", 0), min(schema.get("maxItems", FEW), FEW)
            unique = _identity(schema) if schema.get("x-kubernetes-list-type") in ("map", "set") else None
            return st.lists(drawn_from(schema["items"]), min_size=least, max_size=most, unique_by=unique)
        case "integer":
            return st.integers(*_bounds(schema))
        case "boolean":
            return st.booleans()
        case "string" if schema.get("format") == "date-time":
            return st.datetimes(min_value=datetime(2000, 1, 1)).map(lambda when: f"{when:%Y-%m-%dT%H:%M:%SZ}")
        case "string":
            return _strings(schema)
    raise UnknownPart(f"type {schema.get('type')!r}")


def _strings(schema: Json) -> st.SearchStrategy[str]:
    """Short ones, long ones, and ones of exactly the greatest length where the pattern lets them grow."""
    least, most = schema.get("minLength", 0), schema.get("maxLength")
    if "pattern" not in schema:
        return st.text(TEXT, min_size=least, max_size=most)
    pattern = _pattern(schema)

    def admitted(text: str) -> bool:
        return least <= len(text) <= (most or len(text)) and pattern.search(text) is not None

    def longest(text: str) -> str:
        grown = (text * (most // max(1, len(text)) + 1))[:most] if most else text
        return grown if admitted(grown) else text

    short = st.from_regex(pattern, alphabet=TEXT).filter(admitted)
    return short | short.map(longest)


def _pattern(schema: Json) -> re.Pattern[str]:
    """As the API server reads it: `$` is the end and not a line's, and classes are of ASCII."""
    return re.compile(re.sub(r"(?<!\\)\$(?=$|[|)])", r"\\Z", schema["pattern"]), re.ASCII)


def _bounds(schema: Json) -> tuple[int, int]:
    least, most = INTEGERS.get(schema.get("format", "int64"), INTEGERS["int64"])
    return schema.get("minimum", least), schema.get("maximum", most)


def _identity(schema: Json) -> Any:
    """The key that distinguishes the elements of a list, by its type."""
    keys = schema.get("x-kubernetes-list-map-keys")
    return (lambda item: tuple(item.get(key) for key in keys)) if keys else (lambda item: item)


def flaws(schema: Json, value: Any, path: str = "") -> Iterator[str]:
    """What the schema would refuse in a value, or drop in silence (a field it does not know)."""
    _check(schema)
    if value is None:
        if not schema.get("nullable"):
            yield f"{path} is null"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path} {value!r} is none of {schema['enum']}"
    kinds: dict[Any, type | tuple[type, ...]] = {
        "object": dict, "array": list, "integer": int, "boolean": bool, "string": str,
    }  # fmt: skip
    type = (int, str) if schema.get("x-kubernetes-int-or-string") else kinds[schema.get("type")]
    if not isinstance(value, type) or (isinstance(value, bool) and type is not bool):
        yield f"{path} {value!r} is not of type {schema.get('type')}"
    elif isinstance(value, dict):
        missing = [name for name in schema.get("required", ()) if name not in value]
        yield from (f"{path}.{name} is missing" for name in missing)
        for name, below in value.items():
            known = schema.get("properties", {}).get(name, schema.get("additionalProperties"))
            if known is None:
                yield f"{path}.{name} is not in the schema"
            else:
                yield from flaws(known, below, f"{path}.{name}")
        yield from _out_of_bounds(schema, len(value), path, "minProperties", "maxProperties")
    elif isinstance(value, list):
        yield from _out_of_bounds(schema, len(value), path, "minItems", "maxItems")
        for number, below in enumerate(value):
            yield from flaws(schema["items"], below, f"{path}[{number}]")
        if schema.get("x-kubernetes-list-type") in ("map", "set"):
            names = [_identity(schema)(item) for item in value]
            yield from (f"{path} has {name!r} twice" for name in names if names.count(name) > 1)
    elif isinstance(value, str):
        yield from _out_of_bounds(schema, len(value), path, "minLength", "maxLength")
        if "pattern" in schema and _pattern(schema).search(value) is None:
            yield f"{path} {value!r} does not match {schema['pattern']}"
    elif isinstance(value, int) and not isinstance(value, bool):
        yield from _out_of_bounds(schema, value, path, "minimum", "maximum")


def _out_of_bounds(schema: Json, amount: int, path: str, least: str, most: str) -> Iterator[str]:
    if amount < schema.get(least, amount) or amount > schema.get(most, amount):
        yield f"{path} has {amount}, beyond {least} {schema.get(least)} or {most} {schema.get(most)}"


def _check(schema: Json) -> None:
    unknown = schema.keys() - KNOWN
    if unknown:
        raise UnknownPart(f"keywords {sorted(unknown)}")
    if schema.get("format") not in FORMATS:
        raise UnknownPart(f"format {schema['format']!r}")
    if "anyOf" in schema and not schema.get("x-kubernetes-int-or-string"):
        raise UnknownPart("anyOf beyond int-or-string")
