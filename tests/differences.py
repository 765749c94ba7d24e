"""Where two states differ, path by path: what pytest says of two large objects leaves that out.

Beside the suites, since models and real clusters are compared alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def differences(left: Any, right: Any, path: str = "") -> Iterator[str]:
    """`PATH: LEFT != RIGHT` for each part that is not the same in both."""
    if isinstance(left, dict) and isinstance(right, dict):
        for name in sorted(left.keys() | right.keys(), key=str):
            yield from differences(left.get(name), right.get(name), f"{path}.{name}")
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for number, (one, other) in enumerate(zip(left, right, strict=True)):
            yield from differences(one, other, f"{path}[{number}]")
    elif left != right:
        yield f"{path}: {left!r} != {right!r}"
