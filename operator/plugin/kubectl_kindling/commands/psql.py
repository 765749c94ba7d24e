"""`psql`: a login of the default user, through `kubectl exec` into the server's Pod.

A real login, and not a superuser who takes the role: a function that the role left behind could become the
superuser again. The password is in this process alone, and goes to psql where it asks for it.
"""

from __future__ import annotations

import base64
import binascii
import sys

from kubectl_kindling import facts, kinds, resources, terminal
from kubectl_kindling.arguments import Command
from kubectl_kindling.errors import FAILED, PluginError
from kubectl_kindling.failures import error_of
from kubectl_kindling.kubectl import Kubectl, Object, items_of

CONTAINER = "postgres"


def run(command: Command, kubectl: Kubectl) -> int:
    """psql's status."""
    types = kinds.served(kubectl)
    type, resource = resources.find_of_kind(kubectl, types, "Postgresql", command.target)
    pod, secret = _places(resource, f"{kinds.shortest(type, types)}/{facts.name_of(resource)}")
    login = _login(kubectl, facts.namespace_of(resource), secret)
    words = [
        "exec", "--stdin", f"--namespace={facts.namespace_of(resource)}", pod, f"--container={CONTAINER}",
    ]  # fmt: skip
    # By TCP to itself, as `up` prints it: the socket's folder is the image's affair.
    inside = [
        "psql", "--host=localhost", f"--username={login['username']}", f"--dbname={login['database']}",
        "--password", *command.rest,
    ]  # fmt: skip
    if sys.stdin.isatty() and sys.stdout.isatty():
        if not login["password"].isprintable():
            raise PluginError(
                "the password has characters that a terminal would obey",
                why="psql asks for it on its terminal",
                remedy="pipe the statements: `kubectl kindling psql NAME < FILE`.",
            )
        return terminal.run(kubectl.argv(*words, "--tty", "--", *inside), login["password"])
    return terminal.pipe(kubectl.argv(*words, "--", *inside), login["password"])


def _places(resource: Object, named: str) -> tuple[str, str]:
    """The Pod of the server and the Secret of its default user."""
    name, status = facts.name_of(resource), facts.status_of(resource)
    pod = (status.get("active") or {}).get("name")
    secret = (status.get("binding") or {}).get("name")
    if not pod or not secret:
        ready = facts.ready(resource)
        raise PluginError(
            f"Postgresql {name} has no server that could be logged in to",
            why=ready.message or "the operator has not reported one yet",
            remedy=f"`kubectl kindling status {named} --namespace={facts.namespace_of(resource)}` says how "
            "it is.",
            status=FAILED,
        )
    return str(pod), str(secret)


def _login(kubectl: Kubectl, namespace: str, secret: str) -> dict[str, str]:
    found = kubectl.get("secrets", secret, f"--namespace={namespace}")
    if found.status != 0:
        raise error_of(("get", "secrets", secret), found.status, found.stderr)
    data = (items_of(found) or [{}])[0].get("data") or {}
    login = {}
    for key in ("username", "database", "password"):
        try:
            login[key] = base64.b64decode(str(data.get(key, "")), validate=True).decode()
        except (binascii.Error, ValueError):
            login[key] = ""
        if not login[key]:
            raise PluginError(
                f"Secret {secret} has no `{key}`",
                why="the operator writes it; another writer may have changed the Secret",
                remedy=f"`kubectl describe secret {secret} --namespace {namespace}` prints its keys.",
            )
    return login
