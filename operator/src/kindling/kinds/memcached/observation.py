"""The facts that the observed Pods and Deployment show of a Memcached; `status` writes the messages."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import NamedTuple

from kindling.kinds.base import Observed, Problem
from kindling.kinds.memcached import spec
from kindling.kinds.memcached.workload import PORT_ANNOTATION
from kindling.kinds.pods import address, pod_problem, pod_ready, pods_of
from kindling.kinds.progress import PodProgress
from kindling.kinds.rollout import Rollout, refused, rollout
from kindling.kube.resources import DEPLOYMENT, Object, Ref, ResourceType


class Endpoint(NamedTuple):
    """Where a cache answers: an IP address and a port."""

    host: str
    port: int

    @property
    def text(self) -> str:
        """HOST:PORT, IPv6 in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def endpoints(type: ResourceType, cr: Object, observed: Observed) -> list[Endpoint]:
    """Of every replica that answers, sorted by its text.

    A Pod that has become ready is listed once its Deployment counts it, which takes a moment: so nothing is
    reported before everybody can see it, and in one write, not two. One that is no longer ready goes at once.
    """
    found = sorted((endpoint for _, endpoint in ready(type, cr, observed)), key=lambda found: found.text)
    reported = set((cr.get("status") or {}).get("serverList") or ())
    counted = rollout(deployment(cr, observed)).available - sum(one.text in reported for one in found)
    new = [one for one in found if one.text not in reported][: max(0, counted)]
    return [one for one in found if one.text in reported or one in new]


def ready(type: ResourceType, cr: Object, observed: Observed) -> Iterator[tuple[Object, Endpoint]]:
    """The Pods that answer, and where."""
    for pod in pods_of(type, cr, observed):
        if pod_ready(pod) and (endpoint := _endpoint(pod)) is not None:
            yield pod, endpoint


def cache_key(pod: Object, endpoint: Endpoint) -> tuple[Hashable, ...]:
    """Changes with the Pod, its address, and each start of one of its containers."""
    starts = tuple(
        (item.get("name"), item.get("restartCount"), item.get("containerID"))
        for item in (pod.get("status") or {}).get("containerStatuses") or ()
    )
    return pod["metadata"].get("uid"), endpoint, starts


def _endpoint(pod: Object) -> Endpoint | None:
    """Whoever may edit Pods may have edited the port, too."""
    ip = address(pod)
    port = (pod["metadata"].get("annotations") or {}).get(PORT_ANNOTATION, "")
    if not (port.isascii() and port.isdecimal() and len(port) <= 5 and 0 < int(port) < 65536):
        return None
    return Endpoint(ip, int(port)) if ip else None


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
        problem = None if pod_ready(pod) else pod_problem(pod, now=observed.now, placed_by=cr)
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
