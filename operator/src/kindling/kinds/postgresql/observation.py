"""What the observed Pod and StatefulSet tell: facts for `login` and `status` alike, so in neither."""

from __future__ import annotations

from kindling.kinds.contract import Observed
from kindling.kinds.postgresql.workload import pod_name
from kindling.kube.resources import POD, STATEFUL_SET, Object, Ref


def the_pod(cr: Object, observed: Observed) -> Object | None:
    """The Pod NAME-0, if it is there and not being deleted."""
    pod = observed.children.get(Ref(POD, cr["metadata"]["namespace"], pod_name(cr)))
    return pod if pod is not None and "deletionTimestamp" not in pod["metadata"] else None


def current_pod(cr: Object, observed: Observed) -> Object | None:
    """The Pod, if it is of the revision that the StatefulSet as it stands asks for."""
    meta = cr["metadata"]
    pod = the_pod(cr, observed)
    workload = observed.children.get(Ref(STATEFUL_SET, meta["namespace"], meta["name"]))
    if pod is None or workload is None:
        return None
    status = workload.get("status") or {}
    seen = (status.get("observedGeneration") or -1) >= (workload["metadata"].get("generation") or 0)
    revision = (pod["metadata"].get("labels") or {}).get("controller-revision-hash")
    return pod if seen and revision == status.get("updateRevision") else None
