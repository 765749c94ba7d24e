"""A claim that gets no volume: the Pod waits for it, and no node can do anything about that.

With a class that binds at once, the scheduler says so; with one that waits for the first Pod, it has chosen a
node, and says nothing until it gives up ten minutes later.
"""

from __future__ import annotations

from kindling.kinds import pods, progress, reasons
from kindling.kinds.base import Observed, Problem
from kindling.kinds.postgresql.volume import claim_of, volume_ref
from kindling.kinds.times import seconds_since
from kindling.kube.resources import Object, Ref

SELECTED_NODE = "volume.kubernetes.io/selected-node"
"""On a claim whose class waits for the first Pod: the node that the scheduler chose for both."""


def seconds(cr: Object, pod: Object | None, observed: Observed) -> float | None:
    """For how long the Pod has waited for the claim's volume; None where it does not."""
    claim = claim_of(cr, observed)
    if pod is None or claim is None or (claim.get("status") or {}).get("phase") != "Pending":
        return None
    scheduled = pods.pod_condition(pod, "PodScheduled")
    if scheduled.get("status") == "False":
        waits = pods.is_about_a_volume(str(scheduled.get("message")))
        since = scheduled.get("lastTransitionTime") if waits else None
    else:
        chosen = SELECTED_NODE in (claim["metadata"].get("annotations") or {})
        since = pod["metadata"].get("creationTimestamp") if chosen else None
    return seconds_since(since, now=observed.now) if since is not None else None


def warnings(cr: Object, pod: Object | None, observed: Observed) -> list[Ref]:
    """The claim, where `problem` needs its newest Warning Event."""
    return [volume_ref(cr)] if _is_late(seconds(cr, pod, observed)) else []


def problem(cr: Object, pod: Object | None, observed: Observed) -> Problem | None:
    """A matter of time until the provisioner says that it fails, or the deadline passes."""
    if not _is_late(seconds(cr, pod, observed)):
        return None
    claim, event = observed.objects[volume_ref(cr)], observed.warnings.get(volume_ref(cr))
    name, namespace = claim["metadata"]["name"], claim["metadata"]["namespace"]
    storage_class = (claim.get("spec") or {}).get("storageClassName")
    look = f"`kubectl describe pvc {name} -n {namespace}`"
    other = (
        f"For another class, delete this Postgresql and PersistentVolumeClaim {name}, which has no data yet, "
        "and create it again with spec.storage.storageClassName."
    )
    if storage_class is None:
        said = "it names no StorageClass, and the cluster has no default one."
        remedy = f"Mark a StorageClass as the default. {other}"
    elif event is not None:
        said = progress.quoted(event)
        remedy = f"Create or fix StorageClass {storage_class}, or its provisioner ({look}). {other}"
    else:
        said = f"the provisioner of StorageClass {storage_class} has made none yet."
        remedy = f"Wait, or see {look}."
    found = Problem(
        reason=reasons.VOLUME_NOT_BOUND,
        message=f"PersistentVolumeClaim {name} has no volume: {said} {remedy}",
        transient=storage_class is not None and event is None,
    )
    return progress.escalated(found, cr, observed)


def deadlines(cr: Object, pod: Object | None, observed: Observed) -> list[float]:
    """The seconds until `problem` has something to say, and then until it may have more: as long again as it
    has waited, for an Event is not watched, and reading it costs the server a look through all of them.
    """
    waited = seconds(cr, pod, observed)
    if waited is None:
        return []
    return [waited if _is_late(waited) else pods.UNSCHEDULABLE_AFTER_SECONDS - waited]


def _is_late(waited: float | None) -> bool:
    return waited is not None and waited >= pods.UNSCHEDULABLE_AFTER_SECONDS
