"""The NetworkPolicy NAME: any Pod of the cluster may ask the cache, the cache may ask nobody."""

from __future__ import annotations

from kindling.kinds.contract import Child, child_metadata, selector_of
from kindling.kinds.memcached.service import PORT_NAME
from kindling.kube.resources import NETWORK_POLICY, Object, ResourceType


def build(type: ResourceType, cr: Object) -> Child:
    return Child(
        type=NETWORK_POLICY,
        body={
            "metadata": child_metadata(type, cr, name=cr["metadata"]["name"]),
            "spec": {
                "podSelector": {"matchLabels": selector_of(type, cr)},
                "policyTypes": ["Ingress", "Egress"],
                "ingress": [
                    {
                        "from": [{"namespaceSelector": {}}],
                        # By name: while a changed port rolls out, each Pod has its own.
                        "ports": [{"port": PORT_NAME, "protocol": "TCP"}],
                    }
                ],
                # Said, so that an egress rule which somebody adds is taken away again.
                "egress": [],
            },
        },
    )
