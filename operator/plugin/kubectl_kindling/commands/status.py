"""`status`: one resource on a screen, or all of them in a table. Reads no Secret."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from kubectl_kindling import facts, kinds, redaction, resources, screen
from kubectl_kindling.arguments import Command
from kubectl_kindling.errors import FAILED, FINE, NOT_READY, USAGE, PluginError
from kubectl_kindling.failures import Right
from kubectl_kindling.kinds import Type
from kubectl_kindling.kubectl import Kubectl, Object
from kubectl_kindling.screen import View


def run(command: Command, kubectl: Kubectl) -> int:
    """NOT_READY where one of those shown is not Ready; FAILED where a kind of a table may not be read."""
    if command.target and command.everywhere:
        raise PluginError(
            "--all-namespaces and a name do not go together",
            why="a name is of one namespace",
            remedy="leave one of them out; --namespace says which namespace.",
            status=USAGE,
        )
    types = kinds.served(kubectl)
    if command.target:
        return _one(command, kubectl, types)
    return _all(command, kubectl, types)


def _one(command: Command, kubectl: Kubectl, types: Sequence[Type]) -> int:
    type, resource = resources.find(kubectl, types, kinds.reference(command.target))
    view = resources.view(kubectl, type, resource, types)
    if command.json:
        print(json.dumps(document(view), indent=2))
    else:
        print("\n".join(screen.one(view, datetime.now(UTC))))
    return FINE if facts.ready(resource).yes else NOT_READY


def _all(command: Command, kubectl: Kubectl, types: Sequence[Type]) -> int:
    found, output = resources.all_resources(kubectl, types, everywhere=command.everywhere)
    missing, others = resources.troubles([output])
    if command.json:
        items = [summary(type, resource) for type, resource in screen.in_order(found)]
        print(json.dumps({"items": items, "notRead": not_read(missing, others)}, indent=2))
    elif found:
        lines = screen.all_of(found, types, datetime.now(UTC), namespaces=command.everywhere)
        print("\n".join([*lines, *screen.notes(missing, others)]))
    else:
        print("There are no resources of Kindling's kinds here; --all-namespaces looks everywhere.")
    if any(not facts.ready(resource).yes for _, resource in found):
        return NOT_READY
    return FAILED if missing or others else FINE


def summary(type: Type, resource: Object) -> dict[str, Any]:
    """A resource in the JSON of `status`."""
    observed, generation = facts.generations(resource)
    ready = facts.ready(resource)
    return {
        "apiVersion": f"{type.group}/{type.version}",
        "kind": type.kind,
        "namespace": facts.namespace_of(resource),
        "name": facts.name_of(resource),
        "ready": ready.yes,
        "readyStatus": ready.status,
        "reason": ready.reason,
        "message": ready.message,
        "phase": facts.phase(resource) or None,
        "generation": generation,
        "observedGeneration": observed,
    }


def document(view: View) -> dict[str, Any]:
    """The JSON of `status KIND/NAME`."""
    return {
        **summary(view.type, view.resource),
        "status": redaction.redacted(facts.status_of(view.resource)),
        "children": [
            {"kind": row.kind, "name": row.name, "state": row.state, "fault": row.fault}
            for row in facts.children(view.children)
        ],
        "backups": [
            {"name": facts.name_of(each), "status": redaction.redacted(facts.status_of(each))}
            for each in view.backups
        ],
        "events": [
            {
                "time": facts.event_time(event),
                "type": event.get("type"),
                "reason": event.get("reason"),
                "kind": (event.get("involvedObject") or {}).get("kind"),
                "name": (event.get("involvedObject") or {}).get("name"),
                "message": event.get("message"),
            }
            for event in facts.events(view.events)
        ],
        "notRead": not_read(view.missing, view.others),
    }


def not_read(missing: Sequence[Right], others: Sequence[str]) -> list[dict[str, str]]:
    """What could not be read: the right that it takes, or kubectl's words."""
    return [asdict(right) for right in missing] + [{"error": text} for text in others]
