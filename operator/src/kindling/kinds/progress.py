"""The deadline on progress: how long a resource may be on its way, and what holds it up meanwhile.

One rule for every kind that runs Pods. The reasons, a closed list: PodMissing, NodeLost,
VolumeNotMounted, Recovering, ProgressDeadlineExceeded. What can be told is told at once; a fault it is
once the deadline has passed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kindling.kinds.conditions import find, status_of, taken_up
from kindling.kinds.contract import Observed, Problem, Said
from kindling.kinds.pods import PATIENCE_SECONDS, pod_condition, pod_ready, seconds_since, unheard
from kindling.kube.resources import POD, Object, Ref, ref_of

DEADLINE_SECONDS = 600
"""spec.progressDeadlineSeconds where it is left out: what Deployments have."""

_HELD_UP = frozenset(
    {"PodMissing", "NodeLost", "VolumeNotMounted", "Recovering", "ProgressDeadlineExceeded",
     "Terminating", "ServerError"}
)  # fmt: skip
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
class Way:
    """How far a resource has come: its Pods, those that are being deleted, how many are wanted.

    `maker` is the workload that makes them. `acted`: it has taken up what is wanted of it, so that Pods
    that are missing are not to come in a moment.
    """

    maker: Ref
    acted: bool
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
    """Since when it is on its way, as its status says; None where it begins only now, or anew."""
    status = status_of(cr)
    ready, progressing = find(status, "Ready"), find(status, "Progressing")
    if not taken_up(cr) or ready.get("status") != "False":
        return None
    overdue = find(status, "Degraded").get("reason") in _HELD_UP
    if progressing.get("status") == "True":
        # It may have been under way for another reason before, a volume that grows say.
        return max(str(ready.get("lastTransitionTime")), str(progressing.get("lastTransitionTime")))
    return ready.get("lastTransitionTime") if overdue or progressing.get("reason") == "Paused" else None


def still(problem: Problem, cr: Object, observed: Observed) -> Problem:
    """What should mend itself, and has not before the deadline, is a fault."""
    late = problem.passing and idle_seconds(cr, (), observed) >= deadline_of(cr)
    return replace(problem, passing=False) if late else problem


def held_up(cr: Object, way: Way, observed: Observed, *, known: Problem | None = None) -> Problem | None:
    """What holds up a resource that is not ready though its children are as desired; None if that can not
    be told yet. `known` is what the kind itself knows to take long.
    """
    idle = idle_seconds(cr, way.pods, observed)
    late = idle >= deadline_of(cr)
    found = _lost(way) or known or _missing(way, observed, idle=idle, late=late)
    if found is None and late:
        found = _stuck(way, observed)
    return replace(found, passing=not late) if found is not None else None


def asks(cr: Object, way: Way, observed: Observed) -> list[Ref]:
    """Whose newest Warning Event `held_up` needs, of a resource that is not ready."""
    idle = idle_seconds(cr, way.pods, observed)
    if way.missing:
        return [way.maker] if _is_awaited(way, idle) or idle >= deadline_of(cr) else []
    late = idle >= deadline_of(cr) and _lost(way) is None
    return [ref_of(POD, pod) for pod in way.unready[:1]] if late else []


def patience(cr: Object, way: Way, observed: Observed, *, fault: Problem | None) -> list[float]:
    """The seconds until time alone tells more, for `pods.when_time_tells`; of a fault, nothing more."""
    if fault is not None and not fault.passing:
        return []
    idle = idle_seconds(cr, way.pods, observed)
    left = [deadline_of(cr) - idle]
    return [*left, PATIENCE_SECONDS - idle] if way.missing and way.acted else left


def _is_awaited(way: Way, idle: float) -> bool:
    return way.missing and way.acted and idle >= PATIENCE_SECONDS


def _lost(way: Way) -> Problem | None:
    """A Pod whose node is not heard of, or was not for so long that the Pod is to go, and it does not."""
    for pod in way.unready:
        evicted = pod_condition(pod, "DisruptionTarget").get("reason") == _EVICTED
        if unheard(pod) or (evicted and pod in way.ending):
            return _node_lost(pod)
    return None


def _node_lost(pod: Object) -> Problem:
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    return Problem(
        reason="NodeLost",
        message=f"The node of Pod {name} does not answer (`kubectl get pod {name} -n {namespace} -o wide` "
        "names it): bring it back. If it is gone for good, delete the Node, or taint it "
        "node.kubernetes.io/out-of-service, and the Pod is made anew elsewhere.",
    )


def _missing(way: Way, observed: Observed, *, idle: float, late: bool) -> Problem | None:
    """A Pod that its maker does not make."""
    said = observed.warnings.get(way.maker)
    if said is not None and not late:
        # Until then what it says must be of now: Events are kept for an hour.
        of_now = seconds_since(said.at, now=observed.now) <= idle + 1
        said = said if said.reason == _REFUSED and of_now else None
    if not way.missing or not (late or said is not None):
        return None
    kind, name = way.maker.type.kind, way.maker.name
    words = f": {_quoted(said)}" if said is not None else ", and no Event says why."
    return Problem(
        reason="PodMissing",
        message=f"{kind} {name} has no Pod, or too few{words} Allow it, or ask for less; it is tried again "
        f"(`kubectl describe {kind.lower()} {name} -n {way.maker.namespace}`).",
    )


def _stuck(way: Way, observed: Observed) -> Problem:
    for pod in way.unready[:1]:
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        look = f"see `kubectl describe pod {name} -n {namespace}`."
        said = observed.warnings.get(ref_of(POD, pod))
        words = f" {_quoted(said)}" if said is not None else ""
        if said is not None and said.reason == _NODE_NOT_READY:
            return _node_lost(pod)
        if said is not None and said.reason in _MOUNTS and _is_not_set_up(pod):
            return Problem(
                reason="VolumeNotMounted",
                message=f"Pod {name} waits for a volume:{words} Free the volume where it is still in use, "
                f"or mend its storage; it is tried again. Else {look}",
            )
        what = "is still ending" if pod in way.ending else "is not ready"
        return Problem(
            reason="ProgressDeadlineExceeded",
            message=f"Pod {name} {what}, and there is no progress: {look}{words}",
        )
    kind, name = way.maker.type.kind, way.maker.name
    return Problem(
        reason="ProgressDeadlineExceeded",
        message=f"There is no progress: see `kubectl describe {kind.lower()} {name} "
        f"-n {way.maker.namespace}`.",
    )


def _is_not_set_up(pod: Object) -> bool:
    status = pod.get("status") or {}
    for item in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        reason = ((item.get("state") or {}).get("waiting") or {}).get("reason")
        if reason not in _NOT_SET_UP:
            return False
    return True


def _quoted(said: Said) -> str:
    words = " ".join(said.note[:_LONGEST_SAID].split())
    return words if words.endswith((".", "!", "?")) else f"{words}."
