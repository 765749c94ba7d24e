"""Another writer's edit of a child: which fields, by whom and when, as far as the API server has it. Pure.

The server's own record is `metadata.managedFields`: whoever wrote a field last has it, by a name of the
writer's own choice, and `time` is when that writer last changed any of its fields. What was removed has no
owner, so nobody is named for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kindling.kinds.planned import Path
from kindling.kube.resources import FIELD_MANAGER, Object

MOST_FIELDS, MOST_EDITORS = 4, 3
"""What one sentence names; the rest is counted."""


class Editor(NamedTuple):
    """A field manager, and when it last changed a field of this object; empty if the server does not say."""

    manager: str
    at: str


class Edit(NamedTuple):
    """`editors` are those who own one of the `paths` by now, the latest first."""

    paths: Sequence[Path]
    editors: Sequence[Editor]

    def __str__(self) -> str:
        """`FIELDS by MANAGER at TIME`, for a sentence; without anybody known, `FIELDS by another writer`."""
        names = [f"{name} at {at}" if at else name for name, at in self.editors]
        return f"{listed_paths(self.paths)} by " + (
            _listed(names, MOST_EDITORS) if names else "another writer"
        )


def edit(live: Object, paths: Sequence[Path]) -> Edit:
    """Of an object as the server has it, before it is set back."""
    found: dict[str, str] = {}
    for entry in live["metadata"].get("managedFields") or ():
        if entry.get("manager") == FIELD_MANAGER or entry.get("subresource") == "status":
            continue
        if any(_owns(entry.get("fieldsV1") or {}, path) for path in paths):
            name, at = str(entry.get("manager") or ""), str(entry.get("time") or "")
            found[name] = max(at, found.get(name, ""))
    editors = [Editor(name, at) for name, at in found.items() if name]
    return Edit(paths, sorted(editors, key=lambda editor: editor.at, reverse=True))


def _owns(fields: Object, path: Path) -> bool:
    """Whether the field, all that is around it as one, or a part of it is among these."""
    if not path:
        return True
    inside = [inner for name, inner in _named(fields) if name == path[0]]
    return any(not (set(inner) - {"."}) or _owns(inner, path[1:]) for inner in inside)


def _named(fields: Object) -> Iterator[tuple[str, Object]]:
    """What is one level below, by the names that a `Path` has: of an element, any value of its key."""
    for mark, inner in fields.items():
        kind, _, text = mark.partition(":")
        if kind == "f":
            yield text, inner
        elif kind == "k":
            for value in json.loads(text).values():
                yield str(value), inner
        elif kind == "v":
            yield str(json.loads(text)), inner


def listed_paths(paths: Sequence[Path]) -> str:
    """The first of these fields, for a sentence, and how many more there are."""
    return _listed([".".join(path) for path in paths], MOST_FIELDS)


def _listed(names: Sequence[str], most: int) -> str:
    shown = list(names[:most])
    if more := len(names) - len(shown):
        shown.append(f"{more} more")
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
