"""The StatefulSet NAME: one Pod, NAME-0, that runs PostgreSQL from our image or the official one.

What an image must offer is uid 999 with the name postgres, and PostgreSQL's programs on PATH: no entry
script, no shell and no other program of it is used. What has to be done around the server does a program
of our own (`initdb`).
"""

from __future__ import annotations

from kindling.kinds import exporter, pod_security, pod_template, server_tls
from kindling.kinds.base import Child
from kindling.kinds.metadata import child_metadata, labels_of, selector_of
from kindling.kinds.postgresql import postgres_exporter, serve, tls, volume
from kindling.kinds.postgresql.config import RULES_HASH, config_name
from kindling.kinds.postgresql.initdb import (
    CONFIG,
    INITDB,
    INSTALL,
    MOUNT,
    PGDATA,
    PROGRAM_MOUNT,
    SOCKETS,
    SUPERUSER_FILES,
)
from kindling.kinds.postgresql.secrets import superuser_name
from kindling.kinds.postgresql.service import PORT
from kindling.kinds.postgresql.spec import Spec
from kindling.kinds.postgresql.updates import Update
from kindling.kube.resources import STATEFUL_SET, Object, ResourceType

UID = 999
DEAD_SECONDS = 60
"""How long a server that no longer takes connections has to end: a checkpoint is not to be expected of it."""
CONFIG_HASH = "kindling.dev/config"
PARAMETERS_HASH = "kindling.dev/parameters"

SERVER = [
    "postgres", "-D", PGDATA,
    "-c", f"hba_file={CONFIG}/pg_hba.conf",
    "-c", f"ident_file={CONFIG}/pg_ident.conf",
    "-c", f"unix_socket_directories={SOCKETS}",
    "-c", "listen_addresses=*",
    "-c", f"port={PORT}",
    "-c", "password_encryption=scram-sha-256",
]  # fmt: skip
# Kubernetes stops with SIGTERM, on which postgres waits for its clients to leave (a smart shutdown). This
# has it drop them first (a fast one, which no later SIGTERM slows down); not waited for, because pg_ctl
# would die with the server and leave a failed hook. The checkpoint then has spec.shutdownSeconds.
STOP = ["pg_ctl", "stop", f"--pgdata={PGDATA}", "--mode=fast", "--no-wait"]


def template(
    type: ResourceType, cr: Object, spec: Spec, *, init_image: str, exporters_image: str, restart_token: str
) -> Object:
    """What the Pod is made from; `restart_token` is `restart.restart_token`."""
    annotations = {CONFIG_HASH: RULES_HASH, PARAMETERS_HASH: restart_token}
    if tls.is_enabled(cr):
        annotations[server_tls.ANNOTATION] = server_tls.ACTIVE
    own = {
        "metadata": {"labels": labels_of(type, cr), "annotations": annotations},
        "spec": _pod(cr, spec, init_image=init_image, exporters_image=exporters_image),
    }
    return pod_template.applied(type, cr, own)


def build(
    type: ResourceType, cr: Object, *, template: Object, update: Update, stopped: bool = False
) -> Child:
    meta = cr["metadata"]
    return Child(
        type=STATEFUL_SET,
        body={
            "metadata": {
                **child_metadata(type, cr, name=meta["name"]),
                "annotations": dict(update.annotations),
            },
            "spec": {
                "replicas": 0 if stopped else 1,
                "serviceName": meta["name"],
                "selector": {"matchLabels": selector_of(type, cr)},
                # In order, a Pod that never became ready would block the roll-out of its own remedy.
                "podManagementPolicy": "Parallel",
                "updateStrategy": update.strategy,
                "template": template,
            },
        },
    )


def _pod(cr: Object, spec: Spec, *, init_image: str, exporters_image: str) -> Object:
    encrypts, exports = tls.is_enabled(cr), exporter.is_enabled(cr)
    # Not optional: a Pod waits for it, where a server without its files would not start.
    files = {"name": "tls", "secret": {"secretName": server_tls.secret_name(cr), "defaultMode": 0o440}}
    return {
        **pod_security.pod(
            cr,
            uid=UID,
            volumes=True,
            grace_seconds=spec.shutdown_seconds,
            pull_secrets=spec.pull_secrets,
        ),
        "initContainers": [_install(spec, init_image), _initdb(spec)],
        "containers": [
            _postgres(cr, spec, encrypts=encrypts),
            *([postgres_exporter.container(cr, image=exporters_image)] if exports else []),
        ],
        "volumes": [
            {"name": "data", **volume.source(cr, spec)},
            {"name": "config", "configMap": {"name": config_name(cr)}},
            {"name": "superuser", "secret": {"secretName": superuser_name(cr), "defaultMode": 0o440}},
            {"name": "program", "emptyDir": {}},
            {"name": "tmp", "emptyDir": {}},
            {"name": "sockets", "emptyDir": {}},
            {"name": "shm", "emptyDir": {"medium": "Memory"}},
            *([files] if encrypts else []),
            *([postgres_exporter.volume(cr)] if exports else []),
        ],
    }


def _install(spec: Spec, image: str) -> Object:
    return {
        "name": "install",
        **pod_security.image(image),
        "command": INSTALL,
        # The server's, as in each container: with others, no Pod would be of the class Guaranteed.
        "resources": spec.resources,
        "securityContext": pod_security.CONTAINER,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": "program", "mountPath": PROGRAM_MOUNT}],
    }


def _initdb(spec: Spec) -> Object:
    return {
        "name": "initdb",
        **pod_security.image(spec.image),
        "command": INITDB,
        "resources": spec.resources,
        "securityContext": pod_security.CONTAINER,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": "data", "mountPath": MOUNT},
            {"name": "config", "mountPath": CONFIG, "readOnly": True},
            {"name": "superuser", "mountPath": SUPERUSER_FILES, "readOnly": True},
            {"name": "program", "mountPath": PROGRAM_MOUNT, "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},
            {"name": "shm", "mountPath": "/dev/shm"},
        ],
    }


def _postgres(cr: Object, spec: Spec, *, encrypts: bool) -> Object:
    files = {"name": "tls", "mountPath": server_tls.FILES, "readOnly": True}
    return {
        "name": "postgres",
        **pod_security.image(spec.image),
        "command": serve.command(
            cr, [*SERVER, *(tls.SETTINGS if encrypts else ())], seconds=spec.shutdown_seconds
        ),
        "env": [{"name": "PGDATA", "value": PGDATA}],
        "ports": [
            {"name": "postgresql", "containerPort": PORT, "protocol": "TCP"},
            {"name": serve.READY, "containerPort": serve.READY_PORT, "protocol": "TCP"},
        ],
        "resources": spec.resources,
        "securityContext": pod_security.CONTAINER,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "lifecycle": {"preStop": {"exec": {"command": STOP}}},
        # No startup probe: the kubelet asks by one on each full second since it saw the Pod, sees a container
        # run just after one, and lets readiness wait for the next. A server that recovers takes connections,
        # if only to refuse them, where pg_isready fails as for one that does not answer. So liveness is a
        # connection, and a recovery, which may take long and starts over when killed, has any time.
        "readinessProbe": _probe({"httpGet": serve.IS_READY}, period=5, failures=2),
        "livenessProbe": {
            **_probe({"tcpSocket": {"port": "postgresql"}}, period=10, failures=18),
            "terminationGracePeriodSeconds": DEAD_SECONDS,
        },
        "volumeMounts": [
            {"name": "data", "mountPath": MOUNT},
            {"name": "config", "mountPath": CONFIG, "readOnly": True},
            {"name": "superuser", "mountPath": SUPERUSER_FILES, "readOnly": True},
            {"name": "program", "mountPath": PROGRAM_MOUNT, "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},
            {"name": "sockets", "mountPath": SOCKETS},
            {"name": "shm", "mountPath": "/dev/shm"},
            *([files] if encrypts else []),
        ],
    }


def _probe(handler: Object, *, period: int, failures: int) -> Object:
    return {
        **handler,
        "periodSeconds": period,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }
