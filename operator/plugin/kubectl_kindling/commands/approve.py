"""`approve`: what a Postgresql keeps waiting, as `spec.approval` has it, is done."""

from __future__ import annotations

from kubectl_kindling import facts, kinds, resources
from kubectl_kindling.arguments import Command
from kubectl_kindling.commands.server import KIND, merge, say
from kubectl_kindling.confirmation import confirm
from kubectl_kindling.errors import FINE
from kubectl_kindling.kubectl import Kubectl

APPROVED = "kindling.dev/approved"


def run(command: Command, kubectl: Kubectl) -> int:
    """Approves by name what was shown, so nothing that came to wait since then."""
    type, resource = resources.find_of_kind(kubectl, kinds.served(kubectl), KIND, command.target)
    name, namespace = facts.name_of(resource), facts.namespace_of(resource)
    waiting = facts.status_of(resource).get("approvals") or []
    if not waiting:
        say(f"Nothing of {KIND} {name} waits for an approval.")
        return FINE
    for act in waiting:
        say(f"{act.get('name')} ({act.get('disruption')}): {act.get('message')}")
    confirm(f"Approve it for {KIND} {name} in namespace {namespace}?", yes=command.yes)
    names = ",".join(str(act.get("name")) for act in waiting)
    merge(kubectl, type, resource, {"metadata": {"annotations": {APPROVED: names}}})
    say(
        f"Approved. `kubectl kindling status {type.full}/{name} --namespace={namespace}` shows how far it is."
    )
    return FINE
