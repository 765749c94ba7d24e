"""The Service NAME: headless, for its name stands for every ready replica, each with its own items."""

from __future__ import annotations

from kindling.kinds import service_template
from kindling.kinds.base import Child
from kindling.kinds.memcached.spec import Spec
from kindling.kinds.metadata import child_metadata, selector_of
from kindling.kube.resources import SERVICE, Object, ResourceType

PORT_NAME = "memcached"


def build(type: ResourceType, cr: Object, spec: Spec) -> Child:
    """Headless whatever `spec.serviceTemplate` says: it adds labels and annotations alone."""
    own = child_metadata(type, cr, name=cr["metadata"]["name"])
    return Child(
        type=SERVICE,
        body={
            "metadata": service_template.metadata(cr, own),
            "spec": {
                "type": "ClusterIP",
                "clusterIP": "None",
                "publishNotReadyAddresses": False,
                "selector": selector_of(type, cr),
                # Headless, the name leads to the Pods themselves, so it is their port that counts.
                "ports": [{"name": PORT_NAME, "port": spec.port, "targetPort": PORT_NAME, "protocol": "TCP"}],
            },
        },
    )
