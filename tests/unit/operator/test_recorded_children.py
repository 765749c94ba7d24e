"""What each kind makes, field by field, as it is recorded beside this file.

A changed template restarts every Pod when the operator is upgraded, so a change is to be seen and meant. One
that is: `python3 -m tests.unit.operator.test_recorded_children` records it, and the diff shows what it does.
"""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from kindling.kinds.base import Kind
from kindling.kinds.metadata import child_metadata
from kindling.kinds.registry import kinds
from kindling.kube.resources import CONFIG_MAP, SECRET, Object, Ref

from tests.unit.operator import placement
from tests.unit.operator.backups import DATABASE, database, pem
from tests.unit.operator.postgresqls import secret
from tests.unit.schema.worlds import SAMPLES, AnyImage, applied, nothing

FOLDER = Path(__file__).parent / "recorded"
KINDS: dict[str, Kind] = {
    kind.type.kind.lower(): kind
    for kind in kinds(AnyImage(), local_broker="broker.pulsar:6650")
    if kind.children
}
RESOURCES = {"requests": {"cpu": 1, "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}}
SPECS: dict[str, Object] = {
    **{name: SAMPLES[name]["spec"] for name in ("postgresql-technotuesday", "memcached")},
    "postgresql-full": {
        "defaultUser": "ada",
        "passwordSecretRef": {"name": "ours"},
        "version": "16",
        "image": "postgres:16",
        "storage": {"size": "10Gi", "storageClassName": "fast"},
        "resources": RESOURCES,
        "parameters": {"work_mem": "8MB", "search_path": "'quoted'"},
        "allowedFrom": [{"namespaceSelector": {}, "podSelector": {"matchLabels": {"role": "web"}}}],
        "deletionPolicy": "Delete",
        "deletionProtection": True,
        "shutdownSeconds": 90,
    },
    "postgresql-hba": {
        "defaultUser": "ada",
        "hba": ["host shop reporting 10.0.0.0/8 scram-sha-256", "host all reporting all reject"],
        "initSQL": [{"configMapRef": {"name": "first", "key": "a.sql"}}],
        "exporter": {"enabled": True},
        "tls": {"required": True},
    },
    "postgresql-certificates": {
        "roles": [
            {"name": "app", "login": True, "clientCertificate": {"enabled": True}},
            {
                "name": "careful",
                "login": True,
                "clientCertificate": {"enabled": True, "passwordRequired": True},
            },
        ],
    },
    "postgresql-wake": {"hibernateAfter": "30m", "wakeOnConnection": True},
    "postgresql-logging": {"logging": {"format": "JSON"}, "tls": {"enabled": False}},
    "postgresql-ephemeral": {"password": "given", "storage": {"ephemeral": True}},
    "memcached-full": {
        "size": 3,
        "containerPort": 80,
        "imagePullSecrets": [{"name": "registry"}],
        "memoryMB": 128,
        "maxConnections": 2048,
        "threads": 8,
        "resources": RESOURCES,
    },
    "memcached-discovery": {"size": 2, "workload": "StatefulSet", "discovery": True},
    "pulsarconsumer-full": {
        "serverAddress": "pulsar://localhost:6651,[::1]",
        "topic": "persistent://tenant/namespace/topic",
        "subscriptionName": "readers",
        "subscriptionType": "Key_Shared",
        "initialPosition": "Earliest",
        "replicas": 3,
        "image": "consumer:2",
        "auth": {"tokenSecretRef": {"name": "ours", "key": "jwt"}},
        "env": [{"name": "TZ", "value": "UTC"}],
        "resources": RESOURCES,
    },
    "backup-full": {
        "databaseRef": {"name": "db"},
        "type": "incremental",
        "fullEvery": "7d",
        "schedule": "0 3 * * *",
        "targetURL": "s3://bucket/prefix",
        "endpointURL": "https://store.example:7070",
        "credentialsSecretRef": {"name": "ours"},
        "encryption": {"passphraseSecretRef": {"name": "ours", "key": "word"}},
        "verify": {"schedule": "0 5 * * 0", "queries": [{"database": "a", "sql": "SELECT 1", "expect": "1"}]},
    },
    "backup-proof": {
        "databaseRef": {"name": "db"},
        "targetURL": "s3://bucket/prefix",
        "credentialsSecretRef": {"name": "ours"},
        "verify": {"signingKeySecretRef": {"name": "ours"}},
    },
    "restore-time": {
        "source": {"backupRef": {"name": "nightly"}},
        "recoveryTarget": {"targetTime": "2026-01-01T00:02:00Z"},
        "databaseRef": {"name": "db"},
    },
    "restore-databases": {
        "source": {"backupRef": {"name": "nightly"}},
        "databaseRef": {"name": "db"},
        "into": "Databases",
        "databases": [{"name": "shop"}, {"name": "stock", "as": "stock-before", "tables": ["public.item"]}],
    },
    "restore-verify": {
        "source": {"backupRef": {"name": "nightly"}},
        "recoveryTarget": {"targetLSN": "0/3000060"},
        "databaseRef": {"name": "db"},
        "into": "Verify",
        "verify": {"amcheck": "Indexes"},
    },
    "restore-store": {
        "source": {
            "targetURL": "s3://bucket/prefix/shop/db/7300000000000000001",
            "endpointURL": "https://store.example:7070",
            "credentialsSecretRef": {"name": "ours"},
            "encryption": {"passphraseSecretRef": {"name": "ours", "key": "word"}},
        },
        "databaseRef": {"name": "db"},
        "postgresql": {"defaultUser": "ada", "storage": {"size": "3Gi"}},
    },
    "restore-store-verify": {
        "source": {
            "targetURL": "s3://bucket/prefix/shop/db/7300000000000000001",
            "credentialsSecretRef": {"name": "ours"},
            "encryption": {"passphraseSecretRef": {"name": "ours", "key": "word"}},
        },
        "databaseRef": {"name": "db"},
        "into": "Verify",
        "verify": {
            "queries": [{"database": "a", "sql": "SELECT 1", "expect": "1"}],
            "storage": {"size": "3Gi", "storageClassName": "fast"},
            "resources": RESOURCES,
        },
    },
    "pulsarconsumer-exclusive": {
        "serverAddress": "pulsar+ssl://broker:6651",
        "topic": "cost$",
        "subscriptionName": "reader",
        "subscriptionType": "Exclusive",
        "replicas": 1,
    },
    "pulsarconsumer-python": {
        "serverAddress": "pulsar://broker:6650",
        "topic": "orders",
        "subscriptionName": "workers",
        "replicas": 2,
        "handler": {
            "python": {
                "configMapRef": {"name": "code", "key": "handle.py"},
                "handler": "orders:handle",
                "timeoutSeconds": 90,
                "concurrency": 4,
            }
        },
        "retry": {"maxDeliveries": 3, "backoff": {"initialSeconds": 2, "factor": 3, "maxSeconds": 30}},
        "deadLetter": {"topic": "orders-dead"},
        "output": {"topic": "orders-done"},
    },
    "pulsarconsumer-http": {
        "serverAddress": "pulsar://broker:6650",
        "topic": "orders",
        "subscriptionName": "workers",
        "replicas": 1,
        "handler": {"http": {"url": "http://orders.shop/", "path": "/events"}},
    },
    "pulsarconsumer-topics": {
        "serverAddress": "pulsar://broker:6650",
        "topics": ["orders", "persistent://shop/eu/invoices", "persistent://public/default/orders"],
        "subscriptionName": "workers",
        "replicas": 1,
    },
    "pulsarconsumer-pattern": {
        "serverAddress": "pulsar://broker:6650",
        "topicsPattern": "persistent://public/default/orders-(eu|us)[0-9]+",
        "subscriptionName": "workers",
        "replicas": 1,
    },
    "postgresql-placed": {"password": "given", "podTemplate": placement.FULL},
    "memcached-placed": {"podTemplate": placement.FULL},
    "pulsarconsumer-placed": {
        "serverAddress": "pulsar://broker:6650",
        "topic": "orders",
        "subscriptionName": "workers",
        "replicas": 1,
        "podTemplate": placement.FULL,
    },
    "postgresql-served": {"password": "given", "serviceTemplate": placement.SERVED},
    "postgresql-exporter": {
        "exporter": {"enabled": True, "resources": {"requests": {"memory": "256Mi"}}},
        "tls": {"required": True},
    },
    "memcached-exporter": {
        "containerPort": 11222,
        "exporter": {"enabled": True, "resources": {"limits": {"cpu": 1, "memory": "64Mi"}}},
    },
    "memcached-secured": {
        "size": 2,
        "binding": "ConfigMap",
        "tls": {"enabled": True},
        "auth": {"enabled": True, "passwordSecretRef": {"name": "ours"}},
        "exporter": {"enabled": True},
    },
    "memcached-rollout": {
        "size": 3,
        "workload": "StatefulSet",
        "rollout": {"minHitRatioPercent": 60},
    },
    "memcached-stateful": {"size": 2, "workload": "StatefulSet", "progressDeadlineSeconds": 60},
    "memcached-auth": {"auth": {"enabled": True}},
    "memcached-tls": {"tls": {"enabled": True}},
    "memcached-served": {"serviceTemplate": {"metadata": placement.SERVED["metadata"]}},
}


STATUS: dict[str, Object] = {
    "backup-full": {
        "attempts": {
            "backup": {"number": 1, "request": "backup", "result": "Started", "at": "", "inputs": ""}
        }
    },
    "backup-proof": {
        "lastVerifiedTime": "2026-01-01T00:05:00Z",
        "verified": {"backupId": "20260101-000100F", "reachedLSN": "0/3000060", "checks": ["pages"]},
    },
    "restore-time": {
        "phase": "Restoring",
        "attempt": 1,
        "source": {"systemIdentifier": "73", "defaultUser": "ada", "size": "2Gi", "timeline": 1},
    },
    "restore-databases": {
        "phase": "Restoring",
        "attempt": 1,
        "source": {"systemIdentifier": "73", "defaultUser": "ada", "size": "2Gi", "timeline": 1},
    },
    "restore-verify": {
        "phase": "Restoring",
        "attempt": 1,
        "source": {"systemIdentifier": "73", "defaultUser": "ada", "size": "2Gi", "timeline": 1},
    },
    "restore-store": {
        "phase": "Restoring",
        "attempt": 1,
        "source": {"systemIdentifier": "7300000000000000001", "defaultUser": "ada"},
    },
    "restore-store-verify": {
        "phase": "Restoring",
        "attempt": 1,
        "source": {"systemIdentifier": "7300000000000000001"},
    },
}
"""What is on record already."""


def readable(value: bytes) -> str:
    """A Secret's value; of a certificate or a key, which this machine's OpenSSL writes, what it is."""
    first = value.partition(b"\n")[0].decode()
    return f"{first} and so on" if first.startswith("-----BEGIN ") else value.decode()


def made(name: str) -> str:
    """The children of a resource with that spec, as YAML; a Secret's values readable."""
    kind = KINDS[name.partition("-")[0]]
    meta = {"namespace": "ns", "name": "one", "uid": "cr-uid", "generation": 1}
    cr: Object = {"metadata": meta, "spec": SPECS[name], "status": STATUS.get(name, {})}
    values = {
        "password": "word",
        "jwt": "token",
        "accessKeyId": "id",
        "secretAccessKey": "key",
        "word": "open",
        "signingKey": pem(),
    }
    ours = {**secret(**values), "metadata": {"uid": "secret-uid"}}
    code = {"metadata": {"uid": "code-uid"}, "data": {"handle.py": "def handle(message): ...\n"}}
    there = {Ref(SECRET, "ns", "ours"): ours, Ref(CONFIG_MAP, "ns", "code"): code}
    if name.startswith("backup"):  # the pair of this machine's OpenSSL is not recorded
        pair = {
            **secret(**{"tls.crt": "certificate", "tls.key": "key"}),
            "metadata": child_metadata(kind.type, cr, name="one-tls"),
        }
        pair["metadata"] |= {"uid": "tls-uid", "resourceVersion": "1"}
        there[Ref(SECRET, "ns", "one-tls")] = pair
    watched = {Ref(DATABASE, "ns", "db"): database()} if name.startswith("backup") else {}
    world = applied(kind, cr, replace(nothing(), objects=there, watched=watched))
    bodies = []
    for child in kind.desired(cr, world):
        body = {"apiVersion": child.type.api_version, "kind": child.type.kind, **child.body}
        if child.type == SECRET and "data" in body:
            body["data"] = {key: readable(base64.b64decode(text)) for key, text in body["data"].items()}
        bodies.append(json.loads(json.dumps(body)))  # what is one object here is written out each time
    return yaml.safe_dump_all(bodies, sort_keys=False, default_flow_style=None, width=110)


@pytest.mark.parametrize("name", SPECS)
def test_children_are_as_recorded(name: str) -> None:
    assert made(name) == (FOLDER / f"{name}.yaml").read_text()


def test_nothing_else_is_recorded() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(SPECS)


if __name__ == "__main__":
    for each in SPECS:
        (FOLDER / f"{each}.yaml").write_text(made(each))
