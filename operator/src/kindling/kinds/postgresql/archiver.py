"""Continuous archiving: what a server has beside it once a Backup has made the Secret NAME-archive.

A second container that serves pgBackRest to the Backup's runs, and the parameters with which PostgreSQL hands
each segment of its log to pgBackRest. Without that Secret, nothing of it is in any child.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kindling.kinds import pod_security
from kindling.kinds.base import Child, Observed
from kindling.kinds.metadata import INSTANCE_LABEL, KIND_LABEL, selector_of
from kindling.kinds.network import NAMES, to_pods
from kindling.kinds.postgresql.initdb import MOUNT, SOCKETS
from kindling.kinds.postgresql.spec import pod_name
from kindling.kube.resources import NETWORK_POLICY, POD, SECRET, Object, Ref

BACKUP = "backup.database.technotuesday.io"
"""The kind whose resources make the Secret."""

STORE_PORT = "kindling.dev/store-port"
"""Annotation of the Secret: the port of the store, which the server is let out to; several with commas."""

STORE_CLAIM = "kindling.dev/store-claim"
"""Annotation of the Secret, instead of that: the claim of a store that is a folder on a volume."""
STORE = "/var/lib/kindling/store"
"""Where such a volume is mounted, in the server's container alone and in the runs."""

NAME = "archiver"
FILES = "/etc/kindling/archive"
CONFIG_FILE = "pgbackrest.conf"
PORT = 8432
STANZA = "main"
TIMEOUT_SECONDS = 45
"""How long a segment is written to before it is handed over, so that with its upload it is no minute."""

PARAMETERS: Mapping[str, str] = {
    "archive_command": f"pgbackrest --config={FILES}/{CONFIG_FILE} --stanza={STANZA} archive-push %p",
    "archive_mode": "on",
    "archive_timeout": f"{TIMEOUT_SECONDS}s",
}
INIT = ["tini", "--"]
"""Process 1 of the server's container.

pgBackRest uploads in a process that outlives `archive_command`. As process 1, PostgreSQL would be its parent,
and take its exit status, for any error of the store, for the crash of one of its own processes: it would drop
all sessions, and recover.
"""


class Archiver(NamedTuple):
    """The Backup that archives this server, and the ports of its store, or the claim that it is on."""

    backup: str
    store_ports: tuple[int, ...]
    claim: str | None = None

    @property
    def asked(self) -> bool | str:
        """What a user has said of the server's Pod with it."""
        return self.claim or True


def secret_name(cr: Object) -> str:
    return f"{cr['metadata']['name']}-archive"


def find(cr: Object, observed: Observed) -> Archiver | None:
    """None for a Secret that no Backup owns: anybody may make one of that name."""
    found = observed.watched.get(Ref(SECRET, cr["metadata"]["namespace"], secret_name(cr)))
    meta = (found or {}).get("metadata") or {}
    labels = meta.get("labels") or {}
    annotations = meta.get("annotations") or {}
    claim = str(annotations.get(STORE_CLAIM) or "") or None
    ports = [] if claim else str(annotations.get(STORE_PORT) or "").split(",")
    if labels.get(KIND_LABEL) != BACKUP or not labels.get(INSTANCE_LABEL) or "deletionTimestamp" in meta:
        return None
    if not all(port.isdecimal() and len(port) <= 5 and 0 < int(port) < 65536 for port in ports):
        return None
    if (cr.get("spec") or {}).get("image"):
        return None  # another image need not have pgBackRest
    return Archiver(backup=labels[INSTANCE_LABEL], store_ports=tuple(map(int, ports)), claim=claim)


def to_admit(cr: Object, observed: Observed) -> Archiver | None:
    """Whom the network is open for: also the archiver that the Pod still has, until it is gone. A server that
    stops hands over the last of its log, and waits for half a minute if it cannot.
    """
    if (found := find(cr, observed)) is not None:
        return found
    meta = cr["metadata"]
    pod = observed.objects.get(Ref(POD, meta["namespace"], pod_name(cr))) or {}
    containers = (pod.get("status") or {}).get("containerStatuses") or ()
    if not any(item.get("name") == NAME for item in containers):
        return None
    policy = observed.objects.get(Ref(NETWORK_POLICY, meta["namespace"], meta["name"])) or {}
    return _admitted(policy.get("spec") or {})


def _admitted(spec: Object) -> Archiver | None:
    """What `network` has put into a NetworkPolicy; None for another one."""
    try:
        *_, runs = spec["ingress"]
        _, store = spec["egress"]
        labels = runs["from"][0]["podSelector"]["matchLabels"]
        if labels[KIND_LABEL] != BACKUP:
            return None
        ports = tuple(int(each["port"]) for each in store["ports"])
        return Archiver(backup=str(labels[INSTANCE_LABEL]), store_ports=ports)
    except (LookupError, TypeError, ValueError):
        return None


def parameters(archiver: Archiver | None) -> dict[str, str]:
    return dict(PARAMETERS) if archiver is not None else {}


def pod(spec: Object, cr: Object, *, claim: str | None = None) -> Object:
    """The Pod's spec with the archiver in it: its container, its files, and those for `archive_command`,
    which alone writes to the volume of a `claim` that is the store: the archiver serves the server's own
    files.
    """
    server, *others = spec["containers"]
    files = {"name": "archive", "mountPath": FILES, "readOnly": True}
    archiver = {
        "name": NAME,
        "image": server["image"],
        "imagePullPolicy": server["imagePullPolicy"],
        "command": ["pgbackrest", f"--config={FILES}/{CONFIG_FILE}", "server"],
        "ports": [{"name": NAME, "containerPort": PORT, "protocol": "TCP"}],
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "512Mi"}},
        "securityContext": pod_security.CONTAINER,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": "data", "mountPath": MOUNT},
            files,
            {"name": "tmp", "mountPath": "/tmp"},
            {"name": "sockets", "mountPath": SOCKETS},
        ],
    }
    server = {
        **server,
        "command": [*INIT, *server["command"]],
        "volumeMounts": [*server["volumeMounts"], files],
    }
    volumes = [*spec["volumes"]]
    if claim is not None:
        server["volumeMounts"] = [*server["volumeMounts"], {"name": "store", "mountPath": STORE}]
        volumes.append({"name": "store", "persistentVolumeClaim": {"claimName": claim}})
    source = {"name": "archive", "secret": {"secretName": secret_name(cr), "defaultMode": 0o440}}
    return {
        **spec,
        "containers": [server, archiver, *others],
        "volumes": [*volumes, source],
    }


def service(child: Child) -> Child:
    """The Service with the archiver's port."""
    port = {"name": NAME, "port": PORT, "targetPort": NAME, "protocol": "TCP"}
    spec = child.body["spec"]
    return Child(type=child.type, body={**child.body, "spec": {**spec, "ports": [*spec["ports"], port]}})


def only_to_server(child: Child, database: Ref, *others: Object) -> Child:
    """The NetworkPolicy of runs that need the server's archiver alone, and what `others` let them to."""
    labels = selector_of(database.type, {"metadata": {"name": database.name}})
    egress = [NAMES, to_pods(PORT, labels), *others]
    spec = {**child.body["spec"], "policyTypes": ["Ingress", "Egress"], "egress": egress}
    return Child(type=child.type, body={**child.body, "spec": spec})


def network(child: Child, archiver: Archiver) -> Child:
    """The NetworkPolicy that lets the Backup's runs in, and the log out to the store."""
    runs = {"podSelector": {"matchLabels": {INSTANCE_LABEL: archiver.backup, KIND_LABEL: BACKUP}}}
    ingress = {"from": [runs], "ports": [{"port": PORT, "protocol": "TCP"}]}
    store = {"ports": [{"port": port, "protocol": "TCP"} for port in archiver.store_ports]}
    spec = child.body["spec"]
    egress = [NAMES, store] if archiver.store_ports else []
    opened = {**spec, "ingress": [*spec["ingress"], ingress], "egress": egress}
    return Child(type=child.type, body={**child.body, "spec": opened})
