"""One resource on one screen, and all of a namespace in one table: from objects to text. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from kubectl_kindling import facts, plans, table
from kubectl_kindling.failures import Right, described
from kubectl_kindling.kinds import Type, shortest
from kubectl_kindling.kubectl import Object

MOST_CHILDREN = 20
MOST_RUNS = 3
PAD = "  "
_FLAGS = ("paused", "hibernate", "hibernateWindow", "hibernateAfter", "suspend", "deletionProtection")
"""Fields of a spec that stop something, or keep it from being stopped."""


@dataclass(frozen=True)
class View:
    """What was read for one resource; `missing` are the rights without which some of it was not."""

    type: Type
    resource: Object
    children: Sequence[Object] = ()
    events: Sequence[Object] = ()
    backups: Sequence[Object] = ()
    missing: Sequence[Right] = field(default=())
    others: Sequence[str] = field(default=())
    """What else went wrong, in kubectl's words."""


def one(view: View, now: datetime) -> list[str]:
    """The screen of a resource, in lines."""
    lines = [
        *_head(view, now),
        *_conditions(view.resource, now),
        *_approvals(view),
        *_plan(view.resource),
        *_objects_of_a_server(view.resource),
        *_runs(view.resource, now),
        *_backups(view.backups, now),
        *_children(view.children, now),
        *_events(view.events, now),
        *notes(view.missing, view.others),
    ]
    return [table.printable(line) for line in lines]


def _head(view: View, now: datetime) -> list[str]:
    resource, ready = view.resource, facts.ready(view.resource)
    observed, generation = facts.generations(resource)
    meta = facts.meta(resource)
    spec = resource.get("spec") or {}
    lines = [
        f"{view.type.kind} {facts.name_of(resource)}",
        f"{PAD}type        {view.type.full}/{view.type.version}",
        f"{PAD}namespace   {facts.namespace_of(resource)}",
        f"{PAD}generation  {generation}, observed {observed if observed >= 0 else 'none'}",
    ]
    if phase := facts.phase(resource):
        lines.append(f"{PAD}phase       {phase}")
    lines.append(f"{PAD}ready       {ready.status}" + (f" ({ready.reason})" if ready.reason else ""))
    lines.append(f"{PAD}age         {facts.age(str(meta.get('creationTimestamp', '')), now)}")
    if meta.get("deletionTimestamp"):
        lines.append(
            f"{PAD}deleted     {facts.age(str(meta['deletionTimestamp']), now)} ago, and not gone yet"
        )
    flags = [name for name in _FLAGS if spec.get(name)]
    if spec.get("mode") == "Plan":
        flags.append("mode")
    if flags:
        lines.append(f"{PAD}spec sets   {', '.join(flags)}")
    if ready.reason == "NotObserved":
        lines += table.wrapped(ready.message, indent=PAD)
    found = facts.details(resource)
    if found:
        width = max(len(name) for name, _ in found)
        lines.append("")
        for name, text in found:
            first = f"{PAD}{name.ljust(width)}  "
            lines += table.wrapped(text, indent=" " * len(first), first=first)
    return lines


def _conditions(resource: Object, now: datetime) -> list[str]:
    found = facts.conditions(resource)
    if not found:
        return ["", "Conditions: none; the operator has not reported on it yet"]
    rows = [
        (item.get("type"), item.get("status"), item.get("reason"), facts.age(_since(item), now))
        for item in found
    ]
    aligned = table.columns(("CONDITION", "STATUS", "REASON", "AGE"), rows, indent=PAD)
    lines = ["", aligned[0]]
    printed: dict[str, str] = {}
    for item, line in zip(found, aligned[1:], strict=True):
        lines.append(line)
        message = table.plain(item.get("message") or "")
        if message in printed:
            lines.append(f"{PAD}{PAD}as {printed[message]}")
        elif message:
            printed[message] = str(item.get("type"))
            lines += table.wrapped(message, indent=PAD * 2)
    return lines


def _approvals(view: View) -> list[str]:
    """What waits for an approval, and the command that gives it."""
    found = facts.status_of(view.resource).get("approvals") or []
    if not found:
        return []
    rows = [(act.get("name"), act.get("disruption")) for act in found]
    aligned = table.columns(("APPROVAL", "DISRUPTION"), rows, indent=PAD)
    lines = ["", aligned[0]]
    for act, line in zip(found, aligned[1:], strict=True):
        lines.append(line)
        lines += table.wrapped(str(act.get("message") or ""), indent=PAD * 2)
    name, namespace = facts.name_of(view.resource), facts.namespace_of(view.resource)
    return [*lines, f"{PAD}`kubectl kindling approve {name} --namespace={namespace}` approves what is shown."]


def _plan(resource: Object) -> list[str]:
    """What would be done, of a resource in the mode Plan."""
    plan = facts.status_of(resource).get("plan")
    if not isinstance(plan, dict):
        return []
    lines = plans.item_lines(plan.get("items") or ())
    return ["", f"Plan: {plan.get('disruption')}" if lines else "Plan: nothing to do", *lines]


def _since(item: Any) -> str:
    return str(item.get("lastTransitionTime") or "")


def _objects_of_a_server(resource: Object) -> list[str]:
    """The roles and databases of a Postgresql, each with its result."""
    lines: list[str] = []
    status = facts.status_of(resource)
    for name, title in (("roles", "ROLE"), ("databases", "DATABASE")):
        items = status.get(name) or []
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items) or not items:
            continue
        header = (title, "STATE", "REASON", "BINDING") if name == "roles" else (title, "STATE", "REASON")
        rows = [
            (
                item.get("name"),
                "ready" if item.get("ready") else "not ready",
                item.get("reason"),
                (item.get("binding") or {}).get("name") or "-",
            )[: len(header)]
            for item in items
        ]
        aligned = table.columns(header, rows, indent=PAD)
        lines += ["", aligned[0]]
        for item, line in zip(items, aligned[1:], strict=True):
            lines.append(line)
            lines += table.wrapped(str(item.get("message") or ""), indent=PAD * 2)
    return lines


def _runs(resource: Object, now: datetime) -> list[str]:
    """The last runs of a Backup."""
    found = facts.status_of(resource).get("runs") or []
    if not found:
        return []
    rows = [
        (
            run.get("name"),
            run.get("action"),
            run.get("phase"),
            facts.age(str(run.get("stoppedAt") or run.get("startedAt") or ""), now),
            run.get("reason") or "",
        )
        for run in found[:MOST_RUNS]
    ]
    lines = ["", *table.columns(("RUN", "ACTION", "PHASE", "AGE", "REASON"), rows, indent=PAD)]
    for run in found[:1]:
        lines += table.wrapped(str(run.get("message") or ""), indent=PAD * 2)
    return lines


def _backups(backups: Sequence[Object], now: datetime) -> list[str]:
    if not backups:
        return []
    rows = []
    for each in backups:
        status, ready = facts.status_of(each), facts.ready(each)
        last = (facts.runs(each, "backup") or [{}])[0]
        ended = str(last.get("stoppedAt") or last.get("startedAt") or "")
        rows.append(
            (
                facts.name_of(each),
                f"{last.get('phase', 'none')} {facts.age(ended, now)}".strip(),
                facts.age(str(status.get("lastVerifiedTime") or ""), now) or "never",
                facts.age(str(status.get("nextScheduledTime") or ""), now) or "none",
                status.get("dataLossWindow") or "unknown",
                f"{ready.status} {ready.reason}".strip(),
            )
        )
    header = ("BACKUP", "LAST-RUN", "VERIFIED", "NEXT-RUN", "DATA-LOSS", "READY")
    return ["", *table.columns(header, rows, indent=PAD)]


def _children(found: Sequence[Object], now: datetime) -> list[str]:
    rows = facts.children(found)
    if not rows:
        return []
    shown = [
        (f"{row.kind}/{row.name}", facts.age(row.created, now), ("! " if row.fault else "") + row.state)
        for row in rows[:MOST_CHILDREN]
    ]
    lines = ["", *table.columns(("CHILD", "AGE", "STATE"), shown, indent=PAD)]
    if len(rows) > MOST_CHILDREN:
        lines.append(f"{PAD}and {len(rows) - MOST_CHILDREN} more")
    return lines


def _events(found: Sequence[Object], now: datetime) -> list[str]:
    newest = facts.events(found)
    if not newest:
        return []
    rows = []
    for event in newest:
        about = event.get("involvedObject") or {}
        rows.append(
            (
                facts.age(facts.event_time(event), now),
                event.get("type"),
                event.get("reason"),
                f"{about.get('kind')}: {event.get('message') or ''}",
            )
        )
    return ["", *table.columns(("EVENT", "TYPE", "REASON", "MESSAGE"), rows, indent=PAD)]


def notes(missing: Sequence[Right], others: Sequence[str]) -> list[str]:
    """What is not on the screen, and what it would take."""
    if not missing and not others:
        return []
    lines = ["", "Not all could be read:"]
    for text in (*described(missing), *others):
        lines += table.wrapped(text, indent=PAD * 2, first=f"{PAD}- ")
    return lines


def all_of(
    found: Sequence[tuple[Type, Object]], types: Sequence[Type], now: datetime, *, namespaces: bool
) -> list[str]:
    """A table of these resources, those that are not Ready first, each with its message."""
    rows: list[tuple[object, ...]] = []
    messages = []
    for type, resource in in_order(found):
        ready = facts.ready(resource)
        observed, generation = facts.generations(resource)
        rows.append(
            (
                *((facts.namespace_of(resource),) if namespaces else ()),
                f"{shortest(type, types)}/{facts.name_of(resource)}",
                ready.status,
                ready.reason or "-",
                f"{max(observed, 0)}/{generation}",
                facts.age(str(facts.meta(resource).get("creationTimestamp", "")), now),
            )
        )
        messages.append("" if ready.yes else ready.message)
    header = ("RESOURCE", "READY", "REASON", "OBSERVED", "AGE")
    aligned = table.columns(("NAMESPACE", *header) if namespaces else header, rows)
    lines = [aligned[0]]
    for line, message in zip(aligned[1:], messages, strict=True):
        lines.append(line)
        if message:
            lines += table.wrapped(message, indent=PAD * 2)
    return lines


def in_order(found: Sequence[tuple[Type, Object]]) -> list[tuple[Type, Object]]:
    return sorted(
        found,
        key=lambda each: (
            facts.ready(each[1]).yes,
            facts.namespace_of(each[1]),
            each[0].kind,
            each[0].group,
            facts.name_of(each[1]),
        ),
    )
