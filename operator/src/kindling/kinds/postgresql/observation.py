"""What the observed Pod and StatefulSet tell: facts for `login` and `status` alike, so in neither."""

from __future__ import annotations

from datetime import datetime

from kindling.kinds.contract import Observed, Problem
from kindling.kinds.postgresql.workload import pod_name
from kindling.kube.resources import POD, STATEFUL_SET, Object, Ref

PATIENCE_SECONDS = 20.0
"""How long a Pod may be unschedulable before we say so: volumes are made in that time."""

_IMAGE = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
_SETUP = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})


def the_pod(cr: Object, observed: Observed) -> Object | None:
    """The Pod NAME-0, if it is there and not being deleted."""
    pod = observed.children.get(Ref(POD, cr["metadata"]["namespace"], pod_name(cr)))
    return pod if pod is not None and "deletionTimestamp" not in pod["metadata"] else None


def current_pod(cr: Object, observed: Observed) -> Object | None:
    """The Pod, if it is of the revision that the StatefulSet as it stands asks for."""
    meta = cr["metadata"]
    pod = the_pod(cr, observed)
    workload = observed.children.get(Ref(STATEFUL_SET, meta["namespace"], meta["name"]))
    if pod is None or workload is None:
        return None
    status = workload.get("status") or {}
    seen = status.get("observedGeneration", -1) >= workload["metadata"].get("generation", 0)
    revision = (pod["metadata"].get("labels") or {}).get("controller-revision-hash")
    return pod if seen and revision == status.get("updateRevision") else None


def pod_ready(pod: Object) -> bool:
    return pod_condition(pod, "Ready").get("status") == "True"


def pod_condition(pod: Object, type: str) -> Object:
    found: Object
    for found in (pod.get("status") or {}).get("conditions") or ():
        if found.get("type") == type:
            return found
    return {}


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
    scheduled = pod_condition(pod, "PodScheduled")
    waited = seconds_since(scheduled.get("lastTransitionTime"), now=now)
    if scheduled.get("status") == "False" and waited >= PATIENCE_SECONDS:
        return Problem(
            reason="Unschedulable",
            message=f"No node takes Pod {name}: {scheduled.get('message', 'no reason given')} "
            "Free what it asks for, or lower spec.resources or spec.storage.",
        )
    items = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    for item in items:
        reason = ((item.get("state") or {}).get("waiting") or {}).get("reason")
        container, image = item.get("name"), item.get("image")
        if reason in _IMAGE:
            return Problem(
                reason="ImagePullFailed",
                message=f"The image {image} cannot be had: mend spec.image, or make it available to the node "
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
