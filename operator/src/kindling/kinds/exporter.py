"""`spec.exporter`: a container beside the server that serves the server's own metrics for Prometheus.

One shape for every kind that has it. It has no probe: one that fails would make the server's Pod unready, or
restart what is in it, for the sake of a page.
"""

from __future__ import annotations

from collections.abc import Sequence

from kindling.kinds import pod_security
from kindling.kinds.amounts import merged
from kindling.kinds.base import Child
from kindling.kube.resources import Object

NAME = "exporter"
"""The container's."""
PORT_NAME = "metrics"
"""Of the Pods of every kind: a PodMonitor selects by it."""
FIELD = "spec.exporter"
DEFAULT_CPU, DEFAULT_MEMORY, DEFAULT_MEMORY_LIMIT = "10m", "32Mi", "128Mi"


def is_enabled(cr: Object) -> bool:
    return _given(cr).get("enabled") is True


def asked(cr: Object) -> Object:
    """What the spec says that enters the Pod; empty without an exporter."""
    if not is_enabled(cr):
        return {}
    resources = _given(cr).get("resources")
    return {"enabled": True, **({"resources": resources} if resources else {})}


def container(
    cr: Object,
    *,
    image: str,
    command: Sequence[str],
    port: int,
    env: Sequence[Object] = (),
    mounts: Sequence[Object] = (),
) -> Object:
    """The container. It speaks to the server over the Pod's loopback, and writes no file."""
    return {
        "name": NAME,
        **pod_security.image(image),
        "command": [*command],
        **({"env": [*env]} if env else {}),
        "ports": [{"name": PORT_NAME, "containerPort": port, "protocol": "TCP"}],
        "resources": merged(
            _given(cr).get("resources"),
            cpu=DEFAULT_CPU,
            memory=DEFAULT_MEMORY,
            memory_limit=DEFAULT_MEMORY_LIMIT,
        ),
        "securityContext": pod_security.CONTAINER,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        **({"volumeMounts": [*mounts]} if mounts else {}),
    }


def network(child: Child) -> Child:
    """The NetworkPolicy that admits every Pod of the cluster to the metrics, as the operator's own does."""
    spec = child.body["spec"]
    scraped = {
        "from": [{"namespaceSelector": {}}],
        "ports": [{"port": PORT_NAME, "protocol": "TCP"}],
    }
    opened = {**spec, "ingress": [*spec["ingress"], scraped]}
    return Child(type=child.type, body={**child.body, "spec": opened})


def _given(cr: Object) -> Object:
    found: Object = (cr.get("spec") or {}).get("exporter") or {}
    return found
