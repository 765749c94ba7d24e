"""The PodDisruptionBudget NAME: drained nodes take one replica at a time, never the whole cache at once."""

from __future__ import annotations

from kindling.kinds.base import Child
from kindling.kinds.metadata import child_metadata, selector_of
from kindling.kube.resources import DISRUPTION_BUDGET, Object, ResourceType


def build(type: ResourceType, cr: Object) -> Child:
    return Child(
        type=DISRUPTION_BUDGET,
        body={
            "metadata": child_metadata(type, cr, name=cr["metadata"]["name"]),
            "spec": {
                "maxUnavailable": 1,
                "selector": {"matchLabels": selector_of(type, cr)},
                # One that does not run has nothing to lose, and must not hold up a drain.
                "unhealthyPodEvictionPolicy": "AlwaysAllow",
            },
        },
    )
