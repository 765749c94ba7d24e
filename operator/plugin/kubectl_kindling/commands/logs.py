"""`logs`: what all containers of a resource's Pods wrote, each line with its Pod, JSON as text."""

from __future__ import annotations

from kubectl_kindling import facts, kinds, resources
from kubectl_kindling.arguments import TAIL, Command
from kubectl_kindling.errors import FAILED, FINE, INTERRUPTED, NOT_READY, PluginError
from kubectl_kindling.failures import error_of
from kubectl_kindling.kubectl import Kubectl, items_of
from kubectl_kindling.log_lines import readable


def run(command: Command, kubectl: Kubectl) -> int:
    """It goes on until Ctrl-C with --follow. Where kubectl fails, it has said why."""
    types = kinds.served(kubectl)
    type, resource = resources.find(kubectl, types, kinds.reference(command.target))
    namespace = f"--namespace={facts.namespace_of(resource)}"
    selector = f"--selector={resources.selectors(type, resource)[0]}"
    listed = kubectl.get("pods", namespace, selector)
    if listed.status != 0:
        raise error_of(("get", "pods"), listed.status, listed.stderr)
    pods = items_of(listed)
    if not pods:
        ready = facts.ready(resource)
        raise PluginError(
            f"{type.kind} {facts.name_of(resource)} has no Pods",
            why=ready.message or ready.reason or "none was made for it",
            remedy="`kubectl kindling status "
            f"{kinds.shortest(type, types)}/{facts.name_of(resource)}` says more.",
            status=NOT_READY,
        )
    tail = command.tail if command.tail is not None else (-1 if command.since else TAIL)
    ended = kubectl.foreground(
        "logs",
        namespace,
        selector,
        "--all-containers",
        "--prefix",
        # A container that has not started has no log; those of the others are printed all the same.
        "--ignore-errors",
        f"--tail={tail}",
        f"--max-log-requests={max(5, containers(pods))}",
        *((f"--since={command.since}",) if command.since else ()),
        *(("--follow",) if command.follow else ()),
        line=None if command.raw else readable,
    )
    return ended if ended in (FINE, INTERRUPTED) else FAILED


def containers(pods: list[dict[str, object]]) -> int:
    """How many there are in these Pods: kubectl follows five, unless it is allowed more."""
    total = 0
    for pod in pods:
        spec = pod.get("spec")
        for name in ("initContainers", "containers", "ephemeralContainers"):
            listed = spec.get(name) if isinstance(spec, dict) else None
            total += len(listed) if isinstance(listed, list) else 0
    return total
