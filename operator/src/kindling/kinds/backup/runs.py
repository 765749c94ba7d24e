"""The Jobs and CronJobs of a Backup, and the ConfigMap with what each run is asked for.

A run has no token, no right and no shell: its result is the Pod's termination message (`results`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from kindling.kinds import pod_security
from kindling.kinds.backup.archive import Facts
from kindling.kinds.backup.claims import Mount
from kindling.kinds.backup.repository import FILES
from kindling.kinds.backup.spec import Spec, Verify
from kindling.kinds.base import Child, Observed
from kindling.kinds.metadata import child_metadata, labels_of
from kindling.kinds.postgresql import spec as databases
from kindling.kinds.postgresql.initdb import MOUNT, SOCKETS
from kindling.kube.resources import CONFIG_MAP, CRON_JOB, JOB, Object, Ref, ResourceType

BACKUP, VERIFY, PREPARE, RESTORE, DELETE = "backup", "verify", "prepare", "restore", "delete"
UNDO, LOAD = "undo", "load"
"""What is asked for. A prepare run only makes the repository, so that the log has where to go; delete leaves
nothing of it; undo brings back what a restore in place has replaced; load restores aside, and from there
loads databases into a server.
"""

RUN_LABEL = "kindling.dev/run"
"""Of a Job and its Pods: which of these it is."""

REQUEST = "/etc/kindling/request"
TARGET = "/etc/kindling/target"
CONTAINER = "run"
UID = 999
SECONDS = 86400
"""A run that takes longer has failed."""
HISTORY = 2
STARTING_SECONDS = 3600
"""A scheduled run that could not begin for so long is left out."""
DEFAULT_SIZE = databases.DEFAULT_SIZE
SMALL: Object = {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "512Mi"}}


def config_name(cr: Object) -> str:
    return f"{cr['metadata']['name']}-backup"


def cron_name(cr: Object, action: str) -> str:
    return f"{cr['metadata']['name']}{'-verify' if action == VERIFY else ''}"


def job_name(cr: Object, action: str, number: int) -> str:
    """Of a run that is begun at once."""
    if action == DELETE:
        return f"{cr['metadata']['name']}-delete-{number}"
    return f"{cron_name(cr, action)}-now-{number}"


def config_map(
    type: ResourceType, cr: Object, spec: Spec, *, facts: Facts | None, wakes: bool, observed: Observed
) -> Child:
    """What is known of the server only while it answers stays as it was written last. `wakes`: the run starts
    one that is stopped, by a connection.
    """
    name, meta = config_name(cr), cr["metadata"]
    present = (observed.objects.get(Ref(CONFIG_MAP, meta["namespace"], name)) or {}).get("data") or {}
    source = source_of(facts) or _written(present.get(f"{VERIFY}.json"))
    backup = {
        "type": spec.kind,
        "fullEverySeconds": spec.full_every,
        "uid": meta["uid"],
        "target": f"{meta['namespace']}/{spec.database}",
        **({"wake": f"{spec.database}.{meta['namespace']}.svc"} if wakes else {}),
    }
    data = {
        f"{BACKUP}.json": _text(backup),
        f"{PREPARE}.json": _text({**backup, "type": "none"}),
        f"{DELETE}.json": _text({}),
        f"{VERIFY}.json": _text(
            {
                **checks(spec.verify),
                "uid": meta["uid"],
                **source,
            }
        ),
    }
    return Child(type=CONFIG_MAP, body={"metadata": child_metadata(type, cr, name=name), "data": data})


def checks(verify: Verify | None) -> Object:
    """What a verify run does beside restoring."""
    return {
        "amcheck": verify.amcheck if verify else "Heap",
        "queries": [dict(query) for query in verify.queries] if verify else [],
    }


def source_of(facts: Facts | None) -> Object:
    """The server's settings and timeline, as a run that replays its log needs them."""
    if facts is None:
        return {}
    return {"settings": dict(sorted(facts.settings.items())), "timeline": facts.timeline or None}


def _written(text: str | None) -> Object:
    try:
        found = json.loads(text or "")
        return {"settings": dict(found["settings"]), "timeline": found["timeline"]}
    except (ValueError, TypeError, LookupError):
        return {"settings": {}, "timeline": None}


def cron_job(
    type: ResourceType, cr: Object, spec: Spec, *, action: str, schedule: str, template: Object, suspend: bool
) -> Child:
    body = {
        "metadata": child_metadata(type, cr, name=cron_name(cr, action)),
        "spec": {
            "schedule": schedule,
            "timeZone": spec.time_zone,
            "suspend": suspend,
            "concurrencyPolicy": "Forbid",
            "startingDeadlineSeconds": STARTING_SECONDS,
            "successfulJobsHistoryLimit": HISTORY,
            "failedJobsHistoryLimit": HISTORY,
            "jobTemplate": {
                "metadata": {"labels": {**labels_of(type, cr), RUN_LABEL: action}},
                "spec": _job_spec(template),
            },
        },
    }
    return Child(type=CRON_JOB, body=body)


def job(
    type: ResourceType,
    cr: Object,
    *,
    action: str,
    name: str,
    template: Object,
    ended: bool = False,
    update: Object | None = None,
) -> Child:
    """Its template cannot be changed: it is created, and never applied. `update` is what of it can be."""
    metadata = child_metadata(type, cr, name=name)
    metadata["labels"] = {**metadata["labels"], RUN_LABEL: action}
    body = {"metadata": metadata, "spec": _job_spec(template)}
    return Child(type=JOB, body=body, create_only=True, ended=ended, update=update)


def _job_spec(template: Object) -> Object:
    # No time to live: with the Job its result would go, be it in the status or not.
    return {"backoffLimit": 0, "activeDeadlineSeconds": SECONDS, "template": template}


def template(
    type: ResourceType,
    cr: Object,
    *,
    action: str,
    image: str,
    pull_secrets: Sequence[str],
    config: str,
    secret: str | None,
    request: str,
    data: Object | None = None,
    target: Object | None = None,
    store: Mount | None = None,
    resources: Object = SMALL,
) -> Object:
    """The Pod of a run. `request` is the key in the ConfigMap `config`; `secret` has what opens the store, if
    it needs that; `data` is the volume source for a copy of the database, where the run makes one; `target`
    that of the files which open a server that databases are loaded into; `store` the one that is a volume.
    """
    program = BACKUP if action == PREPARE else action
    volumes: list[Object] = [
        {
            "name": "request",
            "configMap": {"name": config, "items": [{"key": request, "path": "request.json"}]},
        },
        {"name": "tmp", "emptyDir": {}},
    ]
    mounts: list[Object] = [
        {"name": "request", "mountPath": REQUEST, "readOnly": True},
        {"name": "tmp", "mountPath": "/tmp"},
    ]
    if secret is not None:
        volumes.insert(0, {"name": "files", "secret": {"secretName": secret, "defaultMode": 0o440}})
        mounts.insert(0, {"name": "files", "mountPath": FILES, "readOnly": True})
    if target is not None:
        volumes.append({"name": "target", **target})
        mounts.append({"name": "target", "mountPath": TARGET, "readOnly": True})
    if store is not None:
        volumes.append(store.volume)
        mounts.append(store.place)
    if data is not None:
        volumes += [
            {"name": "data", **data},
            {"name": "sockets", "emptyDir": {}},
            {"name": "shm", "emptyDir": {"medium": "Memory"}},
        ]
        mounts += [
            {"name": "data", "mountPath": MOUNT},
            {"name": "sockets", "mountPath": SOCKETS},
            {"name": "shm", "mountPath": "/dev/shm"},
        ]
    container = {
        "name": CONTAINER,
        **pod_security.image(image),
        "command": ["python3", "-m", "postgres_backup", program],
        "resources": resources,
        "securityContext": pod_security.CONTAINER,
        "volumeMounts": mounts,
    }
    placed = {} if store is None or store.affinity is None else {"affinity": store.affinity}
    pod = pod_security.pod({}, uid=UID, volumes=True, grace_seconds=30, pull_secrets=pull_secrets)
    return {
        "metadata": {"labels": {**labels_of(type, cr), RUN_LABEL: action}},
        "spec": {**pod, **placed, "restartPolicy": "Never", "containers": [container], "volumes": volumes},
    }


def scratch(verify: Verify | None, *, size: str) -> Object:
    """The volume source of a verify run: a claim that goes with the Pod, of the database's size."""
    claim: Object = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": (verify.size if verify else None) or size}},
    }
    if verify is not None and verify.storage_class:
        claim["storageClassName"] = verify.storage_class
    return {"ephemeral": {"volumeClaimTemplate": {"spec": claim}}}


def replaying(database: Object | None, given: Object | None) -> Object:
    """The resources of a run that starts a copy of the server: the server's own, unless said otherwise."""
    if given:
        return dict(given)
    return databases.resources_of(database or {})


def _text(value: Mapping[str, object]) -> str:
    return json.dumps(value, sort_keys=True)
