"""The Service NAME: the address an application uses."""

from __future__ import annotations

from kindling.kinds.contract import Child, labels_of, owner_of, selector_of
from kindling.kube.resources import SERVICE, Object, ResourceType

PORT = 5432


def host_of(cr: Object) -> str:
    """The Service's DNS name, as every namespace of the cluster resolves it."""
    return f"{cr['metadata']['name']}.{cr['metadata']['namespace']}.svc"


def build(type: ResourceType, cr: Object) -> Child:
    return Child(
        type=SERVICE,
        body={
            "metadata": {
                "namespace": cr["metadata"]["namespace"],
                "name": cr["metadata"]["name"],
                "labels": labels_of(type, cr),
                "ownerReferences": [owner_of(type, cr)],
            },
            "spec": {
                "type": "ClusterIP",
                "selector": selector_of(type, cr),
                "ports": [
                    {"name": "postgresql", "port": PORT, "targetPort": "postgresql", "protocol": "TCP"}
                ],
            },
        },
    )
