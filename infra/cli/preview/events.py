"""What a preview means, read from the events that Pulumi's engine logs while it makes one.

Pure: lines of an event log (pkg/backend/display/events.go, the Automation API's own format) to `Change`s.
What they do to data and Pods is said in `impact`, how they look in `markdown`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from infra.property_paths import steps

# Of what Pulumi takes the place of: a secret's mark, and a value that is not known yet.
_SECRET_MARK = "4dabf18193072939515e22adb298388d"
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
# What Pulumi writes in place of a secret in its events.
SECRET = "[secret]"
LATER = "(known later)"
ABSENT = "(none)"
# A value of such a name is never shown, whether Pulumi knows it as a secret or not.
_SECRET_NAME = re.compile(r"passw|token|secret|credential|kubeconfig|privatekey", re.IGNORECASE)
_COLOR = re.compile(r"<\{%[^%]*%\}>|\x1b\[[0-9;]*m")


class Verb(Enum):
    """What happens to a resource, the gravest first."""

    DELETED = "deleted"
    REPLACED = "replaced"
    ROLLED = "rolled"
    UPDATED = "updated in place"
    CREATED = "created"


_VERBS = {
    "create": Verb.CREATED,
    "import": Verb.CREATED,
    "update": Verb.UPDATED,
    "delete": Verb.DELETED,
    "replace": Verb.REPLACED,
    "create-replacement": Verb.REPLACED,
    "delete-replaced": Verb.REPLACED,
    "import-replacement": Verb.REPLACED,
}
_POD_MAKERS = ("Deployment", "StatefulSet", "DaemonSet")


@dataclass(frozen=True)
class Difference:
    """One value before and after, as it may be shown; `forces` where it is why a resource is replaced."""

    path: str
    before: str
    after: str
    forces: bool = False


@dataclass(frozen=True)
class Change:
    """One resource of the stack that does not stay as it is; `old` is empty where there is none yet."""

    verb: Verb
    type: str
    name: str
    differences: tuple[Difference, ...] = ()
    old: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @property
    def kind(self) -> str:
        """The last part of the type: `Deployment`."""
        if self.type.startswith("pulumi:providers:"):
            return "Provider"
        return self.type.rpartition(":")[2]


@dataclass(frozen=True)
class Preview:
    """A whole run; `errors` are those that Pulumi reported. Whether it failed, its exit status says: it
    also reports a program of its own that was slow to end, and that stops nothing.
    """

    changes: tuple[Change, ...] = ()
    unchanged: int = 0
    errors: tuple[str, ...] = ()


def read(lines: Iterable[str]) -> Preview:
    """Changes with the gravest first, then by type and name."""
    by_urn: dict[str, dict[str, Any]] = {}
    same: set[str] = set()
    errors: list[str] = []
    for event in parse(lines):
        diagnostic = event.get("diagnosticEvent") or {}
        if diagnostic.get("severity") == "error" and (text := _text(diagnostic.get("message"))):
            errors.append(text)
        step = (event.get("resourcePreEvent") or {}).get("metadata") or {}
        if not _is_resource(step):
            continue
        if step["op"] == "same":
            same.add(step["urn"])
        elif step["op"] in _VERBS:
            # A replacement is logged as several steps; the one with both sides has the most.
            known = by_urn.get(step["urn"])
            if known is None or (step.get("old") and step.get("new")):
                by_urn[step["urn"]] = step
    changes = sorted(map(_change, by_urn.values()), key=_order)
    return Preview(tuple(changes), len(same), tuple(dict.fromkeys(errors)))


def lines_of(log: Path) -> list[str]:
    """The lines of an event log; none where Pulumi ended before it wrote any."""
    return log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []


def parse(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """The events of an event log. A line cut short is passed over."""
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            yield event


def _is_resource(step: Mapping[str, Any]) -> bool:
    """Not the stack and its components, which are names for groups, nor Pulumi's own default providers."""
    state = step.get("new") or step.get("old") or {}
    urn = str(step.get("urn", ""))
    return bool(state.get("custom")) and not (
        str(step.get("type")).startswith("pulumi:providers:") and _name(urn).startswith("default")
    )


def _change(step: Mapping[str, Any]) -> Change:
    old, new = step.get("old") or {}, step.get("new") or {}
    verb, type = _VERBS[step["op"]], str(step["type"])
    differences = _differences(step, old, new) if old and new else ()
    maker = type.startswith("kubernetes:") and type.rpartition(":")[2] in _POD_MAKERS
    if verb is Verb.UPDATED and maker and any(d.path.startswith("spec.template") for d in differences):
        verb = Verb.ROLLED
    return Change(verb, type, _name(step["urn"]), differences, old.get("inputs") or {})


def _order(change: Change) -> tuple[int, str, str]:
    return list(Verb).index(change.verb), change.type, change.name


def _name(urn: str) -> str:
    return urn.split("::", 3)[-1]


def _differences(
    step: Mapping[str, Any], old: Mapping[str, Any], new: Mapping[str, Any]
) -> tuple[Difference, ...]:
    detailed: Mapping[str, Any] = step.get("detailedDiff") or {}
    forcing = {path for path in step.get("keys") or () if path not in detailed}
    paths = {path: "replace" in str(how.get("diffKind")) for path, how in detailed.items()}
    paths |= dict.fromkeys(() if detailed else step.get("diffs") or (), False) | dict.fromkeys(forcing, True)
    found = []
    for path, forces in sorted(paths.items()):
        way = steps(path)
        if any(str(key).startswith("__") for key in way):
            continue
        after, after_hidden = _at(new.get("inputs"), way)
        before, before_hidden = _at(old.get("inputs"), way)
        if before is None and not before_hidden:
            before, before_hidden = _at(old.get("outputs"), way)
        # What was once in plain text is a secret from now on, and the other way round.
        hidden = after_hidden or before_hidden
        sides = (SECRET, SECRET) if hidden else (_shown(before), _shown(after))
        found.append(Difference(path, *sides, forces))
    return tuple(found)


def _at(value: Any, way: Sequence[str | int]) -> tuple[Any, bool]:
    """The value at the path, and whether it is a secret or within one."""
    sensitive = any(isinstance(key, str) and _SECRET_NAME.search(key) for key in way)
    for key in way:
        if _is_secret(value):
            return None, True
        if isinstance(value, dict) and isinstance(key, str):
            value = value.get(key)
        elif isinstance(value, list) and isinstance(key, int) and key < len(value):
            value = value[key]
        else:
            return None, False
    return value, _is_secret(value) or (sensitive and isinstance(value, str))


def _is_secret(value: Any) -> bool:
    return value == SECRET or (isinstance(value, dict) and _SECRET_MARK in value)


def _shown(value: Any) -> str:
    if value is None:
        return ABSENT
    if isinstance(value, str):
        return LATER if value == UNKNOWN else value
    return json.dumps(_safe(value), ensure_ascii=False, sort_keys=True)


def _safe(value: Any) -> Any:
    if _is_secret(value):
        return SECRET
    if isinstance(value, dict):
        return {key: _safe_item(key, item) for key, item in value.items() if not key.startswith("__")}
    if isinstance(value, list):
        return [_safe(item) for item in value]
    return LATER if value == UNKNOWN else value


def _safe_item(key: str, item: Any) -> Any:
    return SECRET if isinstance(item, str) and _SECRET_NAME.search(key) else _safe(item)


def _text(message: Any) -> str:
    return _COLOR.sub("", str(message or "")).strip()
