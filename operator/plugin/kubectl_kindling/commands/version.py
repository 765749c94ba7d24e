"""`version`: this plugin, kubectl, the API server, the operator's images and the kinds that are served."""

from __future__ import annotations

import json
from typing import Any

from kubectl_kindling import kinds, release, table
from kubectl_kindling.arguments import Command
from kubectl_kindling.errors import FAILED, FINE, PluginError
from kubectl_kindling.failures import described
from kubectl_kindling.kubectl import Kubectl, items_of
from kubectl_kindling.resources import troubles
from kubectl_kindling.screen import notes

OPERATOR = "kindling-operator"


def run(command: Command, kubectl: Kubectl) -> int:
    """FAILED where the operator may not be read: the rest is printed all the same."""
    found = collect(kubectl, command.operator_namespace)
    missing = found["notRead"]
    if command.json:
        print(json.dumps(found, indent=2))
    else:
        print("\n".join(text(found)))
    return FAILED if missing else FINE


def collect(kubectl: Kubectl, operator_namespace: str) -> dict[str, Any]:
    """All versions, and in `notRead` why some are not there. Raises nothing but for a missing kubectl."""
    problems: list[str] = []
    client: dict[str, Any] = {}
    said = kubectl.ask("version", "-o", "json")
    try:
        client = json.loads(said.stdout)
    except ValueError:
        problems.append(said.stderr.strip())
    try:
        types = kinds.served(kubectl)
    except PluginError as error:
        types = []
        problems.append(f"{error.what}: {error.why}")
    deployment = kubectl.get("deployments.apps", OPERATOR, f"--namespace={operator_namespace}")
    missing, others = troubles([deployment])
    problems += described(missing) + others
    images: dict[str, str] = {}
    for each in items_of(deployment):
        template = ((each.get("spec") or {}).get("template") or {}).get("spec") or {}
        for container in template.get("containers") or ():
            images[str(container.get("name"))] = str(container.get("image"))
    return {
        "plugin": {"version": release.VERSION, "commit": release.COMMIT},
        "kubectl": (client.get("clientVersion") or {}).get("gitVersion", ""),
        "kubernetes": (client.get("serverVersion") or {}).get("gitVersion", ""),
        "operator": {"namespace": operator_namespace, "images": images},
        "kinds": [{"name": each.full, "version": each.version, "kind": each.kind} for each in types],
        "notRead": [problem for problem in problems if problem],
    }


def text(found: dict[str, Any]) -> list[str]:
    """The same in lines."""
    plugin, operator = found["plugin"], found["operator"]
    commit = f" of commit {plugin['commit'][:12]}" if plugin["commit"] else ""
    lines = [
        f"plugin      {plugin['version']}{commit}",
        f"kubectl     {found['kubectl'] or 'unknown'}",
        f"kubernetes  {found['kubernetes'] or 'unknown'}",
    ]
    for name, image in operator["images"].items():
        lines.append(f"operator    {name} {image}")
    if found["kinds"]:
        rows = [(each["kind"], each["name"], each["version"]) for each in found["kinds"]]
        lines += ["", *table.columns(("KIND", "DEFINITION", "VERSION"), rows)]
    return [*lines, *notes((), found["notRead"])]
