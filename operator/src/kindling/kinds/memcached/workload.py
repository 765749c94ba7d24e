"""The Deployment NAME: `size` Pods that each run memcached, and with `spec.exporter` an exporter beside it.

What size is must stay out of the Pods' template: a change of it restarts them all, and a cache that
restarts is empty.
"""

from __future__ import annotations

from collections.abc import Sequence

from kindling.kinds import exporter, pod_security, pod_template
from kindling.kinds.base import Child
from kindling.kinds.memcached.service import PORT_NAME
from kindling.kinds.memcached.spec import Spec
from kindling.kinds.metadata import child_metadata, labels_of, selector_of
from kindling.kube.resources import DEPLOYMENT, Object, ResourceType

UID = 1001
FIRST_UNPRIVILEGED_PORT = 1024
PORT_ANNOTATION = "kindling.dev/port"
"""On each Pod, the port it listens on: while a changed port rolls out, they differ."""

DRAIN_SECONDS = 5
GRACE_SECONDS = 15

EXPORTER_PORT = 9150


def command(spec: Spec) -> list[str]:
    """`memcached -m=64 -o modern -v` as it was meant: -m=64 reads as 0 and ends memcached at once."""
    arguments = ["memcached", f"--memory-limit={spec.memory}", "-o", "modern", "-v", f"--port={spec.port}"]
    if spec.connections is not None:
        arguments.append(f"--conn-limit={spec.connections}")
    if spec.threads is not None:
        arguments.append(f"--threads={spec.threads}")
    return arguments


def build(
    type: ResourceType,
    cr: Object,
    spec: Spec,
    *,
    image: str,
    exporters_image: str,
    pull_secrets: Sequence[str] = (),
) -> Child:
    selector = {"matchLabels": selector_of(type, cr)}
    containers = [_memcached(spec, image=image)]
    if exporter.is_enabled(cr):
        containers.append(_exporter(cr, spec, image=exporters_image))
    template = {
        "metadata": {
            "labels": labels_of(type, cr),
            "annotations": {PORT_ANNOTATION: str(spec.port)},
        },
        "spec": _pod(cr, spec, selector=selector, containers=containers, pull_secrets=pull_secrets),
    }
    return Child(
        type=DEPLOYMENT,
        body={
            "metadata": child_metadata(type, cr, name=cr["metadata"]["name"]),
            "spec": {
                "replicas": spec.size,
                **({"progressDeadlineSeconds": spec.deadline} if spec.deadline else {}),
                "selector": selector,
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
                "template": pod_template.applied(type, cr, template),
            },
        },
    )


def _pod(
    cr: Object, spec: Spec, *, selector: Object, containers: Sequence[Object], pull_secrets: Sequence[str]
) -> Object:
    common = pod_security.pod(cr, uid=UID, grace_seconds=GRACE_SECONDS, pull_secrets=pull_secrets)
    if spec.port < FIRST_UNPRIVILEGED_PORT:
        sysctl = {"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}
        common["securityContext"]["sysctls"] = [sysctl]
    return {
        **common,
        "topologySpreadConstraints": pod_security.spread(selector),
        "containers": [*containers],
    }


def _memcached(spec: Spec, *, image: str) -> Object:
    return {
        "name": "memcached",
        **pod_security.image(image),
        "command": command(spec),
        "ports": [{"name": PORT_NAME, "containerPort": spec.port, "protocol": "TCP"}],
        "resources": spec.resources,
        "securityContext": pod_security.CONTAINER,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        # memcached exits at once on SIGTERM, sooner than clients and the cluster's DNS notice.
        "lifecycle": {"preStop": {"sleep": {"seconds": DRAIN_SECONDS}}},
        # It listens within milliseconds of its start: no startup probe, which would only delay Ready.
        "readinessProbe": _probe(period=1, failures=3),
        "livenessProbe": _probe(period=10, failures=6),
    }


def _exporter(cr: Object, spec: Spec, *, image: str) -> Object:
    command = [
        "memcached-exporter",
        f"--listen=:{EXPORTER_PORT}",
        f"--memcached=localhost:{spec.port}",
    ]
    return exporter.container(cr, image=image, command=command, port=EXPORTER_PORT)


def _probe(*, period: int, failures: int) -> Object:
    return {
        "tcpSocket": {"port": PORT_NAME},
        "periodSeconds": period,
        "timeoutSeconds": 1,
        "failureThreshold": failures,
    }
