"""What an observed Pod shows, for every kind that runs one: ready or not, and why not."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from datetime import datetime

from kindling.kinds import crash_loop, pod_template, reasons
from kindling.kinds.base import Done, Observed, Problem, RequeueAfter, Result
from kindling.kinds.conditions import find_condition
from kindling.kinds.metadata import INSTANCE_LABEL, KIND_LABEL, component_selector
from kindling.kinds.times import seconds_since
from kindling.kube.resources import POD, Object, Ref, ResourceType

UNSCHEDULABLE_AFTER_SECONDS = 20.0
"""How long a Pod may be unschedulable before we say so: volumes are made in that time."""

_ABOUT_A_VOLUME = ("unbound immediate persistentvolumeclaims", "persistent volumes to bind")
_IMAGE = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
_SETUP = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})


def pods_of(type: ResourceType, cr: Object, observed: Observed) -> list[Object]:
    """The resource's Pods that are not being deleted, by name."""
    found = [pod for pod in all_of(type, cr, observed) if "deletionTimestamp" not in pod["metadata"]]
    return sorted(found, key=lambda pod: str(pod["metadata"]["name"]))


def running_of(type: ResourceType, cr: Object, observed: Observed) -> list[Object]:
    """The resource's Pods that may have a process, also while they are being deleted."""
    return [
        pod
        for pod in all_of(type, cr, observed)
        if (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
    ]


def address(pod: Object) -> str:
    """Its IP address; empty where it has none.

    Whoever may edit Pods may have edited this: what is no address must get nowhere.
    """
    found = str((pod.get("status") or {}).get("podIP") or "")
    try:
        ipaddress.ip_address(found)
    except ValueError:
        return ""
    return "" if "%" in found else found


def revision(pod: Object) -> str | None:
    """Of a StatefulSet's template: the one that its Pod is of."""
    found: str | None = (pod["metadata"].get("labels") or {}).get("controller-revision-hash")
    return found


def all_of(type: ResourceType, cr: Object, observed: Observed) -> Iterator[Object]:
    """The resource's Pods, those that are being deleted too."""
    name = cr["metadata"]["name"]
    for ref, pod in observed.objects.items():
        labels = pod["metadata"].get("labels") or {}
        if (
            ref.type == POD
            and labels.get(KIND_LABEL) == type.group_kind
            and labels.get(INSTANCE_LABEL) == name
        ):
            yield pod


def of_component(type: ResourceType, cr: Object, observed: Observed, component: str) -> Iterator[Object]:
    """The Pods of a program beside the resource's workload, those that are being deleted too."""
    own, namespace = component_selector(type, cr, component).items(), cr["metadata"]["namespace"]
    for ref, pod in observed.objects.items():
        labels = pod["metadata"].get("labels") or {}
        if ref.type == POD and ref.namespace == namespace and own <= labels.items():
            yield pod


def pod_ready(pod: Object) -> bool:
    return pod_condition(pod, "Ready").get("status") == "True"


def pod_condition(pod: Object, type: str) -> Object:
    return find_condition(pod.get("status") or {}, type)


def node_unreachable(pod: Object) -> bool:
    """Whether its node does not respond: the node controller made it unready, not its containers."""
    return not pod_ready(pod) and pod_condition(pod, "ContainersReady").get("status") == "True"


def first_problem(
    pods: Iterable[Object], *, now: datetime, placed_by: Object | None = None
) -> Problem | None:
    """`pod_problem` of the first of those that are not ready and have one."""
    found = (pod_problem(pod, now=now, placed_by=placed_by) for pod in pods if not pod_ready(pod))
    return next((problem for problem in found if problem is not None), None)


def pod_problem(pod: Object, *, now: datetime, placed_by: Object | None = None) -> Problem | None:
    """What keeps the Pod from running, where it is more than a matter of time.

    `placed_by` is the resource whose `spec.podTemplate` says where it runs, of a kind that has it.
    """
    name, where = pod["metadata"]["name"], f"-n {pod['metadata']['namespace']}"
    waited = _unscheduled_seconds(pod, now=now)
    if waited is not None and waited >= UNSCHEDULABLE_AFTER_SECONDS:
        said = str(pod_condition(pod, "PodScheduled").get("message", "no reason given"))
        fields = pod_template.placing(placed_by, said) if placed_by is not None else []
        remedy = "Free what it requests, or request less."
        if fields:
            remedy = f"Free what it requests, request less, or change {' or '.join(fields)}."
        if is_about_a_volume(said):
            remedy = f"It waits for a volume: see `kubectl describe pvc {where}`."
        message = f"No node accepts Pod {name}: {sentence(said)} {remedy}"
        return Problem(reason=reasons.UNSCHEDULABLE, message=message)
    for item in containers(pod):
        reason = ((item.get("state") or {}).get("waiting") or {}).get("reason")
        container, image = item.get("name"), item.get("image")
        if reason in _IMAGE:
            return Problem(
                reason=reasons.IMAGE_PULL_FAILED,
                message=f"The image {image} cannot be pulled: fix its name, or make it available to the node "
                f"(`kubectl describe pod {name} {where}` says why).",
            )
        if reason in _SETUP:
            return Problem(
                reason=reasons.POD_SETUP_FAILED,
                message=f"Container {container} cannot be set up: see `kubectl describe pod {name} {where}`.",
            )
        if (end := crash_loop.last_end(item, now=now)) is not None:
            logs = f"`kubectl logs {name} -c {container} --previous {where}`"
            return Problem(reason=reasons.CRASH_LOOP_BACK_OFF, message=crash_loop.words(item, end, logs=logs))
    return None


def containers(pod: Object) -> list[Object]:
    """The status of each of its containers, those that initialise it first."""
    status = pod.get("status") or {}
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def is_about_a_volume(said: str) -> bool:
    """Whether the scheduler says that a claim of the Pod is not bound, which no free node changes."""
    return any(map(said.lower().__contains__, _ABOUT_A_VOLUME))


def sentence(said: str) -> str:
    """What a controller said, on one line and with a full stop, for another sentence to follow."""
    note = " ".join(said.split())
    return note if note.endswith((".", "!", "?")) else f"{note}."


def rejection_remedy(said: str, *, maker: Ref) -> str:
    """What to do where the cluster rejects the Pods of this workload and says this.

    Its controller retries at intervals that grow to a quarter of an hour, and at once when it is touched.
    """
    what = "Allow it, or request less"
    if "service account" in said and "not found" in said:
        what = "Create that ServiceAccount, or name another in spec.podTemplate.spec.serviceAccountName"
    kind = maker.type.kind.lower()
    touch = f"`kubectl annotate {kind} {maker.name} -n {maker.namespace} tried=again --overwrite`"
    return f"{what}; it is retried at growing intervals, and at once after {touch}."


def deadlines(found: Iterable[Object], *, now: datetime) -> list[float]:
    """For each Pod that no node takes, the seconds until `pod_problem` reports it, and for each container
    that keeps failing and runs, until it no longer does; for all else there are events.
    """
    pods = list(found)
    waited = (_unscheduled_seconds(pod, now=now) for pod in pods)
    running = (crash_loop.seconds_left(item, now=now) for pod in pods for item in containers(pod))
    return [
        *(UNSCHEDULABLE_AFTER_SECONDS - seconds for seconds in waited if seconds is not None),
        *(left for left in running if left is not None),
    ]


def requeue_at_deadline(seconds: Iterable[float]) -> Result:
    """After the least of these that is to come, to look again; without one, when an event names the resource.

    A look every so often, at what is on its way, would be the more looks the more there is on its way: with
    thousands of resources that come up together most of the work.
    """
    soonest = min((left for left in seconds if left > 0), default=None)
    return Done() if soonest is None else RequeueAfter(soonest)


def sooner(result: Result, seconds: float | None) -> Result:
    """The same, or to look again after so many seconds if that comes before."""
    if seconds is None or (isinstance(result, RequeueAfter) and result.seconds <= seconds):
        return result
    return RequeueAfter(seconds)


def _unscheduled_seconds(pod: Object, *, now: datetime) -> float | None:
    """For how long the scheduler has found no node for it; None where it has, or was not there yet."""
    scheduled = pod_condition(pod, "PodScheduled")
    if scheduled.get("status") != "False":
        return None
    return seconds_since(scheduled.get("lastTransitionTime"), now=now)
