"""Pulumi's property paths, such as `spec.list[0].env["a.b"]`: taken apart, compared, cut out of values.

Pure. The command line compares by them what Pulumi compares by `ignore_changes`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

ANY = "*"
_STEP = re.compile(r'\["((?:[^"\\]|\\.)*)"\]|\[([0-9]+)\]|\[(\*)\]|([^.\[\]"]+)')
# Steps with dots between names; the last is a field's name, for lists are compared as wholes.
_FIELD = r'(?:[A-Za-z_][A-Za-z0-9_-]*|\["(?:[^"\\]|\\.)+"\])'
_WELL_FORMED = re.compile(rf"[A-Za-z_][A-Za-z0-9_-]*(?:(?:\[[0-9]+\]|\[\*\])*(?:\.?{_FIELD}))*")

Way = Sequence[str | int]


def well_formed(path: str) -> bool:
    """Whether it leads to a field: `spec.replicas`, not `spec.containers[0]`."""
    return _WELL_FORMED.fullmatch(path) is not None


def steps(path: str) -> Way:
    """Names, numbers of elements, and `*` for all of them."""
    return [
        int(index) if index else re.sub(r"\\(.)", r"\1", quoted) if quoted else every or name
        for quoted, index, every, name in _STEP.findall(path)
    ]


def covers(pattern: Way, way: Way) -> bool:
    """Whether the way leads to what the pattern names, or into it."""
    return len(pattern) <= len(way) and all(
        wanted in (ANY, step) for wanted, step in zip(pattern, way, strict=False)
    )


def without(value: Any, pattern: Way) -> Any:
    """The value less the fields that the pattern leads to; the value given stays as it is."""
    if not pattern:
        return value
    step, rest = pattern[0], pattern[1:]
    if isinstance(value, dict):
        if not rest:
            return {key: item for key, item in value.items() if step not in (key, ANY)}
        return {key: without(item, rest) if step in (key, ANY) else item for key, item in value.items()}
    if isinstance(value, list) and rest:
        return [without(item, rest) if step in (number, ANY) else item for number, item in enumerate(value)]
    return value
