"""What others do to a child: take a field away that is ours, or give it another value."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from kindling.kube.errors import Rejected
from kindling.kube.resources import POD, VOLUME_CLAIM, Object, Ref

from tests.model.memory import ATOMIC, MemoryApi

Path = tuple[Any, ...]
# An element of another key is another element: somebody's own.
KEYS = ("name", "mountPath", "topologyKey", "whenUnsatisfiable")


def fields(api: MemoryApi, ref: Ref) -> list[Path]:
    """The fields that we wrote and that are set right again."""
    return sorted((path for path in _walk(api.ours(ref), ()) if _ours(ref, path)), key=str)


def _walk(value: Any, path: Path) -> Iterator[Path]:
    for step, below in value.items() if isinstance(value, dict) else enumerate(value):
        here = (*path, step)
        if step not in KEYS or not path or not isinstance(path[-1], int):
            yield here
        if isinstance(below, (dict, list)):
            yield from _walk(below, here)


def _ours(ref: Ref, path: Path) -> bool:
    """Not who it is, nor whose; and a volume without owner and label is nobody's, by design."""
    if path[0] == "metadata":
        return path[1:2] == ("labels",) and len(path) > 2 and ref.type not in (VOLUME_CLAIM, POD)
    return True


def edit(api: MemoryApi, ref: Ref, path: Path, *, gone: bool) -> None:
    """As somebody would, if the field is there still and the API server lets them."""
    obj: Object = copy.deepcopy(api.objects[ref])
    inside: Any = obj
    try:
        for step in path[:-1]:
            inside = inside[step]
        if gone or isinstance(path[-1], int):
            del inside[path[-1]]
        else:
            inside[path[-1]] = _another(inside[path[-1]], field=path[-1])
        api.change(ref, obj)
    except (KeyError, IndexError, Rejected):
        return


def _another(value: Any, *, field: object) -> Any:
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case str():
            return f"1{value}" if value[:1].isdigit() else f"{value}x"
        case list():
            return value[:-1]
        case dict():  # a field more is others' own affair, but in what is taken as a whole
            return {**value, "more": "x"} if field in ATOMIC else {}
    return "x"
