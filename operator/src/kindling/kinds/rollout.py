"""The progress of a Deployment's rollout, by its own status: for every kind that runs one."""

from __future__ import annotations

from dataclasses import dataclass

from kindling.kinds import reasons
from kindling.kinds.base import Problem
from kindling.kinds.pods import rejection_remedy, sentence
from kindling.kube.resources import DEPLOYMENT, Object, Ref

LONGEST_SAID = 1000


@dataclass(frozen=True, kw_only=True)
class Rollout:
    """Counts of Pods. `current`: the counts are of the Deployment as we know it, not of an earlier one."""

    current: bool
    wanted: int
    total: int
    updated: int
    available: int

    @property
    def complete(self) -> bool:
        """Every Pod is of the present template, available, and none is left of an earlier one."""
        return self.current and self.updated == self.available == self.total == self.wanted


def refused(deployment: Object | None) -> Problem | None:
    """What the cluster says where it refuses the Deployment its ReplicaSet or Pods: a quota, a policy, an
    account that does not exist.
    """
    for item in ((deployment or {}).get("status") or {}).get("conditions") or ():
        pods = item.get("type") == "ReplicaFailure" and item.get("status") == "True"
        # Until the ReplicaSet is there, the controller neither counts nor reports a deadline.
        replica_set = item.get("type") == "Progressing" and item.get("reason") == "ReplicaSetCreateError"
        if pods or replica_set:
            said = sentence(str(item.get("message", "no reason given"))[:LONGEST_SAID])
            meta = (deployment or {})["metadata"]
            remedy = rejection_remedy(said, maker=Ref(DEPLOYMENT, meta["namespace"], meta["name"]))
            message = f"The cluster rejects Pods: {said} {remedy}"
            return Problem(reason=reasons.FAILED_CREATE, message=message)
    return None


def rollout(deployment: Object | None) -> Rollout:
    """Total: of a Deployment that is not there, nothing is current and all counts are 0."""
    found = deployment or {}
    status = found.get("status") or {}
    generation = (found.get("metadata") or {}).get("generation", 0)
    return Rollout(
        current=deployment is not None and (status.get("observedGeneration") or -1) >= (generation or 0),
        wanted=int((found.get("spec") or {}).get("replicas") or 0),
        total=int(status.get("replicas") or 0),
        updated=int(status.get("updatedReplicas") or 0),
        available=int(status.get("availableReplicas") or 0),
    )
