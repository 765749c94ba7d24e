"""The Service NAME: the address an application uses."""

from __future__ import annotations

from kindling.kinds import service_template
from kindling.kinds.base import Child
from kindling.kinds.metadata import child_metadata, selector_of
from kindling.kube.resources import SERVICE, Object, ResourceType

PORT = 5432
PORTS: list[Object] = [{"name": "postgresql", "port": PORT, "targetPort": "postgresql", "protocol": "TCP"}]
"""Of each Service that leads to the server, or to what takes its connections."""


def build(type: ResourceType, cr: Object) -> Child:
    own = child_metadata(type, cr, name=cr["metadata"]["name"])
    return Child(
        type=SERVICE,
        body={
            "metadata": service_template.metadata(cr, own),
            "spec": {
                **service_template.spec(cr),
                "selector": selector_of(type, cr),
                "ports": PORTS,
            },
        },
    )
