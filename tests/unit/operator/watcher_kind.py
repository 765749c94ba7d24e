"""A kind that looks at others' objects, for the tests of the store."""

from __future__ import annotations

from typing import Any

from kindling.engine.store import Key, Store
from kindling.kinds.base import WatchedObject
from kindling.kinds.metadata import INSTANCE_LABEL, KIND_LABEL, MANAGED_BY_LABEL
from kindling.kube.resources import POD, SECRET, Object, ResourceType

TYPE = ResourceType("example.com", "v1", "Watcher", "watchers")


def watched_objects(cr: Object) -> list[WatchedObject]:
    """A Pod of any namespace, or a Secret of its own."""
    spec = cr["spec"]
    looks = [WatchedObject(POD, name) for name in spec.get("pods", ())]
    return looks + [
        WatchedObject(SECRET, name, cr["metadata"]["namespace"]) for name in spec.get("secrets", ())
    ]


def new_store() -> Store:
    return Store([TYPE], watches=[POD, SECRET], watched_objects={TYPE.group_kind: watched_objects})


def obj(name: str, version: int, *, ns: str = "ns", uid: str = "", **rest: Any) -> Object:
    meta = {"namespace": ns, "name": name, "uid": uid or f"{ns}/{name}", "resourceVersion": str(version)}
    return {"metadata": {**meta, **rest.pop("metadata", {})}, **rest}


def watcher(name: str, version: int, *, ns: str = "ns", **spec: list[str]) -> Object:
    return obj(name, version, ns=ns, spec=spec)


def key(name: str, *, ns: str = "ns") -> Key:
    return Key(TYPE.group_kind, ns, name)


def child_labels(owner: str) -> Object:
    return {MANAGED_BY_LABEL: "kindling", KIND_LABEL: TYPE.group_kind, INSTANCE_LABEL: owner}
