"""The facts that the observed Pods and workloads show of a Memcached; `status` writes the messages.

While one workload takes the place of the other, both have Pods that serve: `workloads.serving`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import NamedTuple

from kindling.kinds.base import Observed, Problem
from kindling.kinds.memcached import spec, workloads
from kindling.kinds.memcached.workload import KNOWN_SECONDS, PORT_ANNOTATION
from kindling.kinds.pods import address, first_problem, pod_condition, pod_ready
from kindling.kinds.progress import PodProgress
from kindling.kinds.rollout import refused, rollout
from kindling.kinds.service_template import host_of
from kindling.kube.resources import DEPLOYMENT, STATEFUL_SET, Object, Ref, ResourceType


class Endpoint(NamedTuple):
    """Where a cache answers: an IP address or a DNS name, and a port."""

    host: str
    port: int

    @property
    def text(self) -> str:
        """HOST:PORT, IPv6 in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def endpoints(type: ResourceType, cr: Object, observed: Observed) -> list[Endpoint]:
    """Of every replica that answers: those of a Deployment by their text, then a StatefulSet's by number.

    A Pod that has become ready is listed once its workload counts it, which takes a moment: so nothing is
    reported before everybody can see it, and in one write, not two. One that is no longer ready goes at once.
    """
    reported = set((cr.get("status") or {}).get("serverList") or ())
    made: list[Endpoint] = []
    serving = workloads.serving(type, cr, observed)
    for workload in serving:
        # The first that were ready are those that it counts.
        found = sorted(
            _ready(type, cr, observed, workload),
            key=lambda pair: (str(pod_condition(pair[0], "Ready").get("lastTransitionTime")), pair[1].text),
        )
        listed = [(pod, _named(cr, pod, endpoint, workload)) for pod, endpoint in found]
        known = [one for _, one in listed if one.text in reported]
        counted = rollout(workloads.find(cr, observed, workload)).available - len(known)
        new = [
            one
            for pod, one in listed
            if one.text not in reported
            # While there are others, nobody needs one that a client may not get to yet.
            and (len(serving) == 1 or workloads.age(pod, observed) >= KNOWN_SECONDS)
        ][: max(0, counted)]
        shown = [(pod, one) for pod, one in listed if one in known or one in new]
        shown.sort(key=lambda pair: (workloads.ordinal(cr, pair[0]) or 0, pair[1].text))
        made += [one for _, one in shown]
    return made


def ready(type: ResourceType, cr: Object, observed: Observed) -> Iterator[tuple[Object, Endpoint]]:
    """The Pods that answer and serve, and their addresses."""
    for workload in workloads.serving(type, cr, observed):
        yield from _ready(type, cr, observed, workload)


def _ready(
    type: ResourceType, cr: Object, observed: Observed, workload: ResourceType
) -> Iterator[tuple[Object, Endpoint]]:
    for pod in workloads.pods(type, cr, observed, workload):
        if pod_ready(pod) and (endpoint := _endpoint(pod)) is not None:
            yield pod, endpoint


def _named(cr: Object, pod: Object, endpoint: Endpoint, workload: ResourceType) -> Endpoint:
    """The same by its name, where that is the next Pod's too."""
    if workload == DEPLOYMENT:
        return endpoint
    return endpoint._replace(host=f"{pod['metadata']['name']}.{host_of(cr)}")


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


def replica_problem(type: ResourceType, cr: Object, observed: Observed) -> Problem | None:
    """What keeps replicas from running, where it is more than a matter of time."""
    wanted = workloads.wanted(cr)
    pods = workloads.pods(type, cr, observed, wanted)
    if (problem := first_problem(pods, now=observed.now, placed_by=cr)) is not None:
        return problem
    return refused(workloads.find(cr, observed, wanted)) if wanted == DEPLOYMENT else None


def pod_progress(type: ResourceType, cr: Object, observed: Observed) -> PodProgress:
    meta, size, wanted = cr["metadata"], spec.read(cr).size, workloads.wanted(cr)
    ending = []
    if wanted == STATEFUL_SET:
        # The next one of its name waits for it. Those beyond `size` are not missed.
        gone = workloads.pods(type, cr, observed, wanted, ending=True)
        ending = [pod for pod in gone if (workloads.ordinal(cr, pod) or 0) < size]
    return PodProgress(
        workload=Ref(wanted, meta["namespace"], meta["name"]),
        # What keeps a Deployment from making Pods, it says itself.
        observed_by_controller=wanted == STATEFUL_SET
        and rollout(workloads.find(cr, observed, wanted)).current,
        wanted=size,
        pods=workloads.pods(type, cr, observed, wanted),
        ending=ending,
    )
