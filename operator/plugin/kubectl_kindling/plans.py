"""What a plan says, for a screen and for programs; and the resource that asks the operator for one. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kubectl_kindling import facts, table
from kubectl_kindling.kinds import Type
from kubectl_kindling.kubectl import Object

ORDER = ("None", "Reload", "Unknown", "Restart", "Stop", "DataLost")
"""The disruptions, the least first."""
GENTLE = frozenset({"None", "Reload"})
WORDS = {
    "None": "the server runs on",
    "Reload": "a reload, sessions stay",
    "Unknown": "not known yet",
    "Restart": "the server restarts",
    "Stop": "the server stops",
    "DataLost": "DATA IS LOST",
}
REFUSE, COMPARE = "Refuse", "Compare"
SECRET = "password"


@dataclass(frozen=True)
class Planned:
    """The plan for one resource, which is not there yet if it is `new`; `notes` say what is not in it."""

    type: Type
    namespace: str
    name: str
    plan: Mapping[str, Any]
    notes: Sequence[str] = field(default_factory=tuple)
    new: bool = False

    @property
    def items(self) -> list[Mapping[str, Any]]:
        return list(self.plan.get("items") or ())

    @property
    def disruption(self) -> str:
        return str(self.plan.get("disruption") or "Unknown")

    @property
    def gentle(self) -> bool:
        """Whether nobody notices it: nothing is refused, and no session ends."""
        refused = any(item.get("action") == REFUSE for item in self.items)
        return self.disruption in GENTLE and not refused


def asker(type: Type, wanted: Object) -> Object:
    """The resource that is only a plan for this one. A password in its spec is left out.

    `paused` is for an operator of before there were plans, which would take it for a database to be made.
    """
    spec = {name: value for name, value in (wanted.get("spec") or {}).items() if name != SECRET}
    return {
        "apiVersion": f"{type.group}/{type.version}",
        "kind": type.kind,
        "metadata": {"generateName": "plan-", "namespace": facts.namespace_of(wanted)},
        "spec": {**spec, "paused": True, "mode": "Plan", "planFor": facts.name_of(wanted)},
    }


def notes(wanted: Object, live: Object | None) -> list[str]:
    """What a plan cannot say of this change."""
    spec, before = wanted.get("spec") or {}, (live or {}).get("spec") or {}
    found = []
    if live is not None and spec.get(SECRET) != before.get(SECRET):
        found.append("spec.password changes, which is in no plan: the server gets it, and sessions stay.")
    if spec.get("paused"):
        found.append("spec.paused is true: nothing of this is done until it is false.")
    if spec.get("mode") == "Plan":
        found.append("spec.mode is Plan: nothing of this is done until it is Apply.")
    return found


def answer(asked: Object) -> Mapping[str, Any] | None:
    """The plan, once the operator has written it for this very spec."""
    observed, generation = facts.generations(asked)
    plan = facts.status_of(asked).get("plan")
    return plan if observed == generation and isinstance(plan, dict) else None


def is_open(plan: Mapping[str, Any]) -> bool:
    """Whether the server has still to be compared."""
    return any(item.get("action") == COMPARE for item in plan.get("items") or ())


def document(plans: Sequence[Planned], refused: Sequence[str]) -> dict[str, Any]:
    """The JSON of `plan`."""
    return {
        "items": [
            {
                "apiVersion": f"{each.type.group}/{each.type.version}",
                "kind": each.type.kind,
                "namespace": each.namespace,
                "name": each.name,
                "disruption": each.disruption,
                "items": each.items,
                "notes": list(each.notes),
            }
            for each in plans
        ],
        "refused": list(refused),
    }


def lines(planned: Planned) -> list[str]:
    """A title, the items, and what is not in them."""
    what = WORDS.get(planned.disruption, planned.disruption) if planned.items else "nothing to do"
    if planned.new and planned.gentle:
        what = "is created"
    found = [table.plain(f"{planned.type.kind.lower()}/{planned.name} ({planned.namespace}): {what}")]
    found += item_lines(planned.items)
    for note in planned.notes:
        found += table.wrapped(note, indent="  ")
    return found


def item_lines(items: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each group of fields, with the worst that they cause."""
    found: list[str] = []
    groups: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for item in items:
        fields = tuple(map(str, item.get("fields") or ()))
        groups.setdefault(fields or (str(item.get("object", "")),), []).append(item)
    for names, group in groups.items():
        found += table.wrapped(f"{', '.join(names)}: {_text(names, group)}", indent="      ", first="  ")
    return found


def _text(names: Sequence[str], items: Sequence[Mapping[str, Any]]) -> str:
    """What the worst of them does, and which objects it takes."""
    worst = max(items, key=lambda item: (item.get("action") == REFUSE, _rank(item)))
    message = str(worst.get("message", ""))
    if worst.get("action") == REFUSE:
        return f"refused. {message}"
    ordered = [worst, *(item for item in items if item is not worst)]
    objects = dict.fromkeys(str(item["object"]) for item in ordered if item.get("object"))
    where = ", ".join(name for name in objects if name not in names)
    return f"{message} ({where})" if where else message


def _rank(item: Mapping[str, Any]) -> int:
    disruption = str(item.get("disruption"))
    return ORDER.index(disruption) if disruption in ORDER else len(ORDER)
