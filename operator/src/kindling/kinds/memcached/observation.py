"""The facts that the observed Pods and Deployment show of a Memcached; `status` writes the messages."""

from __future__ import annotations

from kindling.kinds.base import Observed, Problem
from kindling.kinds.memcached import spec
from kindling.kinds.memcached.workload import PORT_ANNOTATION
from kindling.kinds.pods import pod_problem, pod_ready, pods_of
from kindling.kinds.progress import PodProgress
from kindling.kinds.rollout import Rollout, refused, rollout
from kindling.kube.resources import DEPLOYMENT, Object, Ref, ResourceType


def server_list(type: ResourceType, cr: Object, observed: Observed) -> list[str]:
    """IP:PORT of every replica that answers, sorted; IPv6 in brackets.

    A Pod that has become ready is listed once its Deployment counts it, which takes a moment: so nothing is
    reported before everybody can see it, and in one write, not two. One that is no longer ready goes at once.
    """
    found = sorted(
        address
        for pod in pods_of(type, cr, observed)
        if pod_ready(pod) and (address := _address(pod)) is not None
    )
    reported = set((cr.get("status") or {}).get("serverList") or ())
    counted = rollout(deployment(cr, observed)).available - sum(address in reported for address in found)
    new = [address for address in found if address not in reported][: max(0, counted)]
    return [address for address in found if address in reported or address in new]


def _address(pod: Object) -> str | None:
    ip = (pod.get("status") or {}).get("podIP")
    # Whoever may edit Pods may have edited this: what is no port must not make the status unwritable.
    port = (pod["metadata"].get("annotations") or {}).get(PORT_ANNOTATION, "")
    if not ip or not port.isdecimal() or len(port) > 5:
        return None
    return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"


def deployment(cr: Object, observed: Observed) -> Object | None:
    meta = cr["metadata"]
    return observed.objects.get(Ref(DEPLOYMENT, meta["namespace"], meta["name"]))


def rolled_out(cr: Object, observed: Observed, *, size: int) -> bool:
    """Whether as many Pods as wanted are available, all of the Deployment's present template."""
    progress: Rollout = rollout(deployment(cr, observed))
    return progress.complete and progress.total == size


def replica_problem(type: ResourceType, cr: Object, observed: Observed) -> Problem | None:
    """What keeps replicas from running, where it is more than a matter of time."""
    for pod in pods_of(type, cr, observed):
        problem = None if pod_ready(pod) else pod_problem(pod, now=observed.now)
        if problem is not None:
            return problem
    return refused(deployment(cr, observed))


def pod_progress(type: ResourceType, cr: Object, observed: Observed) -> PodProgress:
    meta = cr["metadata"]
    return PodProgress(
        workload=Ref(DEPLOYMENT, meta["namespace"], meta["name"]),
        observed_by_controller=False,  # what keeps it from making Pods, it says itself
        wanted=spec.read(cr).size,
        pods=pods_of(type, cr, observed),
    )
