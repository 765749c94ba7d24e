"""A claim that somebody deletes while its Pod runs: Kubernetes holds it (pvc-protection) until the Pod ends.

Nothing undoes that, so it is said at once, and the operator does nothing that would end the Pod.
"""

from __future__ import annotations

from kindling.kinds.contract import Observed, Problem
from kindling.kinds.postgresql.observation import the_pod
from kindling.kinds.postgresql.spec import is_ephemeral, pod_name
from kindling.kinds.postgresql.volume import volume_name, volume_ref
from kindling.kube.resources import Object

REASON = "VolumeDeleting"


def going(cr: Object, observed: Observed) -> bool:
    """Whether it is being deleted while its Pod still runs on it; with the Pod, it goes."""
    claim = observed.children.get(volume_ref(cr))
    dying = claim is not None and "deletionTimestamp" in claim["metadata"] and not is_ephemeral(cr)
    return dying and the_pod(cr, observed) is not None


def deleting(cr: Object, observed: Observed) -> Problem | None:
    """That it is, and what can be saved."""
    if not going(cr, observed):
        return None
    name, pod = volume_name(cr), pod_name(cr)
    held = (observed.children[volume_ref(cr)].get("spec") or {}).get("volumeName") or "NAME"
    keep = '{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}'
    where = f"-n {cr['metadata']['namespace']}"
    return Problem(
        reason=REASON,
        message=f"Claim {name} is being deleted, which nothing undoes: with Pod {pod} its data goes. "
        f"Keep the volume (`kubectl patch pv {held} --patch='{keep}'`), or dump the data (`kubectl exec "
        f"{pod} -c postgres {where} -- pg_dumpall -U kindling -d postgres`). "
        "Until then the Pod is not replaced, whatever the spec says.",
    )
