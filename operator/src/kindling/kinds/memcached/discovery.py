"""Where the caches are, for clients that ask a server for it as they ask ElastiCache's: `spec.discovery`.

A Pod of a program of ours, `memcached-exporter discovery`, answers `config get cluster` with what the
ConfigMap NAME-servers lists, and keeps the same in each cache, as an item, for clients that ask those. No
other item goes through it, and it has no right in the cluster.
"""

from __future__ import annotations

from collections.abc import Sequence

from kindling.kinds import component, network, pod_security, reasons
from kindling.kinds.base import Child, Observed, Problem
from kindling.kinds.memcached import auth, servers, tls
from kindling.kinds.memcached.service import PORT_NAME
from kindling.kinds.memcached.spec import read
from kindling.kinds.memcached.workload import PROGRAM
from kindling.kinds.metadata import (
    child_metadata,
    component_selector,
    is_held,
    selector_of,
)
from kindling.kinds.pods import first_problem, of_component
from kindling.kinds.rollout import refused, rollout
from kindling.kube.resources import DEPLOYMENT, SERVICE, Object, Ref, ResourceType

FIELD = "discovery"
NAME = "discovery"
PORT = 11211
"""Where such clients look for it, whatever the port of the caches."""
UID = 65534
GRACE_SECONDS = 15
VOLUME = "servers"
DIRECTORY = "/servers"
RESOURCES: Object = {"requests": {"cpu": "1m", "memory": "16Mi"}, "limits": {"memory": "64Mi"}}


def is_enabled(cr: Object) -> bool:
    return read(cr).discovery


def name_of(cr: Object) -> str:
    return component.name_of(cr, NAME)


def endpoint(cr: Object) -> str:
    return f"{name_of(cr)}.{cr['metadata']['namespace']}.svc:{PORT}"


def validate(cr: Object) -> Problem | None:
    """Such clients log in nowhere, and verify the name of each cache by an address."""
    field = "spec.tls" if tls.is_enabled(cr) else "spec.auth" if auth.is_enabled(cr) else ""
    if not is_enabled(cr) or not field:
        return None
    message = (
        f"spec.{FIELD} cannot be used with {field}, because the list is given in plain text to whoever asks: "
        "leave one of the two out, and with TLS or a login read the list from a file (spec.binding)."
    )
    return Problem(reason=reasons.INVALID_SPEC, message=message)


def children(
    type: ResourceType,
    cr: Object,
    observed: Observed,
    *,
    port: int,
    listed: bool,
    image: str,
    operator_namespace: str,
    pull_secrets: Sequence[str],
) -> list[Child]:
    """From the first list on, as a Pod that mounts none would wait long after there is one.

    Without the field, the Service and the NetworkPolicy remain: no right to delete is needed.
    """
    to_caches = network.to_pods(port, selector_of(type, cr))
    policy = component.policy(
        type, cr, NAME, port=PORT_NAME, operator_namespace=operator_namespace, egress=[to_caches]
    )
    lasting = [_service(type, cr), policy]
    if not is_enabled(cr):
        return [child for child in lasting if is_held(cr, observed.objects.get(child.ref) or {})]
    return [*lasting, _deployment(type, cr, image=image, pull_secrets=pull_secrets)] if listed else lasting


def answers(cr: Object, observed: Observed) -> bool:
    return rollout(observed.objects.get(_deployment_ref(cr))).available > 0


def status(cr: Object, observed: Observed) -> Object:
    """status.discovery, while it answers."""
    here = is_enabled(cr) and answers(cr, observed)
    return {"discovery": {"endpoint": endpoint(cr)}} if here else {}


def pods(type: ResourceType, cr: Object, observed: Observed) -> list[Object]:
    """Its Pods that are not being deleted."""
    found = of_component(type, cr, observed, NAME)
    return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]


def problem(type: ResourceType, cr: Object, observed: Observed) -> Problem | None:
    """What keeps its Pod from running, where it is more than a matter of time."""
    found = first_problem(pods(type, cr, observed), now=observed.now, placed_by=cr)
    return found or refused(observed.objects.get(_deployment_ref(cr)))


def _deployment_ref(cr: Object) -> Ref:
    return Ref(DEPLOYMENT, cr["metadata"]["namespace"], name_of(cr))


def _deployment(type: ResourceType, cr: Object, *, image: str, pull_secrets: Sequence[str]) -> Child:
    items = [{"key": servers.JSON, "path": servers.JSON}]
    pod = {
        **pod_security.pod(cr, uid=UID, volumes=True, grace_seconds=GRACE_SECONDS, pull_secrets=pull_secrets),
        "containers": [_container(image)],
        "volumes": [{"name": VOLUME, "configMap": {"name": servers.name_of(cr), "items": items}}],
    }
    return component.deployment(type, cr, NAME, pod=pod)


def _container(image: str) -> Object:
    return {
        "name": NAME,
        **pod_security.image(image),
        "command": [PROGRAM, NAME, f"--listen=:{PORT}", f"--servers={DIRECTORY}/{servers.JSON}"],
        "ports": [{"name": PORT_NAME, "containerPort": PORT, "protocol": "TCP"}],
        "resources": RESOURCES,
        "securityContext": pod_security.CONTAINER,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": VOLUME, "mountPath": DIRECTORY, "readOnly": True}],
        # It listens once it has read a list.
        "readinessProbe": {
            "tcpSocket": {"port": PORT_NAME},
            "periodSeconds": 1,
            "timeoutSeconds": 1,
            "failureThreshold": 3,
        },
    }


def _service(type: ResourceType, cr: Object) -> Child:
    port = {"name": PORT_NAME, "port": PORT, "targetPort": PORT_NAME, "protocol": "TCP"}
    spec = {"type": "ClusterIP", "selector": component_selector(type, cr, NAME), "ports": [port]}
    return Child(type=SERVICE, body={"metadata": child_metadata(type, cr, name=name_of(cr)), "spec": spec})
