"""The objects that the Pulumi program declares for an existing cluster, asked of `infra.render`.

What only Pulumi reads is taken off, and the order is one that `kubectl apply` can follow.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from infra import paths, processes
from infra.manifests import Manifest
from infra.settings import OperatorSettings, stack_files

SECONDS = 300.0
PULUMI = "pulumi.com/"
# What others need comes first, what acts last: nobody is served before requesters are asked for their rights.
_ORDER = (
    "Namespace",
    "CustomResourceDefinition",
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "NetworkPolicy",
    "Service",
    "PodDisruptionBudget",
    "Deployment",
)

Key = tuple[str, str, str, str]


@dataclass(frozen=True)
class Request:
    """What one rendering differs in: the settings of a stack, `images` by name, Secrets to pull them with."""

    operator: OperatorSettings
    images: Mapping[str, str]
    pull_secrets: Sequence[str] = field(default=())


def default_operator(**changed: Any) -> OperatorSettings:
    """The operator's settings as Pulumi.yaml has them, but for what is `changed`."""
    found: dict[str, Any] = {
        "replicas": int(stack_files.default("replicas") or 0),
        "log_level": stack_files.default("logLevel"),
        "watch_namespaces": tuple(json.loads(stack_files.default("watchNamespaces") or "[]")),
        "scope": stack_files.default("scope"),
        "kinds": tuple(json.loads(stack_files.default("kinds") or "[]")),
        "pod": json.loads(stack_files.default("operatorPod") or "{}"),
    }
    return OperatorSettings(**{**found, **changed})


def render(requests: Sequence[Request]) -> list[list[Manifest]]:
    """The objects of each request, in the order in which they can be applied.

    Raises `ProgramError` with the message of the program where it refuses the settings.
    """
    output = processes.run(
        [sys.executable, "-m", "infra.render"],
        timeout=SECONDS,
        cwd=paths.REPOSITORY,
        env={"PYTHONPATH": str(paths.REPOSITORY), "PYTHONDONTWRITEBYTECODE": "1"},
        stdin=json.dumps([asdict(request) for request in requests]),
    )
    return [ordered(cleaned(found) for found in objects) for objects in json.loads(output)]


def ordered(objects: Any) -> list[Manifest]:
    """By what depends on what, then by name: Pulumi declares in no fixed order."""
    return sorted(objects, key=lambda found: (_place(found["kind"]), key(found)))


def _place(kind: str) -> float:
    """A kind that is not known here goes before what acts."""
    return _ORDER.index(kind) if kind in _ORDER else len(_ORDER) - 1.5


def key(found: Manifest) -> Key:
    """Which object it is in a cluster."""
    metadata = found["metadata"]
    return found["apiVersion"], found["kind"], metadata.get("namespace", ""), metadata["name"]


def cleaned(found: Manifest) -> Manifest:
    """Without what only Pulumi reads, keys in one order, whole numbers as such."""
    result: Manifest = _plain(found)
    metadata = result["metadata"]
    kept = {k: v for k, v in metadata.get("annotations", {}).items() if not k.startswith(PULUMI)}
    metadata = {name: value for name, value in metadata.items() if name != "annotations"}
    if kept:
        metadata["annotations"] = kept
    head = {"apiVersion": result["apiVersion"], "kind": result["kind"], "metadata": _named_first(metadata)}
    return {**head, **{name: value for name, value in result.items() if name not in head}}


def _plain(value: Any) -> Any:
    """Pulumi's numbers are all floats, and its maps have no order."""
    if isinstance(value, dict):
        # A name is what one looks for in an element of a list.
        return {name: _plain(value[name]) for name in sorted(value, key=lambda name: (name != "name", name))}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _named_first(metadata: Manifest) -> Manifest:
    first: Manifest = {name: metadata[name] for name in ("name", "namespace") if name in metadata}
    return {**first, **metadata}
