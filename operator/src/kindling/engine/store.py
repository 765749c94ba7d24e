"""What we know of the cluster: projections of custom resources and their children, indexed by owner.

Filled by watch events and by the answers to our own writes, of which the newer one stays. Not kopf's
indices: those drop objects on a handler's error, and know nothing of write-through.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from typing import NamedTuple

from kindling.kinds.contract import INSTANCE_LABEL, KIND_LABEL
from kindling.kube.resources import POD, SECRET, Object, Ref, ResourceType, ref_of

GRAVES = 10_000
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class Key(NamedTuple):
    """Names one custom resource; `kind` is its type's `label`."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.namespace}/{self.name}"


def key_of(ref: Ref) -> Key:
    return Key(ref.type.label, ref.namespace, ref.name)


def project(type: ResourceType, obj: Object) -> Object:
    """What is kept of an object: no managedFields, no copy of a spec in an annotation, no Secret's data."""
    meta = {k: v for k, v in obj["metadata"].items() if k != "managedFields"}
    if LAST_APPLIED in (meta.get("annotations") or {}):
        meta["annotations"] = {k: v for k, v in meta["annotations"].items() if k != LAST_APPLIED}
    if type == SECRET:
        return {"metadata": meta}
    if type == POD:
        return {"metadata": meta, "status": obj.get("status", {})}
    return {**obj, "metadata": meta}


class Store:
    """Objects by reference. Treat what it returns as frozen."""

    def __init__(self, resources: list[ResourceType]) -> None:
        self._resources = {type.label: type for type in resources}
        self._objects: dict[Ref, Object] = {}
        self._owner: dict[Ref, Key] = {}
        self._children: defaultdict[Key, set[Ref]] = defaultdict(set)
        self._by_uid: dict[str, Key] = {}
        self._graves: OrderedDict[Ref, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, ref: Ref) -> Object | None:
        return self._objects.get(ref)

    def resource(self, key: Key) -> Object | None:
        return self._objects.get(Ref(self._resources[key.kind], key.namespace, key.name))

    def children(self, key: Key) -> dict[Ref, Object]:
        return {ref: self._objects[ref] for ref in self._children.get(key, ())}

    def refs(self, type: ResourceType) -> set[Ref]:
        return {ref for ref in self._objects if ref.type == type}

    def put(self, type: ResourceType, obj: Object) -> set[Key]:
        """Take an object in, unless we know a newer state; returns the resources it concerns."""
        ref = ref_of(type, obj)
        known = self._objects.get(ref)
        version = _version(obj)
        if version <= self._graves.get(ref, -1) or (known is not None and version < _version(known)):
            return set()
        concerned = {self._owner[ref]} if ref in self._owner else set()
        self._forget(ref)
        self._objects[ref] = project(type, obj)
        if type.label in self._resources:
            key = key_of(ref)
            self._by_uid[obj["metadata"]["uid"]] = key
            return {key}
        owner = self._owner_of(ref, obj)
        if owner is not None:
            self._owner[ref] = owner
            self._children[owner].add(ref)
            concerned.add(owner)
        return concerned

    def drop(self, type: ResourceType, obj: Object) -> set[Key]:
        """Take an object out (deleted, or out of the watch's selection)."""
        ref = ref_of(type, obj)
        self._graves[ref] = _version(obj)
        self._graves.move_to_end(ref)
        while len(self._graves) > GRAVES:
            self._graves.popitem(last=False)
        known = self._objects.get(ref)
        if known is not None and known["metadata"]["uid"] != obj["metadata"]["uid"]:
            return set()  # a late word of an earlier object of this name
        concerned = {self._owner[ref]} if ref in self._owner else set()
        self._forget(ref)
        self._objects.pop(ref, None)
        return {key_of(ref)} if type.label in self._resources else concerned

    def _forget(self, ref: Ref) -> None:
        owner = self._owner.pop(ref, None)
        if owner is not None:
            self._children[owner].discard(ref)
            if not self._children[owner]:
                del self._children[owner]
        known = self._objects.get(ref)
        if known is not None:
            self._by_uid.pop(known["metadata"]["uid"], None)

    def _owner_of(self, ref: Ref, obj: Object) -> Key | None:
        meta = obj["metadata"]
        for owner in meta.get("ownerReferences") or ():
            if owner["uid"] in self._by_uid:
                return self._by_uid[owner["uid"]]
        labels = meta.get("labels") or {}
        kind, name = labels.get(KIND_LABEL), labels.get(INSTANCE_LABEL)
        return Key(kind, ref.namespace, name) if kind in self._resources and name else None


def _version(obj: Object) -> int:
    # Comparable as a number within one resource type: Kubernetes 1.35 says so, all servers do so.
    return int(obj["metadata"].get("resourceVersion") or 0)
