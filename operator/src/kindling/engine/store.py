"""The cache: custom resources, their children and watched objects, without unused fields, indexed by owner.

It is filled by watch events and by the responses to our own writes; the newer one stays. Kopf's indices drop
objects on a handler's error and have no write-through, so they are not used.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from kindling.engine.compression import Compressor, decompress
from kindling.engine.watched_objects import WatchedObjects, discard
from kindling.kinds.base import WatchedObject
from kindling.kinds.metadata import KIND_LABEL, MANAGED_BY_LABEL, MANAGER, named_in
from kindling.kube.resources import (
    POD,
    SECRET,
    SEEN_WHOLE,
    Object,
    Ref,
    ResourceType,
    ref_of,
    version_of,
)

TOMBSTONES = 10_000
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class Key(NamedTuple):
    """Names one custom resource; `kind` is its type's `group_kind`."""

    group_kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.group_kind}/{self.namespace}/{self.name}"


def key_of(ref: Ref) -> Key:
    return Key(ref.type.group_kind, ref.namespace, ref.name)


class Entry(NamedTuple):
    """A cached object: compressed, with a dictionary that it shares with others."""

    version: int
    uid: str
    compressed: bytes
    dictionary: bytes

    @property
    def object(self) -> Object:
        return decompress(self.compressed, self.dictionary)


def transform(type: ResourceType, obj: Object, *, metadata_only: bool) -> Object:
    """What is kept of an object: no managedFields, no copy of a spec in an annotation, no Secret's data.

    If `metadata_only`, who it is and no more: it may be any Pod of the cluster.
    """
    if metadata_only and type not in SEEN_WHOLE:
        kept = ("namespace", "name", "uid", "resourceVersion")
        return {"metadata": {name: obj["metadata"][name] for name in kept if name in obj["metadata"]}}
    meta = {k: v for k, v in obj["metadata"].items() if k != "managedFields"}
    if LAST_APPLIED in (meta.get("annotations") or {}):
        meta["annotations"] = {k: v for k, v in meta["annotations"].items() if k != LAST_APPLIED}
    if type == SECRET:
        return {"metadata": meta}
    if type == POD:
        return {"metadata": meta, "status": obj.get("status", {})}
    return {**obj, "metadata": meta}


class Store:
    """Objects by reference. What it returns is a new copy each time."""

    def __init__(
        self,
        resources: list[ResourceType],
        *,
        watches: Sequence[ResourceType] = (),
        watched_objects: Mapping[str, Callable[[Object], Sequence[WatchedObject]]] | None = None,
        resource_changed: Callable[[Key, Object | None], None] = lambda key, cr: None,
    ) -> None:
        """`watches`: types of which objects of other owners are cached too; `watched_objects`, by type: those
        that a resource watches. `resource_changed` is called with each resource that is taken in, and with
        None for one that is taken out.
        """
        self._resource_changed = resource_changed
        self._watches = frozenset(watches)
        self._watched_objects = watched_objects or {}
        self._watched: WatchedObjects[Key] = WatchedObjects(cached=self.refs)
        self._unsynced: set[ResourceType] = set()
        self._resources = {type.group_kind: type for type in resources}
        self._compressors: defaultdict[tuple[ResourceType, bool], Compressor] = defaultdict(Compressor)
        self._objects: dict[Ref, Entry] = {}
        self._owner: dict[Ref, Key] = {}
        self._children: defaultdict[Key, set[Ref]] = defaultdict(set)
        self._by_uid: dict[str, Key] = {}
        self._tombstones: OrderedDict[Ref, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._objects)

    def versions(self) -> dict[str, str]:
        """Which version is known of each object, and nothing of what is in it."""
        return {
            f"{ref.type.group_kind}/{ref.namespace}/{ref.name}": str(entry.version)
            for ref, entry in self._objects.items()
        }

    def get(self, ref: Ref) -> Object | None:
        entry = self._objects.get(ref)
        return None if entry is None else entry.object

    def entry(self, ref: Ref) -> Entry | None:
        """The cached entry: the same one until a newer version comes."""
        return self._objects.get(ref)

    def resource(self, key: Key) -> Object | None:
        return self.get(Ref(self._resources[key.group_kind], key.namespace, key.name))

    def was_deleted(self, ref: Ref) -> bool:
        """Whether the deletion of an object of this name was seen, and not too long ago."""
        return ref in self._tombstones

    def children(self, key: Key) -> dict[Ref, Object]:
        return {ref: self._objects[ref].object for ref in self._children.get(key, ())}

    def watched_by(self, key: Key) -> dict[Ref, Object]:
        """The objects that this resource watches, as far as they exist."""
        return {ref: self._objects[ref].object for ref in self._watched.refs(key, cached=self._objects)}

    def is_watched(self, type: ResourceType) -> bool:
        """Whether any resource watches unowned objects of this type."""
        return self._watched.is_watched(type)

    def on_watched_types_changed(self, do: Callable[[], None]) -> None:
        """Called when the first resource watches unowned objects of a type, and when the last one stops."""
        self._watched.types_changed = do

    def open(self, type: ResourceType) -> set[Key]:
        """Others' objects of this type are known from now on; returns the resources that look at some."""
        self._unsynced.discard(type)
        return self._watched.watchers_of_type(type)

    def close(self, type: ResourceType) -> None:
        """Others' objects of this type are not watched (any more): forget them."""
        self._unsynced.add(type)
        for ref in self.refs(type):
            if not is_managed(self._objects[ref].object):
                self._unindex(ref)
                del self._objects[ref]
                self._watched.forget_name(ref)

    def waits_for_list(self, key: Key) -> bool:
        """Whether this resource looks at objects that are not listed yet, of which nothing can be said."""
        return any(watched.type in self._unsynced for watched in self._watched.of(key))

    def leave_selection(self, type: ResourceType, obj: Object) -> set[Key]:
        """Take out what is ours and left a watch by our label, while others' are watched too.

        It may be there still, without the label: no tombstone, so that the other watch can add it.
        """
        ref = ref_of(type, obj)
        known = self._objects.get(ref)
        if known is None or version_of(obj) < known.version or not is_managed(known.object):
            return set()
        tombstones = self._tombstones.get(ref)
        concerned = self.delete(type, obj)
        if tombstones is None:
            self._tombstones.pop(ref, None)
        else:
            self._tombstones[ref] = tombstones
        return concerned

    def refs(self, type: ResourceType) -> set[Ref]:
        return {ref for ref in self._objects if ref.type == type}

    def handle_event(self, type: ResourceType, event: str | None, obj: Object) -> set[Key]:
        """Handle a watch event, or an object of kopf's list (event None); returns whom it concerns."""
        return self.delete(type, obj) if event == "DELETED" else self.upsert(type, obj)

    def upsert(self, type: ResourceType, obj: Object) -> set[Key]:
        """Take an object in, unless we know a newer state; returns the resources it concerns."""
        ref = ref_of(type, obj)
        known = self._objects.get(ref)
        version = version_of(obj)
        if version <= self._tombstones.get(ref, -1) or (known is not None and version < known.version):
            return set()
        if known is not None and version == known.version and ref in self._owner:
            # The event of our own write: its reconciliation knows it. (A status may need more.) Another
            # resource that watches the object learns of it here alone.
            return self._watched.watchers(ref) - {self._owner[ref]} if type in self._watches else set()
        concerned = {self._owner[ref]} if ref in self._owner else set()
        self._unindex(ref)
        metadata_only = (
            type in self._watches and type.group_kind not in self._resources and not is_managed(obj)
        )
        compressed, dictionary = self._compressors[type, metadata_only].compress(
            transform(type, obj, metadata_only=metadata_only)
        )
        self._objects[ref] = Entry(version, obj["metadata"]["uid"], compressed, dictionary)
        if type in self._watches:
            self._watched.add_name(ref)
            concerned |= self._watched.watchers(ref)
        if type.group_kind in self._resources:
            key = key_of(ref)
            self._resource_changed(key, obj)
            self._by_uid[obj["metadata"]["uid"]] = key
            self._watched.set(
                key,
                self._watched_objects[type.group_kind](obj)
                if type.group_kind in self._watched_objects
                else (),
            )
            return concerned | {key}
        # Of the bare too little is kept to be anybody's child; a watch by label would not show it either.
        owner = None if metadata_only else self._owner_of(ref, obj)
        if owner is not None:
            self._owner[ref] = owner
            self._children[owner].add(ref)
            concerned.add(owner)
        return concerned

    def delete(self, type: ResourceType, obj: Object) -> set[Key]:
        """Take an object out (deleted, or out of the watch's selection)."""
        ref = ref_of(type, obj)
        version = version_of(obj)
        self._tombstones[ref] = max(version, self._tombstones.get(ref, version))
        self._tombstones.move_to_end(ref)
        while len(self._tombstones) > TOMBSTONES:
            self._tombstones.popitem(last=False)
        known = self._objects.get(ref)
        if known is not None and known.uid != obj["metadata"]["uid"] and version < known.version:
            return set()  # a late word of an earlier object of this name
        concerned = {self._owner[ref]} if ref in self._owner else set()
        self._unindex(ref)
        self._objects.pop(ref, None)
        if type in self._watches:
            self._watched.forget_name(ref)
            concerned |= self._watched.watchers(ref)
        if type.group_kind in self._resources:
            self._resource_changed(key_of(ref), None)
            self._watched.set(key_of(ref), ())
            concerned.add(key_of(ref))
        return concerned

    def _unindex(self, ref: Ref) -> None:
        owner = self._owner.pop(ref, None)
        if owner is not None:
            discard(self._children, owner, ref)
        known = self._objects.get(ref)
        if known is not None:
            self._by_uid.pop(known.uid, None)

    def _owner_of(self, ref: Ref, obj: Object) -> Key | None:
        meta = obj["metadata"]
        for owner in meta.get("ownerReferences") or ():
            if owner["uid"] in self._by_uid:
                return self._by_uid[owner["uid"]]
        labels = meta.get("labels") or {}
        kind, name = labels.get(KIND_LABEL), named_in(labels)
        return Key(kind, ref.namespace, name) if kind in self._resources and name else None


def is_managed(obj: Object) -> bool:
    """Whether it has our label."""
    return (obj["metadata"].get("labels") or {}).get(MANAGED_BY_LABEL) == MANAGER
