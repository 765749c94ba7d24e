"""The NetworkPolicy NAME-deployment: nobody reaches a consumer.

Egress stays open: a broker sends its clients on to addresses that are not known beforehand.
"""

from __future__ import annotations

from kindling.kinds.contract import Child, child_metadata, selector_of
from kindling.kinds.pulsarconsumer.workload import workload_name
from kindling.kube.resources import NETWORK_POLICY, Object, ResourceType


def build(type: ResourceType, cr: Object) -> Child:
    return Child(
        type=NETWORK_POLICY,
        body={
            "metadata": child_metadata(type, cr, name=workload_name(cr)),
            "spec": {"podSelector": {"matchLabels": selector_of(type, cr)}, "policyTypes": ["Ingress"]},
        },
    )
