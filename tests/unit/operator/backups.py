"""Backups for tests: a resource, the database that it backs up, and what is there once it has begun."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from kindling.kinds.backup import Backup, archive, runs
from kindling.kinds.base import CachedResult, ExternalResult, Observed
from kindling.kinds.metadata import labels_of, owner_of
from kindling.kube.resources import JOB, POD, SECRET, Object, Ref, ResourceType

KIND = Backup(image="backup:17")
DATABASE = ResourceType("database.technotuesday.io", "v1", "Postgresql", "postgresqls")
NOW = datetime(2026, 1, 1, 0, 10, tzinfo=UTC)
IDENTIFIER = "7300000000000000001"
CREDENTIALS = {"accessKeyId": "key", "secretAccessKey": "secret"}
SPEC: Object = {
    "databaseRef": {"name": "db"},
    "targetURL": "s3://bucket/prefix",
    "endpointURL": "https://store.example:7070",
    "credentialsSecretRef": {"name": "store"},
}


def backup(
    *, name: str = "nightly", generation: int = 1, status: Object | None = None, **spec: Any
) -> Object:
    meta = {"namespace": "ns", "name": name, "uid": "cr-uid", "generation": generation}
    return {"metadata": meta, "spec": {**SPEC, **spec}, "status": status or {}}


def database(*, ready: str = "True", identifier: str | None = IDENTIFIER, **spec: Any) -> Object:
    status: Object = {
        "observedGeneration": 1,
        "conditions": [{"type": "Ready", "status": ready, "reason": "LoginSucceeded"}],
    }
    if identifier:
        status["systemIdentifier"] = identifier
    meta = {"namespace": "ns", "name": "db", "uid": "db-uid", "resourceVersion": "1", "generation": 1}
    return {"metadata": meta, "spec": spec, "status": status}


def secret(**values: str) -> Object:
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
    return {"metadata": {"uid": "secret-uid", "resourceVersion": "1"}, "data": encoded}


def secrets(**more: Object) -> dict[Ref, Object]:
    found = {"store": secret(**CREDENTIALS), "db-superuser": secret(password="super"), **more}
    return {Ref(SECRET, "ns", name): each for name, each in found.items()}


def says(*, at: datetime = NOW, **facts: Any) -> ExternalResult:
    """What a server says whose log reaches the store."""
    said = {
        "mode": "on",
        "now": at.isoformat(),
        "archived_until": "2026-01-01T00:09:30+00:00",
        "waiting": 0,
        "lsn": "0/3000060",
        "timeline": 1,
        "settings": {"max_connections": "100"},
        **facts,
    }
    return ExternalResult(ok=True, facts={"archive": said})


def observed(
    objects: dict[Ref, Object] | None = None,
    *,
    db: Object | None = None,
    answer: ExternalResult | None = None,
    now: datetime = NOW,
    **facts: Any,
) -> Observed:
    """All is there: database, Secrets, and the server's word unless it is said otherwise."""
    db = database() if db is None else db
    key = ("cr-uid", "db", "db-uid", int(now.timestamp()) // archive.EVERY_SECONDS)
    result = says(at=now, **facts) if answer is None else answer
    return Observed(
        objects=secrets() if objects is None else objects,
        now=now,
        entropy=b"e" * 32,
        watched={Ref(DATABASE, "ns", "db"): db} if db else {},
        results={archive.MEMBER: CachedResult(cache_key=key, result=result, at=now)},
    )


def result(action: str = "backup", *, ok: bool = True, **fields: Any) -> str:
    """A run's termination message."""
    said: Object = {
        "ok": ok,
        "action": action,
        "reason": "Succeeded",
        "message": "done",
        "startedAt": "2026-01-01T00:01:00Z",
        "stoppedAt": "2026-01-01T00:02:00Z",
    }
    if action == "backup" and ok:
        said |= {
            "type": "full",
            "label": "20260101-000100F",
            "beginLSN": "0/2000028",
            "endLSN": "0/2000120",
            "beginWal": "000000010000000000000002",
            "endWal": "000000010000000000000002",
            "databaseBytes": 1000,
            "storedBytes": 100,
            "first": "2026-01-01T00:02:00Z",
            "backups": 1,
        }
    elif ok:
        said |= {
            "label": "20260101-000100F",
            "reachedLSN": "0/3000060",
            "reachedTime": "2026-01-01T00:02:30Z",
            "seconds": {"download": 1.2, "replay": 2.0, "check": 3.4, "total": 6.6},
            "checks": ["pages", "amcheck"],
        }
    return json.dumps(said | fields)


def finished(
    cr: Object, name: str, *, action: str = "backup", how: str = "Complete", message: str | None = None
) -> dict[Ref, Object]:
    """A Job of the Backup that has ended, with its Pod."""
    labels = {**labels_of(KIND.type, cr), runs.RUN_LABEL: action}
    job = {
        "metadata": {
            "namespace": "ns",
            "name": name,
            "uid": f"{name}-uid",
            "labels": labels,
            "ownerReferences": [owner_of(KIND.type, cr)],
            "creationTimestamp": "2026-01-01T00:01:00Z",
        },
        "status": {
            "startTime": "2026-01-01T00:01:00Z",
            "conditions": [
                {"type": how, "status": "True", "lastTransitionTime": "2026-01-01T00:02:00Z"},
            ],
        },
    }
    state = {"terminated": {"exitCode": 0, "message": result(action) if message is None else message}}
    pod = {
        "metadata": {
            "namespace": "ns",
            "name": f"{name}-x",
            "uid": f"{name}-pod",
            "labels": {**labels, "batch.kubernetes.io/job-name": name},
            "creationTimestamp": "2026-01-01T00:01:00Z",
        },
        "status": {"containerStatuses": [{"name": runs.CONTAINER, "state": state}]},
    }
    return {Ref(JOB, "ns", name): job, Ref(POD, "ns", f"{name}-x"): pod}


def pem(key: Any = None) -> str:
    """A private key, of Ed25519 unless another is given."""
    key = key or Ed25519PrivateKey.from_private_bytes(b"k" * 32)
    return str(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode())
