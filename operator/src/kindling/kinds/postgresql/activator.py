"""A server that is stopped because nobody used it starts for the next connection: `spec.wakeOnConnection`.

While it is stopped, the Service NAME leads to a Pod of a program of ours, `postgres-init activate`. It keeps
the first connections, says by being not ready that somebody waits, and passes them on, byte for byte, to the
Service NAME-server once that has a Pod. It has neither a password nor a certificate, and no right in the
cluster. Once the server is ready, the Service NAME leads to it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from kindling.kinds import component, network, pod_security, reasons
from kindling.kinds.base import Child, Observed, Problem
from kindling.kinds.metadata import (
    child_metadata,
    component_selector,
    is_held,
    selector_of,
)
from kindling.kinds.pods import of_component
from kindling.kinds.postgresql import hba, hibernation, idle
from kindling.kinds.postgresql.serve import READY, READY_PORT
from kindling.kinds.postgresql.service import PORT, PORTS
from kindling.kinds.postgresql.spec import Spec
from kindling.kinds.times import moment
from kindling.kube.resources import SERVICE, Object, Ref, ResourceType

NAME = idle.ACTIVATOR
UID = 999
GRACE_SECONDS = 30
"""How long a Pod that is replaced waits for the sessions that go through it."""
WAIT_SECONDS = 300
"""How long a connection waits for the server, which may have to be given a node and a volume first."""
RESOURCES: Object = {"requests": {"cpu": "1m", "memory": "16Mi"}, "limits": {"memory": "128Mi"}}
"""512 connections at most, each with two pipes of the kernel's."""


def deployment_name(cr: Object) -> str:
    return component.name_of(cr, NAME)


def server_name(cr: Object) -> str:
    """The Service that leads to the server alone."""
    return f"{cr['metadata']['name']}-server"


def validate(cr: Object) -> Problem | None:
    spec, message = cr.get("spec") or {}, ""
    if not spec.get(idle.WAKE_FIELD):
        return None
    if spec.get("hibernateAfter") is None:
        message = f"{idle.WAKE_PATH} has nothing to wake without {idle.PATH}: set that too, or leave it out."
    elif (number := hba.first_by_address(cr)) is not None:
        message = (
            f"{idle.WAKE_PATH} cannot be used with spec.hba[{number}] {hba.read(cr)[number]!r}, because the "
            "first sessions come from the activator's address: use the address all, or leave one of the two "
            "out."
        )
    return Problem(reason=reasons.INVALID_SPEC, message=message) if message else None


def takes_connections(cr: Object, now: datetime) -> bool:
    """Whether the Service NAME is to lead to it: the server is stopped, or on its way, and may be woken."""
    if not idle.wakes_on_connection(cr) or hibernation.is_asked(cr, now):
        return False
    return idle.is_stopped(cr, now) or idle.is_waking(cr)


def is_called(type: ResourceType, cr: Object, observed: Observed) -> bool:
    """Whether somebody waits for the server: one that was ready is ready no more, and runs on.

    By its containers' own condition, which a node that does not respond leaves as it is.
    """
    return idle.wakes_on_connection(cr) and any(map(_is_called, of_component(type, cr, observed, NAME)))


def is_listening(type: ResourceType, cr: Object, observed: Observed) -> bool:
    """Whether the next connection is taken."""
    return any(_container(pod).get("ready") is True for pod in of_component(type, cr, observed, NAME))


def selector(type: ResourceType, cr: Object) -> Object:
    """What the server's own Service and StatefulSet do not select."""
    return component_selector(type, cr, NAME)


def reached(database: Ref) -> Object:
    """The rule of a NetworkPolicy by which a connection gets to the server, or to what takes it meanwhile."""
    resource = {"metadata": {"name": database.name}}
    labels = (selector_of(database.type, resource), selector(database.type, resource))
    return network.to_pods(PORT, *labels)


def children(
    type: ResourceType, cr: Object, observed: Observed, wanted: Spec, *, image: str, operator_namespace: str
) -> list[Child]:
    """Without the field, those that were made for it remain, without a Pod: no right to delete is needed."""
    to_server = network.to_pods(PORT, selector_of(type, cr))
    found = [
        _deployment(type, cr, wanted, image=image),
        _service(type, cr),
        component.policy(
            type, cr, NAME, port=PORT, operator_namespace=operator_namespace, egress=[to_server]
        ),
    ]
    if idle.wakes_on_connection(cr):
        return found
    return [child for child in found if is_held(cr, observed.objects.get(child.ref) or {})]


def service(type: ResourceType, cr: Object, address: Child, *, now: datetime) -> Child:
    """The Service NAME, which leads to whoever takes connections now."""
    if not idle.wakes_on_connection(cr):
        return address
    here = takes_connections(cr, now)
    # While somebody waits it is not ready, and takes whoever comes beside them.
    spec = {**address.body["spec"], "publishNotReadyAddresses": here}
    if here:
        spec["selector"] = selector(type, cr)
    return replace(address, body={**address.body, "spec": spec})


def _deployment(type: ResourceType, cr: Object, wanted: Spec, *, image: str) -> Child:
    pod = {
        **pod_security.pod(cr, uid=UID, grace_seconds=GRACE_SECONDS, pull_secrets=wanted.pull_secrets),
        "containers": [_container_of(cr, image)],
    }
    return component.deployment(type, cr, NAME, pod=pod, replicas=1 if idle.wakes_on_connection(cr) else 0)


def _container_of(cr: Object, image: str) -> Object:
    host = f"{server_name(cr)}.{cr['metadata']['namespace']}.svc"
    return {
        "name": NAME,
        **pod_security.image(image),
        "command": [
            "/postgres-init",
            "activate",
            f"--port={PORT}",
            f"--server={host}:{PORT}",
            f"--ready={READY_PORT}",
            f"--seconds={WAIT_SECONDS}",
        ],
        "ports": [
            {"name": "postgresql", "containerPort": PORT, "protocol": "TCP"},
            {"name": READY, "containerPort": READY_PORT, "protocol": "TCP"},
        ],
        "resources": RESOURCES,
        "securityContext": pod_security.CONTAINER,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        # Not ready means that somebody waits: it is to be known at once.
        "readinessProbe": {
            "httpGet": {"path": "/", "port": READY},
            "periodSeconds": 1,
            "timeoutSeconds": 5,
            "failureThreshold": 1,
        },
    }


def _service(type: ResourceType, cr: Object) -> Child:
    spec = {"type": "ClusterIP", "selector": selector_of(type, cr), "ports": PORTS}
    return Child(
        type=SERVICE, body={"metadata": child_metadata(type, cr, name=server_name(cr)), "spec": spec}
    )


def _container(pod: Object) -> Object:
    statuses: Sequence[Object] = (pod.get("status") or {}).get("containerStatuses") or ()
    return next((item for item in statuses if item.get("name") == NAME), {})


def _is_called(pod: Object) -> bool:
    found, status = _container(pod), pod.get("status") or {}
    started = moment(((found.get("state") or {}).get("running") or {}).get("startedAt"))
    if found.get("ready") is not False or started is None or "deletionTimestamp" in pod["metadata"]:
        return False
    for condition in status.get("conditions") or ():
        if condition.get("type") == "ContainersReady" and condition.get("status") == "False":
            changed = moment(condition.get("lastTransitionTime"))
            return changed is not None and changed > started
    return False
