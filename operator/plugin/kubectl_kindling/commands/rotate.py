"""`rotate`: applications of a Postgresql go on to another login, as `spec.credentials.rotation` has it."""

from __future__ import annotations

from kubectl_kindling import facts, kinds, resources
from kubectl_kindling.arguments import Command
from kubectl_kindling.commands.server import KIND, another_value, merge, say
from kubectl_kindling.errors import FAILED, FINE, PluginError
from kubectl_kindling.kubectl import Kubectl

REQUEST = "kindling.dev/rotate"


def run(command: Command, kubectl: Kubectl) -> int:
    """Sets the annotation to the time of day: another value than before, whatever that was."""
    type, resource = resources.find_of_kind(kubectl, kinds.served(kubectl), KIND, command.target)
    name, namespace = facts.name_of(resource), facts.namespace_of(resource)
    if ((resource.get("spec") or {}).get("credentials") or {}).get("rotation") is None:
        raise PluginError(
            f"{KIND} {name} has no rotation of its login; nothing was changed",
            why="spec.credentials.rotation is not set",
            remedy="set it, to {} for rotations by this command alone, and leave out spec.password and "
            "spec.passwordSecretRef.",
            status=FAILED,
        )
    where = f"--namespace={namespace}"
    merge(kubectl, type, resource, {"metadata": {"annotations": {REQUEST: another_value()}}})
    previous = (facts.status_of(resource).get("credentials") or {}).get("previous")
    if previous:
        say(
            f"A rotation is requested. It begins once {previous.get('login')}, the login before the present "
            f"one, is disabled: `kubectl kindling status {type.full}/{name} {where}` names who uses it."
        )
        return FINE
    say(
        f"A rotation is requested. Secret {name}-binding has another login in a moment, and the present one "
        "stays valid for the time of spec.credentials.rotation.overlap: "
        f"`kubectl kindling status {type.full}/{name} {where}` shows how far it is."
    )
    return FINE
