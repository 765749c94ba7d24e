"""Which workload has the caches, a Deployment or a StatefulSet, and how one takes the other's place.

Both have the resource's name. The one before stays as it is until all Pods of the wanted one are ready and
applications have read where they are, and is deleted then; nothing is noted, so whoever looks sees how far
it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kindling.kinds.base import Child, Observed
from kindling.kinds.memcached import spec
from kindling.kinds.memcached.workload import KNOWN_SECONDS, WORKLOAD_LABEL
from kindling.kinds.metadata import child_metadata, is_held
from kindling.kinds.pods import all_of, pod_condition, pod_ready
from kindling.kinds.rollout import rollout
from kindling.kinds.times import seconds_since
from kindling.kube.resources import DEPLOYMENT, STATEFUL_SET, Object, Ref, ResourceType

BOTH = (DEPLOYMENT, STATEFUL_SET)
FILE_SECONDS = 120.0
"""Within which a changed ConfigMap is in the files of every Pod that mounts it: the kubelet's period."""
POLL_SECONDS = 60.0
"""How often the clients of a list that is served ask for it."""
_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")


def wanted(cr: Object) -> ResourceType:
    return spec.read(cr).workload


def find(cr: Object, observed: Observed, workload: ResourceType) -> Object | None:
    meta = cr["metadata"]
    return observed.objects.get(Ref(workload, meta["namespace"], meta["name"]))


def ordinal(cr: Object, pod: Object) -> int | None:
    """The number of a StatefulSet's Pod; None of any other."""
    if (pod["metadata"].get("labels") or {}).get(WORKLOAD_LABEL) != STATEFUL_SET.kind:
        return None
    name, prefix = str(pod["metadata"]["name"]), f"{cr['metadata']['name']}-"
    number = name.removeprefix(prefix)
    return int(number) if name.startswith(prefix) and _NUMBER.fullmatch(number) else None


def pods(
    type: ResourceType, cr: Object, observed: Observed, workload: ResourceType, *, ending: bool = False
) -> list[Object]:
    """The workload's Pods by name, those that are being deleted or those that are not."""
    found = [
        pod
        for pod in all_of(type, cr, observed)
        if ("deletionTimestamp" in pod["metadata"]) == ending and _is_of(cr, pod, workload)
    ]
    return sorted(found, key=lambda pod: str(pod["metadata"]["name"]))


def _is_of(cr: Object, pod: Object, workload: ResourceType) -> bool:
    if workload == STATEFUL_SET:
        return ordinal(cr, pod) is not None
    return WORKLOAD_LABEL not in (pod["metadata"].get("labels") or {})


def rolled_out(cr: Object, observed: Observed) -> bool:
    """Whether the wanted one has as many available Pods as wanted, all of its present template."""
    progress = rollout(find(cr, observed, wanted(cr)))
    return progress.complete and progress.total == spec.read(cr).size


def before(type: ResourceType, cr: Object, observed: Observed) -> ResourceType | None:
    """The other workload, while the wanted one cannot do without it yet."""
    (other,) = (workload for workload in BOTH if workload != wanted(cr))
    found = find(cr, observed, other)
    if found is None or not is_held(cr, found):
        return None
    waits = _lacks(type, cr, observed) or _unknown_seconds(type, cr, observed) > 0
    return other if waits else None


def _lacks(type: ResourceType, cr: Object, observed: Observed) -> bool:
    """Whether the wanted one has not all of its Pods, by its own count and by their conditions."""
    ready = sum(pod_ready(pod) for pod in pods(type, cr, observed, wanted(cr)))
    return not rolled_out(cr, observed) or ready != spec.read(cr).size


def age(pod: Object, observed: Observed) -> float:
    """For how many seconds it has been ready at least: the time is one of whole seconds."""
    moment = pod_condition(pod, "Ready").get("lastTransitionTime")
    return max(0.0, seconds_since(moment, now=observed.now) - 1) if pod_ready(pod) else 0.0


def _ages(type: ResourceType, cr: Object, observed: Observed) -> list[float]:
    """Of the wanted one's Pods that are ready."""
    found = pods(type, cr, observed, wanted(cr))
    return [age(pod, observed) for pod in found if pod_ready(pod)]


def _unknown_seconds(type: ResourceType, cr: Object, observed: Observed) -> float:
    """For how long an application may still know of none of the wanted one's Pods."""
    asked = spec.read(cr)
    needed = FILE_SECONDS if asked.binding else KNOWN_SECONDS
    needed += POLL_SECONDS if asked.discovery else 0.0
    return max(0.0, needed - min(_ages(type, cr, observed), default=0.0))


def handover(type: ResourceType, cr: Object, observed: Observed) -> float | None:
    """In how many seconds time alone brings the change forward: a Pod is listed, or the other one goes."""
    if before(type, cr, observed) is None:
        return None
    due = [KNOWN_SECONDS - age for age in _ages(type, cr, observed) if age < KNOWN_SECONDS]
    if not _lacks(type, cr, observed):
        due.append(_unknown_seconds(type, cr, observed))
    return max(1.0, min(due)) if due else None


def serving(type: ResourceType, cr: Object, observed: Observed) -> list[ResourceType]:
    """Those whose Pods clients are to use; the Pods of one that is gone end within seconds."""
    found = (wanted(cr), before(type, cr, observed))
    return [workload for workload in BOTH if workload in found]


def kept(type: ResourceType, cr: Object, observed: Observed) -> Sequence[Child]:
    """The one before, as it is: what is not desired is deleted."""
    if (other := before(type, cr, observed)) is None:
        return ()
    body = {"metadata": child_metadata(type, cr, name=cr["metadata"]["name"])}
    return [Child(type=other, body=body, frozen=True)]
