"""Objects as YAML, and with template expressions of Helm in them where values vary.

Our own because PyYAML neither writes an `if` between two lines nor promises the same bytes in its next
version.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

# What no reader of YAML takes for anything but text.
_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./-]*( [A-Za-z0-9_./-]+)*")
_NOT_TEXT = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "null", "inf", "nan"})
# Text of several lines that begins and ends with something to see.
_LITERAL = re.compile(r"\S(.*\S)?\n?", re.DOTALL)


@dataclass(frozen=True)
class When:
    """An entry of a mapping or an element of a list that is there where the template's `condition` holds."""

    condition: str
    value: Any


@dataclass(frozen=True)
class Either:
    """Elements of a list: `each` for every item of the expression `over`, `otherwise` where it is empty."""

    over: str
    each: tuple[Any, ...]
    otherwise: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Block:
    """A mapping or a list that the expression has; with its key it is left out where that is empty. As an
    element of a list, the elements that the expression has.
    """

    expression: str


@dataclass(frozen=True)
class With:
    """A mapping's own entries after those that the expression has."""

    expression: str
    entries: Mapping[str, Any]


@dataclass(frozen=True)
class Text:
    """Text with marks in it, each of which is replaced by its expression."""

    text: str
    expressions: Mapping[str, str]


@dataclass(frozen=True)
class Value:
    """A value that the expression has, written as JSON."""

    expression: str


def documents(objects: Iterable[Mapping[str, Any]]) -> str:
    """A stream of YAML documents."""
    return "".join(f"---\n{document(found)}" for found in objects)


def document(found: Mapping[str, Any]) -> str:
    """One of them, with the end of its last line."""
    return "\n".join(_lines(found, "")) + "\n"


def _lines(value: Any, pad: str) -> Iterator[str]:
    if isinstance(value, With):
        yield from _with(value, pad)
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _entry(name, item, pad)
    else:
        for condition, items in itertools.groupby(value, key=_condition):
            if condition:
                yield f"{pad}{{{{- if {condition} }}}}"
            for item in items:
                yield from _element(item.value if condition else item, pad)
            if condition:
                yield f"{pad}{{{{- end }}}}"


def _condition(item: Any) -> str:
    return item.condition if isinstance(item, When) else ""


def _with(value: With, pad: str) -> Iterator[str]:
    yield f"{pad}{{{{- with {value.expression} }}}}"
    yield f"{pad}{{{{- toYaml . | nindent {len(pad)} }}}}"
    yield f"{pad}{{{{- end }}}}"
    yield from _lines(value.entries, pad)


def _entry(name: str, item: Any, pad: str) -> Iterator[str]:
    label = f"{pad}{name if _is_plain(name) else _quoted(name)}:"
    if isinstance(item, When):
        yield f"{pad}{{{{- if {item.condition} }}}}"
        yield from _entry(name, item.value, pad)
        yield f"{pad}{{{{- end }}}}"
    elif isinstance(item, Block):
        yield f"{pad}{{{{- with {item.expression} }}}}"
        yield label
        yield f"{pad}  {{{{- toYaml . | nindent {len(pad) + 2} }}}}"
        yield f"{pad}{{{{- end }}}}"
    elif _nested(item):
        yield label
        yield from _lines(item, f"{pad}  ")
    else:
        yield f"{label} {_scalar(item, pad)}"


def _element(item: Any, pad: str) -> Iterator[str]:
    if isinstance(item, Either):
        yield f"{pad}{{{{- range {item.over} }}}}"
        for each in item.each:
            yield from _element(each, pad)
        if item.otherwise:
            yield f"{pad}{{{{- else }}}}"
        for each in item.otherwise:
            yield from _element(each, pad)
        yield f"{pad}{{{{- end }}}}"
    elif isinstance(item, Block):
        yield f"{pad}{{{{- with {item.expression} }}}}"
        yield f"{pad}{{{{- toYaml . | nindent {len(pad)} }}}}"
        yield f"{pad}{{{{- end }}}}"
    elif _nested(item):
        first, *rest = _lines(item, f"{pad}  ")
        if first.lstrip().startswith("{{-"):
            raise ValueError(f"an element of a list cannot begin with a condition: {first.strip()}")
        yield f"{pad}- {first[len(pad) + 2 :]}"
        yield from rest
    else:
        yield f"{pad}- {_scalar(item, pad)}"


def _nested(value: Any) -> bool:
    return isinstance(value, With) or (isinstance(value, (Mapping, list, tuple)) and bool(value))


def _scalar(value: Any, pad: str) -> str:
    if isinstance(value, Value):
        return f"{{{{ {value.expression} | toJson }}}}"
    if isinstance(value, Text):
        return _marked(value)
    if not isinstance(value, str):
        # For YAML of old, a number with an exponent has a point, too.
        return re.sub(r"^(-?[0-9]+)e", r"\1.0e", json.dumps(value))
    if _is_plain(value):
        return value
    lines = value.removesuffix("\n").split("\n")
    if "\n" in value and _LITERAL.fullmatch(value) and all(map(str.isprintable, lines)):
        sign = "|" if value.endswith("\n") else "|-"
        return "\n".join([sign, *(f"{pad}  {line}" if line else "" for line in lines)])
    return _quoted(value)


def _is_plain(value: str) -> bool:
    return bool(_PLAIN.fullmatch(value)) and value.lower() not in _NOT_TEXT


def _quoted(value: str) -> str:
    """As JSON has it, which is YAML too, but for characters that it does not take as they are."""
    found = json.dumps(value, ensure_ascii=False)
    return "".join(each if each.isprintable() else f"\\U{ord(each):08x}" for each in found)


def _marked(value: Text) -> str:
    if value.text in value.expressions:
        return f"{{{{ {value.expressions[value.text]} | quote }}}}"
    found = _quoted(value.text)
    for mark, expression in value.expressions.items():
        found = found.replace(mark, f"{{{{ {expression} }}}}")
    return found
