"""What a change does to data and to running Pods: the question a reviewer has of each.

Pure, and apart from `events`, which knows the engine's log; here is what is known of Kubernetes and of
Kindling's own kinds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from infra.cli.preview.events import Change, Verb


class Impact(IntEnum):
    """The worst of it."""

    NOTHING = 0
    PODS = 1
    DATA = 2


@dataclass(frozen=True)
class Effect:
    """What is touched, and how as text."""

    touches: Impact
    text: str


NOTHING = Effect(Impact.NOTHING, "not touched")
NEW = Effect(Impact.NOTHING, "–")
_GOING = (Verb.DELETED, Verb.REPLACED)
_WORKLOADS = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "Pod")

# Of what holds more than itself: what goes when it is deleted or replaced.
_HOLDERS = {
    "pulumi-python:dynamic/kind:Cluster": "everything in the cluster is lost: Pods and data",
    "kubernetes:core/v1:Namespace": "everything in the namespace is lost: Pods and data",
    "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition": (
        "every object of this kind is deleted, and what it runs"
    ),
    "kubernetes:core/v1:PersistentVolumeClaim": "the data on the volume is lost",
    "kubernetes:core/v1:PersistentVolume": "the data on the volume may be lost",
}


def effect(change: Change) -> Effect:
    """Total: what is neither known here nor a custom resource is said to touch nothing."""
    if change.verb is Verb.CREATED:
        return NEW
    if change.verb in _GOING and change.type in _HOLDERS:
        return Effect(Impact.DATA, _HOLDERS[change.type])
    if not change.type.startswith("kubernetes:"):
        return NOTHING
    if _is_custom(change.type):
        return _custom_resource(change)
    return _workload(change) if change.kind in _WORKLOADS else NOTHING


def _workload(change: Change) -> Effect:
    scratch = _scratch(change.old)
    loses = f"; what they hold in {', '.join(scratch)} is lost" if scratch else ""
    touches = Impact.DATA if scratch else Impact.PODS
    if change.verb is Verb.ROLLED:
        return Effect(touches, f"new Pods take the place of the running ones{loses}")
    if change.verb in _GOING:
        then = "" if change.verb is Verb.DELETED else ", then new ones start"
        return Effect(touches, f"its Pods end{then}{loses}")
    if any(difference.path == "spec.replicas" for difference in change.differences):
        return Effect(Impact.PODS, "Pods are added or taken away")
    return NOTHING


def _custom_resource(change: Change) -> Effect:
    going = change.verb in _GOING
    if not going and all(difference.path.startswith("metadata.") for difference in change.differences):
        return NOTHING
    text = "its Pods end" if going else "the operator acts on it and may replace its Pods"
    if change.kind == "Memcached":
        return Effect(Impact.PODS, f"{text}, and with them what they cached")
    if change.kind != "Postgresql":
        return Effect(Impact.PODS, text)
    spec = change.old.get("spec")
    storage = spec.get("storage") if isinstance(spec, Mapping) else None
    if isinstance(storage, Mapping) and storage.get("ephemeral") is True:
        return Effect(Impact.DATA, f"{text}, and with them its data, which is ephemeral")
    if not going:
        return Effect(Impact.PODS, f"{text}; its data is kept")
    if isinstance(spec, Mapping) and spec.get("deletionPolicy") == "Delete":
        return Effect(Impact.DATA, f"{text} and its data is lost (deletionPolicy: Delete)")
    return Effect(Impact.PODS, f"{text}; its volume is kept")


def _is_custom(type: str) -> bool:
    """Whether the API group is somebody's own and none of Kubernetes."""
    group = type.removeprefix("kubernetes:").partition("/")[0]
    return "." in group and not group.endswith(".k8s.io")


def _scratch(inputs: Mapping[str, Any]) -> list[str]:
    """The emptyDir volumes that hold more than temporary files: by convention those not called `tmp`."""
    value: Any = inputs
    for key in ("spec", "template", "spec", "volumes"):
        value = value.get(key) if isinstance(value, Mapping) else None
    volumes = value if isinstance(value, list) else []
    return [
        str(volume.get("name"))
        for volume in volumes
        if isinstance(volume, Mapping) and "emptyDir" in volume and volume.get("name") != "tmp"
    ]
