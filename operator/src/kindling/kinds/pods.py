"""What an observed Pod tells, for every kind that runs one: ready or not, and why not in words."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from kindling.kinds.conditions import find
from kindling.kinds.contract import INSTANCE_LABEL, KIND_LABEL, After, Done, Observed, Outcome, Problem
from kindling.kube.resources import POD, Object, ResourceType

PATIENCE_SECONDS = 20.0
"""How long a Pod may be unschedulable before we say so: volumes are made in that time."""

_IMAGE = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
_SETUP = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})


def pods_of(type: ResourceType, cr: Object, observed: Observed) -> list[Object]:
    """The resource's Pods that are not being deleted, by name."""
    name = cr["metadata"]["name"]
    found = []
    for ref, pod in observed.children.items():
        meta = pod["metadata"]
        labels = meta.get("labels") or {}
        ours = labels.get(KIND_LABEL) == type.label and labels.get(INSTANCE_LABEL) == name
        if ref.type == POD and ours and "deletionTimestamp" not in meta:
            found.append(pod)
    return sorted(found, key=lambda pod: str(pod["metadata"]["name"]))


def pod_ready(pod: Object) -> bool:
    return pod_condition(pod, "Ready").get("status") == "True"


def pod_condition(pod: Object, type: str) -> Object:
    return find(pod.get("status") or {}, type)


def unheard(pod: Object) -> bool:
    """Whether its node is not heard of: not ready by the node controller's word, not by its containers'."""
    return not pod_ready(pod) and pod_condition(pod, "ContainersReady").get("status") == "True"


def seconds_since(moment: object, *, now: datetime) -> float:
    """Seconds since a Kubernetes time; 0 for what is none."""
    try:
        return max(0.0, (now - datetime.fromisoformat(str(moment))).total_seconds())
    except ValueError:
        return 0.0


def trouble(pod: Object, *, now: datetime) -> Problem | None:
    """What keeps the Pod from running, where it is more than a matter of time."""
    name, where = pod["metadata"]["name"], f"-n {pod['metadata']['namespace']}"
    status = pod.get("status") or {}
    waited = _unscheduled_seconds(pod, now=now)
    if waited is not None and waited >= PATIENCE_SECONDS:
        said = pod_condition(pod, "PodScheduled").get("message", "no reason given")
        return Problem(
            reason="Unschedulable",
            message=f"No node takes Pod {name}: {said} Free what it asks for, or ask for less.",
        )
    items = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    for item in items:
        reason = ((item.get("state") or {}).get("waiting") or {}).get("reason")
        container, image = item.get("name"), item.get("image")
        if reason in _IMAGE:
            return Problem(
                reason="ImagePullFailed",
                message=f"The image {image} cannot be had: mend its name, or make it available to the node "
                f"(`kubectl describe pod {name} {where}` says why).",
            )
        if reason in _SETUP:
            return Problem(
                reason="PodSetupFailed",
                message=f"Container {container} cannot be set up: see `kubectl describe pod {name} {where}`.",
            )
        if reason == "CrashLoopBackOff":
            return Problem(
                reason="Crashing",
                message=f"Container {container} keeps failing: see "
                f"`kubectl logs {name} -c {container} --previous {where}`.",
            )
    return None


def patience(found: Iterable[Object], *, now: datetime) -> list[float]:
    """For each Pod that no node takes, the seconds until `trouble` says so; of all else events tell."""
    waited = (_unscheduled_seconds(pod, now=now) for pod in found)
    return [PATIENCE_SECONDS - seconds for seconds in waited if seconds is not None]


def when_time_tells(seconds: Iterable[float]) -> Outcome:
    """After the least of these that is to come, to look again; without one, when an event names the resource.

    A look every so often, at what is on its way, would be the more looks the more there is on its way: with
    thousands of resources that come up together most of the work.
    """
    soonest = min((left for left in seconds if left > 0), default=None)
    return Done() if soonest is None else After(soonest)


def _unscheduled_seconds(pod: Object, *, now: datetime) -> float | None:
    """For how long the scheduler has found no node for it; None where it has, or was not there yet."""
    scheduled = pod_condition(pod, "PodScheduled")
    if scheduled.get("status") != "False":
        return None
    return seconds_since(scheduled.get("lastTransitionTime"), now=now)
