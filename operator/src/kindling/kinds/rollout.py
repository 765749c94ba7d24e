"""How far a Deployment has come, as its own status tells: for every kind that runs one."""

from __future__ import annotations

from dataclasses import dataclass

from kindling.kube.resources import Object


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


def rollout(deployment: Object | None) -> Rollout:
    """Total: of a Deployment that is not there, nothing is current and all counts are 0."""
    found = deployment or {}
    status = found.get("status") or {}
    generation = (found.get("metadata") or {}).get("generation", 0)
    return Rollout(
        current=deployment is not None and status.get("observedGeneration", -1) >= generation,
        wanted=int((found.get("spec") or {}).get("replicas", 0)),
        total=int(status.get("replicas", 0)),
        updated=int(status.get("updatedReplicas", 0)),
        available=int(status.get("availableReplicas", 0)),
    )
