"""A claim that somebody deletes while its Pod runs: Kubernetes holds it (pvc-protection) until the Pod ends.

Nothing undoes that, so it is said at once, and the operator does nothing that would end the Pod.
"""

from __future__ import annotations

from kindling.kinds import reasons
from kindling.kinds.base import Observed, Problem
from kindling.kinds.postgresql.observation import find_pod
from kindling.kinds.postgresql.spec import is_ephemeral, pod_name
from kindling.kinds.postgresql.volume import claim_of, volume_name, volume_ref
from kindling.kube.resources import Object


def is_deleting(cr: Object, observed: Observed) -> bool:
    """Whether it is being deleted while its Pod still runs on it; with the Pod, it goes.

    Not the claim of an earlier resource of this name, which is waited for: a Pod of ours would hold it.
    """
    claim = claim_of(cr, observed)
    dying = claim is not None and "deletionTimestamp" in claim["metadata"] and not is_ephemeral(cr)
    return dying and find_pod(cr, observed) is not None


def deleting(cr: Object, observed: Observed) -> Problem | None:
    """That it is, and what can be saved."""
    if not is_deleting(cr, observed):
        return None
    name, pod = volume_name(cr), pod_name(cr)
    held = (observed.objects[volume_ref(cr)].get("spec") or {}).get("volumeName") or "NAME"
    keep = '{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}'
    where = f"-n {cr['metadata']['namespace']}"
    return Problem(
        reason=reasons.VOLUME_DELETING,
        message=f"Claim {name} is being deleted, which nothing undoes: with Pod {pod} its data goes. "
        f"Keep the volume (`kubectl patch pv {held} --patch='{keep}'`), or dump the data (`kubectl exec "
        f"{pod} -c postgres {where} -- pg_dumpall -U kindling -d postgres`). "
        "Until then the Pod is not replaced, whatever the spec says.",
    )
