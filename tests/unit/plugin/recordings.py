"""What a real API server and operator said, as kubectl printed it, and resources that no test cluster has.

The recordings are of a namespace `shop` without nodes: its Pods are said to run, and no server answers.
"""

from __future__ import annotations

import json
from copy import deepcopy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kubectl_kindling import kinds
from kubectl_kindling.kinds import Type

RECORDED = Path(__file__).parent / "recorded"
NOW = datetime(2026, 11, 24, 22, 30, tzinfo=UTC)
TYPES = kinds.parse((RECORDED / "api-resources.txt").read_text())
FORBIDDEN = (RECORDED / "forbidden.txt").read_text()
PASSWORD = "canary-plain-2"
"""In the recorded spec.password of Postgresql mydb, and in what kubectl keeps of its manifest."""

Object = dict[str, Any]


def items(name: str) -> list[Object]:
    found: list[Object] = json.loads((RECORDED / f"{name}.json").read_text())["items"]
    return found


def type_of(resource: Object) -> Type:
    group = resource["apiVersion"].partition("/")[0]
    return next(each for each in TYPES if (each.group, each.kind) == (group, resource["kind"]))


def namespace() -> list[tuple[Type, Object]]:
    return [(type_of(each), each) for each in items("namespace")]


def resource(kind: str, name: str, group: str = "") -> Object:
    return next(
        deepcopy(each)
        for type, each in namespace()
        if type.kind == kind and each["metadata"]["name"] == name and group in ("", type.group)
    )


def mydb() -> Object:
    return resource("Postgresql", "mydb")


def condition(type: str, status: str, reason: str, message: str = "") -> Object:
    return {
        "type": type,
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": 5,
        "lastTransitionTime": "2026-11-24T21:30:00Z",
    }


def healthy() -> Object:
    """mydb as it is where its server runs, with the fields that the reference has."""
    found = mydb()
    found["status"] = {
        "pgPhase": "up",
        "version": "17.6",
        "image": "registry.example.com/postgres@sha256:" + "a" * 64,
        "active": {"kind": "Pod", "name": "mydb-0", "namespace": "shop"},
        "binding": {"name": "mydb-binding"},
        "observedGeneration": 5,
        "roles": [
            {
                "name": "app",
                "ready": True,
                "reason": "Applied",
                "binding": {"name": "mydb-role-app"},
                "reclaimPolicy": "Retain",
            }
        ],
        "databases": [
            {
                "name": "orders",
                "ready": False,
                "reason": "NameConflict",
                "message": "A database orders exists and is not the operator's.",
                "reclaimPolicy": "Retain",
            }
        ],
        "conditions": [
            condition("Ready", "True", "LoginSucceeded", "The default user can log in."),
            condition("Degraded", "False", "AsExpected", "No fault is known."),
            condition("RestartPending", "True", "OutsideWindow", "Another image waits for Sunday."),
        ],
    }
    return found


def backup(*runs: Object, **spec: Any) -> Object:
    """The recorded Backup `nightly` of mydb, with these runs."""
    found = resource("Backup", "nightly")
    found["spec"] |= spec
    found["status"] |= {
        "lastVerifiedTime": "2026-11-24T20:30:00Z",
        "dataLossWindow": "1m",
        "runs": list(runs),
    }
    return found


def run(name: str, action: str, phase: str, **more: str) -> Object:
    return {"name": name, "action": action, "phase": phase, "startedAt": "2026-11-24T03:00:00Z", **more}
