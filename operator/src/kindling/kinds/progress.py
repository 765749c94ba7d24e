"""The deadline on progress: how long a resource may be on its way, and what holds it up meanwhile.

One rule for every kind that runs Pods. A cause that is known is reported at once; it becomes a fault when the
deadline has passed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kindling.kinds import reasons
from kindling.kinds.base import Observed, Problem, WarningEvent
from kindling.kinds.conditions import find_condition, is_current, status_of
from kindling.kinds.pods import (
    UNSCHEDULABLE_AFTER_SECONDS,
    node_unreachable,
    pod_condition,
    pod_ready,
    rejection_remedy,
    sentence,
)
from kindling.kinds.times import seconds_since
from kindling.kube.resources import POD, Object, Ref, ref_of

DEADLINE_SECONDS = 600
"""spec.progressDeadlineSeconds where it is left out: what Deployments have."""

_HELD_UP = frozenset(
    {
        reasons.POD_MISSING,
        reasons.NODE_LOST,
        reasons.VOLUME_NOT_BOUND,
        reasons.VOLUME_NOT_MOUNTED,
        reasons.RECOVERING,
        reasons.PROGRESS_DEADLINE_EXCEEDED,
        reasons.TERMINATING,
        reasons.SERVER_ERROR,
        reasons.HIT_RATIO_TOO_LOW,
    }
)
"""The reasons that time alone makes a fault."""

# With these a Pod has come further; the kubelet and the scheduler take none of them back without cause.
_STEPS = frozenset({"PodScheduled", "PodReadyToStartContainers", "Initialized", "Ready"})
_MOUNTS = frozenset({"FailedMount", "FailedAttachVolume", "FailedMapVolume"})
_NOT_SET_UP = frozenset({"ContainerCreating", "PodInitializing"})
_EVICTED = "DeletionByTaintManager"
_REFUSED = "FailedCreate"
_NODE_NOT_READY = "NodeNotReady"
_LONGEST_SAID = 1000


@dataclass(frozen=True, kw_only=True)
class PodProgress:
    """The Pods of a resource, those that are being deleted, and how many are wanted.

    `workload` creates them. `observed_by_controller`: its controller has observed the current generation, so
    Pods that are missing will not appear by themselves in a moment.
    """

    workload: Ref
    observed_by_controller: bool
    wanted: int
    pods: Sequence[Object]
    ending: Sequence[Object] = ()

    @property
    def missing(self) -> bool:
        return len(self.pods) + len(self.ending) < self.wanted

    @property
    def unready(self) -> list[Object]:
        return [pod for pod in (*self.ending, *self.pods) if not pod_ready(pod)]


def deadline_of(cr: Object) -> float:
    return float((cr.get("spec") or {}).get("progressDeadlineSeconds") or DEADLINE_SECONDS)


def idle_seconds(cr: Object, pods: Sequence[Object], observed: Observed) -> float:
    """For how long there was no progress: since the resource began, or since one of its Pods came further."""
    moments = [_began(cr)]
    for pod in pods:
        moments.append(pod["metadata"].get("creationTimestamp"))
        for item in (pod.get("status") or {}).get("conditions") or ():
            if item.get("type") in _STEPS and item.get("status") == "True":
                moments.append(item.get("lastTransitionTime"))
    if moments[0] is None:
        return 0.0
    return min(seconds_since(moment, now=observed.now) for moment in moments if moment is not None)


def _began(cr: Object) -> str | None:
    """Since when it is progressing, as its status says; None if it starts only now, or again."""
    status = status_of(cr)
    ready, progressing = find_condition(status, "Ready"), find_condition(status, "Progressing")
    if not is_current(cr) or ready.get("status") != "False":
        return None
    overdue = find_condition(status, "Degraded").get("reason") in _HELD_UP
    if progressing.get("status") == "True":
        # It may have been under way for another reason before, a volume that grows say.
        return max(str(ready.get("lastTransitionTime")), str(progressing.get("lastTransitionTime")))
    return ready.get("lastTransitionTime") if overdue or progressing.get("reason") == reasons.PAUSED else None


def escalated(problem: Problem, cr: Object, observed: Observed) -> Problem:
    """A transient problem that has not ended before the deadline is a fault."""
    late = problem.transient and idle_seconds(cr, (), observed) >= deadline_of(cr)
    return replace(problem, transient=False) if late else problem


def blocker(
    cr: Object, pod_progress: PodProgress, observed: Observed, *, known: Problem | None = None
) -> Problem | None:
    """What holds up a resource that is not ready though its children are as desired; None if that is not
    known yet. `known` is what the kind itself knows to take long.
    """
    idle = idle_seconds(cr, pod_progress.pods, observed)
    late = idle >= deadline_of(cr)
    found = _lost(pod_progress) or known or _missing(pod_progress, observed, idle=idle, late=late)
    if found is None and late:
        found = _stuck(pod_progress, observed)
    return replace(found, transient=not late) if found is not None else None


def warnings_needed(cr: Object, pod_progress: PodProgress, observed: Observed) -> list[Ref]:
    """Whose newest Warning Event `blocker` needs, of a resource that is not ready."""
    idle = idle_seconds(cr, pod_progress.pods, observed)
    if pod_progress.missing:
        return [pod_progress.workload] if _is_awaited(pod_progress, idle) or idle >= deadline_of(cr) else []
    late = idle >= deadline_of(cr) and _lost(pod_progress) is None
    return [ref_of(POD, pod) for pod in pod_progress.unready[:1]] if late else []


def deadlines(
    cr: Object, pod_progress: PodProgress, observed: Observed, *, fault: Problem | None
) -> list[float]:
    """The seconds until a deadline passes, for `pods.requeue_at_deadline`; none for a fault."""
    if fault is not None and not fault.transient:
        return []
    idle = idle_seconds(cr, pod_progress.pods, observed)
    left = [deadline_of(cr) - idle]
    return (
        [*left, UNSCHEDULABLE_AFTER_SECONDS - idle]
        if pod_progress.missing and pod_progress.observed_by_controller
        else left
    )


def _is_awaited(pod_progress: PodProgress, idle: float) -> bool:
    return (
        pod_progress.missing and pod_progress.observed_by_controller and idle >= UNSCHEDULABLE_AFTER_SECONDS
    )


def _lost(pod_progress: PodProgress) -> Problem | None:
    """A Pod whose node does not respond, or did not for so long that the Pod is being evicted, and stays."""
    for pod in pod_progress.unready:
        evicted = pod_condition(pod, "DisruptionTarget").get("reason") == _EVICTED
        if node_unreachable(pod) or (evicted and pod in pod_progress.ending):
            return _node_lost(pod)
    return None


def _node_lost(pod: Object) -> Problem:
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    return Problem(
        reason=reasons.NODE_LOST,
        message=f"The node of Pod {name} does not answer (`kubectl get pod {name} -n {namespace} -o wide` "
        "names it): bring it back. If it is gone for good, delete the Node, or taint it "
        "node.kubernetes.io/out-of-service, and the Pod is created again elsewhere.",
    )


def _missing(pod_progress: PodProgress, observed: Observed, *, idle: float, late: bool) -> Problem | None:
    """A Pod that its maker does not make."""
    event = observed.warnings.get(pod_progress.workload)
    if event is not None and not late:
        # Until then what it says must be of now: Events are kept for an hour.
        of_now = seconds_since(event.at, now=observed.now) <= idle + 1
        event = event if event.reason == _REFUSED and of_now else None
    if not pod_progress.missing or not (late or event is not None):
        return None
    workload = pod_progress.workload
    what = f"{workload.type.kind} {workload.name} has no Pod, or too few"
    if event is None:
        look = f"`kubectl describe {workload.type.kind.lower()} {workload.name} -n {workload.namespace}`"
        return Problem(reason=reasons.POD_MISSING, message=f"{what}, and no Event says why: see {look}.")
    said = quoted(event)
    remedy = rejection_remedy(said, maker=workload)
    return Problem(reason=reasons.POD_MISSING, message=f"{what}: {said} {remedy}")


def _stuck(pod_progress: PodProgress, observed: Observed) -> Problem:
    for pod in pod_progress.unready[:1]:
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        hint = f"see `kubectl describe pod {name} -n {namespace}`."
        event = observed.warnings.get(ref_of(POD, pod))
        note = f" {quoted(event)}" if event is not None else ""
        if event is not None and event.reason == _NODE_NOT_READY:
            return _node_lost(pod)
        if event is not None and event.reason in _MOUNTS and _is_not_set_up(pod):
            return Problem(
                reason=reasons.VOLUME_NOT_MOUNTED,
                message=f"Pod {name} waits for a volume:{note} Free the volume where it is still in use, "
                f"or fix its storage; it is retried. Else {hint}",
            )
        what = "is still ending" if pod in pod_progress.ending else "is not ready"
        return Problem(
            reason=reasons.PROGRESS_DEADLINE_EXCEEDED,
            message=f"Pod {name} {what}, and there is no progress: {hint}{note}",
        )
    kind, name = pod_progress.workload.type.kind, pod_progress.workload.name
    return Problem(
        reason=reasons.PROGRESS_DEADLINE_EXCEEDED,
        message=f"There is no progress: see `kubectl describe {kind.lower()} {name} "
        f"-n {pod_progress.workload.namespace}`.",
    )


def _is_not_set_up(pod: Object) -> bool:
    status = pod.get("status") or {}
    for item in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        reason = ((item.get("state") or {}).get("waiting") or {}).get("reason")
        if reason not in _NOT_SET_UP:
            return False
    return True


def quoted(event: WarningEvent) -> str:
    """What the Event says, as a sentence, cut where it is very long."""
    return sentence(event.note[:_LONGEST_SAID])
