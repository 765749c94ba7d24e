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
from kindling.kinds.registry import kinds
from kindling.kube.resources import SECRET, Object, Ref

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
        "shutdownSeconds": 90,
    },
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
    "pulsarconsumer-exclusive": {
        "serverAddress": "pulsar+ssl://broker:6651",
        "topic": "cost$",
        "subscriptionName": "reader",
        "subscriptionType": "Exclusive",
        "replicas": 1,
    },
}


def made(name: str) -> str:
    """The children of a resource with that spec, as YAML; a Secret's values readable."""
    kind = KINDS[name.partition("-")[0]]
    meta = {"namespace": "ns", "name": "one", "uid": "cr-uid", "generation": 1}
    cr: Object = {"metadata": meta, "spec": SPECS[name], "status": {}}
    ours = {**secret(password="word", jwt="token"), "metadata": {"uid": "secret-uid"}}
    world = applied(kind, cr, replace(nothing(), objects={Ref(SECRET, "ns", "ours"): ours}))
    bodies = []
    for child in kind.desired(cr, world):
        body = {"apiVersion": child.type.api_version, "kind": child.type.kind, **child.body}
        if child.type == SECRET:
            body["data"] = {key: base64.b64decode(text).decode() for key, text in body["data"].items()}
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
