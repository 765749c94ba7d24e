"""What a definition refuses in a spec, before anything is created: types, patterns, bounds, closed lists.

Pure. The rules are those of the definitions themselves; what only CEL expresses, the API server says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infra.errors import listed

Schema = Mapping[str, Any]
MOST_LISTED = 40
WRONG = "cannot be {}"
_WORDS = {
    "string": "a string",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "object": "an object",
    "array": "a list",
}


@dataclass(frozen=True)
class Problem:
    """What is wrong at a path of the spec (`storage.size`, empty for the spec itself), and what to do."""

    path: str
    what: str
    remedy: str
    value: Any = None

    @property
    def secret(self) -> bool:
        """Whether the value is not to be shown."""
        return self.path.lower().endswith("password")

    def text(self, *, hidden: bool = False) -> str:
        """What is wrong with the value, which is not shown where it is `hidden` or secret."""
        return self.what.format("what it is (not shown)" if hidden or self.secret else _shown(self.value))


def problems(schema: Schema, value: Any, path: str = "") -> Iterator[Problem]:
    """Everything in the value that the schema refuses, in the value's order."""
    kind = schema.get("type")
    if schema.get("x-kubernetes-int-or-string"):
        if isinstance(value, str):
            yield from _text(schema, value, path)
        elif not _is("integer", value):
            yield Problem(path, WRONG, "set it to a string or a whole number", value)
    elif kind is not None and not _is(kind, value):
        if value is not None or not schema.get("nullable"):
            yield Problem(path, WRONG, f"set it to {_WORDS[kind]}", value)
    elif schema.get("enum") and value not in schema["enum"]:
        yield Problem(path, WRONG, f"set it to one of {_each(schema['enum'])}", value)
    elif kind == "string":
        yield from _text(schema, value, path)
    elif kind in ("integer", "number"):
        yield from _bounds(schema, value, path)
    elif kind == "array":
        for number, item in enumerate(value):
            yield from problems(schema.get("items", {}), item, f"{path}[{number}]")
    elif kind == "object":
        yield from _object(schema, value, path)


def _object(schema: Schema, value: Mapping[str, Any], path: str) -> Iterator[Problem]:
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return
    fields, others = schema.get("properties"), schema.get("additionalProperties")
    for name, item in value.items():
        place = f"{path}.{name}" if path else name
        if fields and name in fields:
            yield from problems(fields[name], item, place)
        elif isinstance(others, Mapping):
            yield from problems(others, item, place)
        elif fields:
            remedy = f"remove it, or use one of {listed(sorted(fields), most=MOST_LISTED)}"
            yield Problem(place, "is no field, and cannot be {}", remedy, item)
    for name in schema.get("required", ()):
        if name not in value:
            yield Problem(f"{path}.{name}" if path else name, "is missing", "set it")


def _text(schema: Schema, value: str, path: str) -> Iterator[Problem]:
    least, most = schema.get("minLength", 0), schema.get("maxLength")
    if len(value) < least or (most is not None and len(value) > most):
        bounds = f"at least {least}" if most is None else f"{least} to {most}"
        yield Problem(path, WRONG, f"use {bounds} characters", value)
    elif (pattern := schema.get("pattern")) and not re.search(pattern, value):
        yield Problem(path, WRONG, f"set it to what matches {pattern}", value)


def _bounds(schema: Schema, value: float, path: str) -> Iterator[Problem]:
    least, most = schema.get("minimum"), schema.get("maximum")
    if (least is not None and value < least) or (most is not None and value > most):
        if most is None:
            bounds = f"of {least} or more"
        else:
            bounds = f"of at most {most}" if least is None else f"from {least} to {most}"
        yield Problem(path, WRONG, f"set it to a number {bounds}", value)


def _is(kind: str, value: Any) -> bool:
    if kind in ("integer", "number"):
        # Pulumi's numbers are all floats.
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return number and (kind == "number" or float(value).is_integer())
    types: dict[str, type | tuple[type, ...]] = {
        "string": str,
        "boolean": bool,
        "object": Mapping,
        "array": (list, tuple),
    }
    return isinstance(value, types[kind])


def _shown(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = f"{value}"
    return f"`{text if len(text) <= 80 else text[:77] + '...'}`"


def _each(values: Sequence[Any]) -> str:
    return listed([value for value in values if value is not None], most=MOST_LISTED)
