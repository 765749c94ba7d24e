"""`restart`, `hibernate`, `wake`: what a person does by hand with the server of a Postgresql."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from kubectl_kindling import facts, gitops, kinds, resources, table
from kubectl_kindling.arguments import Command
from kubectl_kindling.confirmation import confirm
from kubectl_kindling.errors import FAILED, FINE, PluginError
from kubectl_kindling.kinds import Type
from kubectl_kindling.kubectl import REQUEST_SECONDS, Kubectl, Object

KIND = "Postgresql"
WAKE = "kindling.dev/wake"
LIMIT = f"--request-timeout={REQUEST_SECONDS}s"


def restart(command: Command, kubectl: Kubectl) -> int:
    """As `kubectl rollout restart` of its StatefulSet."""
    type, resource = _find(command, kubectl)
    name, namespace = facts.name_of(resource), facts.namespace_of(resource)
    if _spec(resource).get("hibernate") or facts.phase(resource) == "hibernated":
        raise PluginError(
            f"{KIND} {name} is hibernated",
            why="it has no server that could be restarted",
            remedy=f"`kubectl kindling wake {type.full}/{name}` starts it.",
            status=FAILED,
        )
    say(*disruption(resource, "restarted"))
    if waits := pending(resource):
        say(f"Applied with it: {waits}")
    say(gitops.note_of_restart())
    confirm(f"Restart {KIND} {name} in namespace {namespace}?", yes=command.yes)
    kubectl.text("rollout", "restart", f"statefulset/{name}", f"--namespace={namespace}", LIMIT)
    say(f"Restarted. `kubectl rollout status statefulset/{name} --namespace {namespace}` waits for it.")
    return FINE


def hibernate(command: Command, kubectl: Kubectl) -> int:
    """Sets spec.hibernate; nothing is written where it is set."""
    type, resource = _find(command, kubectl)
    if _spec(resource).get("hibernate"):
        say(f"{KIND} {facts.name_of(resource)} is hibernated already; nothing was changed.")
        return FINE
    say(*disruption(resource, "stopped"), gitops.note(resource))
    where = f"namespace {facts.namespace_of(resource)}"
    confirm(f"Hibernate {KIND} {facts.name_of(resource)} in {where}?", yes=command.yes)
    merge(kubectl, type, resource, {"spec": {"hibernate": True}})
    say(f"spec.hibernate is true. `kubectl kindling wake {type.full}/{facts.name_of(resource)}` undoes it.")
    return FINE


def wake(command: Command, kubectl: Kubectl) -> int:
    """Takes spec.hibernate back, or starts what nobody used; nothing is written where neither is so."""
    type, resource = _find(command, kubectl)
    stopped = bool(_spec(resource).get("hibernate"))
    unused = bool((facts.status_of(resource).get("idle") or {}).get("stoppedAt"))
    if not (stopped or unused):
        if facts.phase(resource) == "hibernated" and _spec(resource).get("hibernateWindow"):
            raise PluginError(
                f"{KIND} {facts.name_of(resource)} is hibernated by the clock; nothing was changed",
                why=facts.ready(resource).message,
                remedy="remove spec.hibernateWindow to start it now.",
                status=FAILED,
            )
        say(f"{KIND} {facts.name_of(resource)} is not hibernated; nothing was changed.")
        return FINE
    if stopped:
        say(gitops.note(resource))
    merge(
        kubectl,
        type,
        resource,
        {
            **({"spec": {"hibernate": False}} if stopped else {}),
            **({"metadata": {"annotations": {WAKE: another_value()}}} if unused else {}),
        },
    )
    name, namespace = facts.name_of(resource), facts.namespace_of(resource)
    say(
        f"{'spec.hibernate is false' if stopped else 'The server starts'}. "
        f"`kubectl kindling status {type.full}/{name} --namespace={namespace}` shows when it is Ready."
    )
    return FINE


def say(*sentences: str) -> None:
    for sentence in sentences:
        print("\n".join(table.wrapped(sentence, indent="  ", first="")))


def _find(command: Command, kubectl: Kubectl) -> tuple[Type, Object]:
    return resources.find_of_kind(kubectl, kinds.served(kubectl), KIND, command.target)


def another_value() -> str:
    """For an annotation each new value of which asks for something: no two are the same."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def merge(kubectl: Kubectl, type: Type, resource: Object, patch: Object) -> None:
    """Write these fields of the resource."""
    kubectl.text(
        "patch",
        type.full,
        facts.name_of(resource),
        f"--namespace={facts.namespace_of(resource)}",
        "--type=merge",
        f"--patch={json.dumps(patch)}",
        LIMIT,
    )


def disruption(resource: Object, done: str) -> list[str]:
    """What it means for users of the database that its server is `done`."""
    name = facts.name_of(resource)
    again = "until it is woken" if done == "stopped" else "until the new server has started"
    lines = [f"The server of {KIND} {name} is {done}: all its connections end, and none is possible {again}."]
    if (_spec(resource).get("storage") or {}).get("ephemeral"):
        lines.append("ITS DATA IS LOST: spec.storage.ephemeral is true, and such data goes with the Pod.")
    return lines


def pending(resource: Object) -> str:
    """What waits for a restart, in the operator's words; empty where nothing does."""
    for item in facts.conditions(resource):
        if item.get("type") == "RestartPending" and item.get("status") == "True":
            return str(item.get("message") or item.get("reason"))
    parameters = facts.status_of(resource).get("pendingRestart") or []
    return f"the parameters {', '.join(map(str, parameters))}" if parameters else ""


def _spec(resource: Object) -> dict[str, Any]:
    return resource.get("spec") or {}
