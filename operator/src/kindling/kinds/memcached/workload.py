"""The Deployment or StatefulSet NAME: `size` Pods that each run memcached, with `spec.exporter` an exporter
beside it, and with `spec.tls` or `spec.auth` the program that has it read its certificate and logins again.

What size is must stay out of the Pods' template: a change of it restarts them all, and a cache that
restarts is empty.
"""

from __future__ import annotations

from collections.abc import Sequence

from kindling.kinds import exporter, pod_security, pod_template, server_tls
from kindling.kinds.amounts import merged
from kindling.kinds.base import Child
from kindling.kinds.memcached import auth, tls
from kindling.kinds.memcached.service import PORT_NAME
from kindling.kinds.memcached.spec import Spec
from kindling.kinds.metadata import child_metadata, labels_of, selector_of
from kindling.kube.resources import DEPLOYMENT, STATEFUL_SET, Object, ResourceType

UID = 1001
FIRST_UNPRIVILEGED_PORT = 1024
PORT_ANNOTATION = "kindling.dev/port"
"""On each Pod, the port it listens on: while a changed port rolls out, they differ."""

WORKLOAD_LABEL = "kindling.dev/workload"
"""Of a StatefulSet's Pods, and in its selector, so that no Pod of a Deployment is taken for one of its."""
KNOWN_SECONDS = 3
"""How long a Pod is ready before the cluster's DNS has its name, and its network lets clients in, for sure.

A Pod of a StatefulSet counts from then on.
"""

DRAIN_SECONDS = 5
GRACE_SECONDS = 15

EXPORTER_PORT = 9150
PROGRAM = "memcached-exporter"
"""Of the exporters' image; `reload` is a command of it."""
RELOAD = "reload"
"""The container that has memcached read its files again."""
TLS_VOLUME, AUTH_VOLUME = "tls", "auth"


def command(spec: Spec) -> list[str]:
    """`memcached -m=64 -o modern -v` as it was meant: -m=64 reads as 0 and ends memcached at once."""
    arguments = ["memcached", f"--memory-limit={spec.memory}", "-o", "modern", "-v", f"--port={spec.port}"]
    if spec.connections is not None:
        arguments.append(f"--conn-limit={spec.connections}")
    if spec.threads is not None:
        arguments.append(f"--threads={spec.threads}")
    if spec.tls:
        arguments += tls.OPTIONS
    if spec.auth:
        arguments.append(f"--auth-file={auth.FILES}/{auth.USERS}")
    return arguments


def build(
    type: ResourceType,
    cr: Object,
    spec: Spec,
    *,
    image: str,
    exporters_image: str,
    pull_secrets: Sequence[str] = (),
    partition: int | None = None,
) -> Child:
    """With a `partition`, the Pods of smaller numbers stay of the template before."""
    own = {WORKLOAD_LABEL: STATEFUL_SET.kind} if spec.workload == STATEFUL_SET else {}
    selector = {"matchLabels": {**selector_of(type, cr), **own}}
    containers = [_memcached(spec, image=image)]
    if spec.tls or spec.auth:
        containers.append(_reload(spec, image=exporters_image))
    if exporter.is_enabled(cr):
        containers.append(_exporter(cr, spec, image=exporters_image))
    template = {
        "metadata": {
            "labels": {**labels_of(type, cr), **own},
            "annotations": _annotations(spec),
        },
        "spec": _pod(cr, spec, selector=selector, containers=containers, pull_secrets=pull_secrets),
    }
    return Child(
        type=spec.workload,
        body={
            "metadata": child_metadata(type, cr, name=cr["metadata"]["name"]),
            "spec": {
                "replicas": spec.size,
                **(_stateful(cr, partition) if spec.workload == STATEFUL_SET else {}),
                **(
                    {"progressDeadlineSeconds": spec.deadline}
                    if spec.deadline and spec.workload == DEPLOYMENT
                    else {}
                ),
                "selector": selector,
                **(_ROLLING if spec.workload == DEPLOYMENT else {}),
                "template": pod_template.applied(type, cr, template),
            },
        },
    )


_ROLLING: Object = {
    "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
}


def _stateful(cr: Object, partition: int | None) -> Object:
    held = {"rollingUpdate": {"partition": partition}} if partition is not None else {}
    return {
        "serviceName": cr["metadata"]["name"],
        "minReadySeconds": KNOWN_SECONDS,
        # In order, a Pod that never became ready would block the roll-out of its own remedy.
        "podManagementPolicy": "Parallel",
        "updateStrategy": {"type": "RollingUpdate", **held},
    }


def _annotations(spec: Spec) -> dict[str, str]:
    return {
        PORT_ANNOTATION: str(spec.port),
        **({server_tls.ANNOTATION: server_tls.ACTIVE} if spec.tls else {}),
        **({auth.ANNOTATION: auth.ACTIVE} if spec.auth else {}),
    }


def _pod(
    cr: Object, spec: Spec, *, selector: Object, containers: Sequence[Object], pull_secrets: Sequence[str]
) -> Object:
    volumes = _volumes(cr, spec)
    common = pod_security.pod(
        cr, uid=UID, volumes=bool(volumes), grace_seconds=GRACE_SECONDS, pull_secrets=pull_secrets
    )
    if spec.port < FIRST_UNPRIVILEGED_PORT:
        sysctl = {"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}
        common["securityContext"]["sysctls"] = [sysctl]
    return {
        **common,
        # By a signal to its process, memcached reads its logins again.
        **({"shareProcessNamespace": True} if spec.auth else {}),
        "topologySpreadConstraints": pod_security.spread(selector),
        "containers": [*containers],
        **({"volumes": volumes} if volumes else {}),
    }


def _volumes(cr: Object, spec: Spec) -> list[Object]:
    """Not optional: a Pod waits for them, where memcached without its files would not start."""
    made = []
    if spec.tls:
        items = (server_tls.CERTIFICATE, server_tls.KEY)
        made.append(_volume(TLS_VOLUME, server_tls.secret_name(cr), items))
    if spec.auth:
        made.append(_volume(AUTH_VOLUME, auth.secret_name(cr), (auth.USERS,)))
    return made


def _volume(name: str, secret: str, keys: Sequence[str]) -> Object:
    items = [{"key": key, "path": key} for key in keys]
    return {"name": name, "secret": {"secretName": secret, "defaultMode": 0o440, "items": items}}


def _mounts(spec: Spec, *, pair: bool) -> list[Object]:
    """Of a container that needs the logins, and with `pair` the certificate and its key too."""
    made: list[Object] = []
    if spec.tls and pair:
        made.append({"name": TLS_VOLUME, "mountPath": server_tls.FILES, "readOnly": True})
    if spec.auth:
        made.append({"name": AUTH_VOLUME, "mountPath": auth.FILES, "readOnly": True})
    return made


def _memcached(spec: Spec, *, image: str) -> Object:
    mounts = _mounts(spec, pair=True)
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
        **({"volumeMounts": mounts} if mounts else {}),
    }


def _exporter(cr: Object, spec: Spec, *, image: str) -> Object:
    command = [PROGRAM, f"--listen=:{EXPORTER_PORT}", *_way(spec)]
    mounts = _mounts(spec, pair=False)
    return exporter.container(cr, image=image, command=command, port=EXPORTER_PORT, mounts=mounts)


def _way(spec: Spec) -> list[str]:
    """How the programs beside memcached reach it: over the Pod's loopback, where nobody is to be verified."""
    return [
        f"--memcached=localhost:{spec.port}",
        *(["--tls"] if spec.tls else []),
        *([f"--users={auth.FILES}/{auth.USERS}"] if spec.auth else []),
    ]


def _reload(spec: Spec, *, image: str) -> Object:
    """The program that has memcached read its files again. Like the exporter, it has no probe."""
    files = [f"--certificate={server_tls.CERTIFICATE_FILE}", f"--key={server_tls.KEY_FILE}"]
    return {
        "name": RELOAD,
        **pod_security.image(image),
        "command": [PROGRAM, "reload", *_way(spec), *(files if spec.tls else [])],
        "resources": merged(None, cpu="5m", memory="16Mi", memory_limit="64Mi"),
        "securityContext": pod_security.CONTAINER,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": _mounts(spec, pair=True),
    }


def _probe(*, period: int, failures: int) -> Object:
    return {
        "tcpSocket": {"port": PORT_NAME},
        "periodSeconds": period,
        "timeoutSeconds": 1,
        "failureThreshold": failures,
    }
