"""The fields of an object that the operator applied, and what one can do to each of them.

Read from the server's own book-keeping (managedFields). A field is a path of its steps there: `f:NAME`
into an object, `k:{...}` to the element of a list that has these keys.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from typing import Any

from tests.apiserver.support.apiclient import Json

Path = tuple[str, ...]

# Words that a field of this name admits beside its own; any other text just gets longer.
OTHER_WORDS: dict[str, tuple[str, ...]] = {
    "type": ("NodePort", "Unconfined", "Recreate", "OnDelete", "RollingUpdate"),
    "policyTypes": ("Egress",),
    "protocol": ("UDP",),
    "terminationMessagePolicy": ("File", "FallbackToLogsOnError"),
    "imagePullPolicy": ("Always",),
    "fsGroupChangePolicy": ("Always",),
    "medium": ("",),
    "whenUnsatisfiable": ("DoNotSchedule", "ScheduleAnyway"),
    "sessionAffinity": ("ClientIP",),
    "externalTrafficPolicy": ("Cluster",),
    "kind": ("Other",),
    "name": ("tmp", "data"),
}
QUANTITY = re.compile(r"\d+(m|Ki|Mi|Gi|%)?")


def ours(child: Json, *, once: bool) -> Iterator[Path]:
    """Every field that we applied, those with others below them too; of what is made once, its metadata."""
    applied: Json = {}
    for entry in child["metadata"]["managedFields"]:
        if entry["manager"] == "kindling" and "subresource" not in entry:
            fields = entry["fieldsV1"]
            applied = fields if entry["operation"] == "Apply" else applied or fields
    return _nodes({"f:metadata": applied["f:metadata"]} if once else applied, ())


def _nodes(fields: Json, above: Path) -> Iterator[Path]:
    for key, below in fields.items():
        if key != ".":
            yield (*above, key)
            yield from _nodes(below, (*above, key))


def _find(obj: Any, where: Path) -> tuple[Any, Any]:
    """The holder of a field and its key in there; KeyError where there is none."""
    for step, key in enumerate(where):
        at: Any = key[2:]
        if key.startswith("k:"):
            wanted = json.loads(at)
            found = [n for n, item in enumerate(obj) if wanted.items() <= item.items()]
            if not found:
                raise KeyError(key)
            at = found[0]
        if step == len(where) - 1:
            if isinstance(obj, dict) and at not in obj:
                raise KeyError(key)
            return obj, at
        obj = obj[at]
    raise KeyError(where)


def value_of(obj: Json | None, where: Path) -> Any:
    try:
        holder, at = _find(obj or {}, where)
    except (KeyError, TypeError):
        return None
    return holder[at]


def edits(value: Any, *, field: str, whole: bool) -> list[Any]:
    """What to put in a field's place, None to remove it; something, where we set nothing on purpose."""
    if value is None:
        return [[{}]]
    return [*(_others(value, field=field) if whole else ()), None]


def _others(value: Any, *, field: str) -> Iterator[Any]:
    """Values to try in the place of this one; of a list or a selector, each with one thing changed in it."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (value + 1, value - 1)
    elif isinstance(value, str):
        longer = (f"1{value}", value[1:] or "1") if QUANTITY.fullmatch(value) else (f"{value}x", "eA==")
        yield from (*OTHER_WORDS.get(field, ()), *longer)
    elif isinstance(value, list) and value:
        yield [*value, copy.deepcopy(value[-1])]
        yield from ([other, *value[1:]] for other in _others(value[0], field=field))
    elif isinstance(value, dict):
        if field.endswith("elector") or field == "matchLabels":
            yield {**value, "matchLabels": {**value.get("matchLabels", {}), "more": "x"}}
            yield {**value, "more": "x"}
        for name, item in list(value.items()):
            yield from ({**value, name: other} for other in _others(item, field=name))


def edited(obj: Json, where: Path, value: Any) -> Json:
    """The object with that field changed, or gone."""
    body = copy.deepcopy(obj)
    if value_of(body, where) is None:
        value_of(body, where[:-1])[where[-1][2:]] = value
        return body
    holder, at = _find(body, where)
    if value is None:
        del holder[at]
    else:
        holder[at] = value
    return body
