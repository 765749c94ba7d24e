"""`spec.metrics`: each consumer serves what it did, at a port that every Pod of the cluster may read."""

from __future__ import annotations

from kindling.kinds import exporter
from kindling.kinds.base import Child
from kindling.kube.resources import Object

PORT = 9151


def is_enabled(cr: Object) -> bool:
    return ((cr.get("spec") or {}).get("metrics") or {}).get("enabled") is True


def variables(cr: Object) -> dict[str, str]:
    return {"PULSAR_METRICS_PORT": str(PORT)} if is_enabled(cr) else {}


def ports(cr: Object) -> list[Object]:
    """By the name that the servers' exporters have."""
    port = {"name": exporter.PORT_NAME, "containerPort": PORT, "protocol": "TCP"}
    return [port] if is_enabled(cr) else []


def network(cr: Object, child: Child) -> Child:
    """The NetworkPolicy, open for whoever reads it."""
    return exporter.network(child) if is_enabled(cr) else child
