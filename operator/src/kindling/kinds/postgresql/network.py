"""The NetworkPolicy NAME: PostgreSQL's port from any Pod of the cluster, nothing else in, nothing out."""

from __future__ import annotations

from kindling.kinds.contract import Child, child_metadata, selector_of
from kindling.kinds.postgresql.service import PORT
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
                        "ports": [{"port": PORT, "protocol": "TCP"}],
                    }
                ],
            },
        },
    )
