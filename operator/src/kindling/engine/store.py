"""What we know of the cluster: projections of custom resources and their children, indexed by owner.

Filled by watch events and by the answers to our own writes, of which the newer one stays. Not kopf's
indices: those drop objects on a handler's error, and know nothing of write-through.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from kindling.engine.packing import Packer, unpack
from kindling.kinds.contract import KIND_LABEL, MANAGED_BY_LABEL, MANAGER, Sought, named_in
from kindling.kube.resources import POD, SECRET, Object, Ref, ResourceType, ref_of, version_of

K = TypeVar("K")
V = TypeVar("V")

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


class Held(NamedTuple):
    """An object as it is kept: packed, by a sample that it shares with others."""

    version: int
    uid: str
    packed: bytes
    sample: bytes

    @property
    def object(self) -> Object:
        return unpack(self.packed, self.sample)


def project(type: ResourceType, obj: Object, *, bare: bool) -> Object:
    """What is kept of an object: no managedFields, no copy of a spec in an annotation, no Secret's data.

    If `bare`, who it is and no more: it may be any Pod of the cluster.
    """
    if bare:
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
    """Objects by reference. What it returns is a copy, made anew each time."""

    def __init__(
        self,
        resources: list[ResourceType],
        *,
        sights: Sequence[ResourceType] = (),
        seeks: Mapping[str, Callable[[Object], Sequence[Sought]]] | None = None,
    ) -> None:
        """`sights`: types of which others' objects are kept too; `seeks`: whom a type's resource looks at."""
        self._sights = frozenset(sights)
        self._seeks = seeks or {}
        self._seekers: defaultdict[Sought, set[Key]] = defaultdict(set)
        self._sought: dict[Key, tuple[Sought, ...]] = {}
        self._looks: Counter[ResourceType] = Counter()
        self._unlisted: set[ResourceType] = set()
        self.turned: Callable[[], None] = lambda: None
        """Called when resources begin to look at others' objects of a type, or cease to."""
        self._named: defaultdict[tuple[ResourceType, str], set[Ref]] = defaultdict(set)
        self._resources = {type.label: type for type in resources}
        self._packers: defaultdict[tuple[ResourceType, bool], Packer] = defaultdict(Packer)
        self._objects: dict[Ref, Held] = {}
        self._owner: dict[Ref, Key] = {}
        self._children: defaultdict[Key, set[Ref]] = defaultdict(set)
        self._by_uid: dict[str, Key] = {}
        self._graves: OrderedDict[Ref, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._objects)

    def versions(self) -> dict[str, str]:
        """Which version is known of each object, and nothing of what is in it."""
        return {
            f"{ref.type.label}/{ref.namespace}/{ref.name}": str(held.version)
            for ref, held in self._objects.items()
        }

    def get(self, ref: Ref) -> Object | None:
        held = self._objects.get(ref)
        return None if held is None else held.object

    def held(self, ref: Ref) -> Held | None:
        """As it is kept: the same thing for as long as nothing is heard of it."""
        return self._objects.get(ref)

    def resource(self, key: Key) -> Object | None:
        return self.get(Ref(self._resources[key.kind], key.namespace, key.name))

    def children(self, key: Key) -> dict[Ref, Object]:
        return {ref: self._objects[ref].object for ref in self._children.get(key, ())}

    def sought(self, key: Key) -> dict[Ref, Object]:
        """What is there of the objects that this resource looks at."""
        found: dict[Ref, Object] = {}
        for look in self._sought.get(key, ()):
            for ref in self._named.get((look.type, look.name), ()):
                if look.namespace in (None, ref.namespace):
                    found[ref] = self._objects[ref].object
        return found

    def looked_for(self, type: ResourceType) -> bool:
        """Whether any resource looks at others' objects of this type."""
        return self._looks[type] > 0

    def open(self, type: ResourceType) -> set[Key]:
        """Others' objects of this type are known from now on; returns the resources that look at some."""
        self._unlisted.discard(type)
        return {key for look, keys in self._seekers.items() if look.type == type for key in keys}

    def close(self, type: ResourceType) -> None:
        """Others' objects of this type are not watched (any more): forget them."""
        self._unlisted.add(type)
        for ref in self.refs(type):
            if not ours(self._objects[ref].object):
                self._forget(ref)
                del self._objects[ref]
                _discard(self._named, (type, ref.name), ref)

    def waits(self, key: Key) -> bool:
        """Whether this resource looks at objects that are not listed yet, of which nothing can be said."""
        return any(look.type in self._unlisted for look in self._sought.get(key, ()))

    def leave(self, type: ResourceType, obj: Object) -> set[Key]:
        """Take out what is ours and left a watch by our label, while others' are watched too.

        It may be there still, without the label: no grave, so that the other watch can say so.
        """
        ref = ref_of(type, obj)
        known = self._objects.get(ref)
        if known is None or version_of(obj) < known.version or not ours(known.object):
            return set()
        graves = self._graves.get(ref)
        concerned = self.drop(type, obj)
        if graves is None:
            self._graves.pop(ref, None)
        else:
            self._graves[ref] = graves
        return concerned

    def refs(self, type: ResourceType) -> set[Ref]:
        return {ref for ref in self._objects if ref.type == type}

    def take_in(self, type: ResourceType, event: str | None, obj: Object) -> set[Key]:
        """What a watch told, or kopf of what it listed (event None); returns the resources it concerns."""
        return self.drop(type, obj) if event == "DELETED" else self.put(type, obj)

    def put(self, type: ResourceType, obj: Object) -> set[Key]:
        """Take an object in, unless we know a newer state; returns the resources it concerns."""
        ref = ref_of(type, obj)
        known = self._objects.get(ref)
        version = version_of(obj)
        if version <= self._graves.get(ref, -1) or (known is not None and version < known.version):
            return set()
        if known is not None and version == known.version and ref in self._owner:
            # The echo of what we wrote ourselves: who wrote it knows. (A status may ask for more.)
            return set()
        concerned = {self._owner[ref]} if ref in self._owner else set()
        self._forget(ref)
        bare = type in self._sights and type.label not in self._resources and not ours(obj)
        packed, sample = self._packers[type, bare].pack(project(type, obj, bare=bare))
        self._objects[ref] = Held(version, obj["metadata"]["uid"], packed, sample)
        if type in self._sights:
            self._named[type, ref.name].add(ref)
            concerned |= self._seekers_of(ref)
        if type.label in self._resources:
            key = key_of(ref)
            self._by_uid[obj["metadata"]["uid"]] = key
            self._look(key, self._seeks[type.label](obj) if type.label in self._seeks else ())
            return concerned | {key}
        # Of the bare too little is kept to be anybody's child; a watch by label would not show it either.
        owner = None if bare else self._owner_of(ref, obj)
        if owner is not None:
            self._owner[ref] = owner
            self._children[owner].add(ref)
            concerned.add(owner)
        return concerned

    def drop(self, type: ResourceType, obj: Object) -> set[Key]:
        """Take an object out (deleted, or out of the watch's selection)."""
        ref = ref_of(type, obj)
        version = version_of(obj)
        self._graves[ref] = max(version, self._graves.get(ref, version))
        self._graves.move_to_end(ref)
        while len(self._graves) > GRAVES:
            self._graves.popitem(last=False)
        known = self._objects.get(ref)
        if known is not None and known.uid != obj["metadata"]["uid"] and version < known.version:
            return set()  # a late word of an earlier object of this name
        concerned = {self._owner[ref]} if ref in self._owner else set()
        self._forget(ref)
        self._objects.pop(ref, None)
        if type in self._sights:
            _discard(self._named, (type, ref.name), ref)
            concerned |= self._seekers_of(ref)
        if type.label in self._resources:
            self._look(key_of(ref), ())
            concerned.add(key_of(ref))
        return concerned

    def _look(self, key: Key, looks: Sequence[Sought]) -> None:
        """From now on this resource looks at these and no others."""
        if self._sought.get(key, ()) == tuple(looks):
            return
        for look in self._sought.pop(key, ()):
            _discard(self._seekers, look, key)
            self._count(look.type, -1)
        for look in looks:
            self._seekers[look].add(key)
            self._count(look.type, +1)
        if looks:
            self._sought[key] = tuple(looks)

    def _count(self, type: ResourceType, step: int) -> None:
        before = self.looked_for(type)
        self._looks[type] += step
        if self.looked_for(type) != before:
            self.turned()

    def _seekers_of(self, ref: Ref) -> set[Key]:
        exact = Sought(ref.type, ref.name, ref.namespace)
        return self._seekers.get(exact, set()) | self._seekers.get(exact._replace(namespace=None), set())

    def _forget(self, ref: Ref) -> None:
        owner = self._owner.pop(ref, None)
        if owner is not None:
            _discard(self._children, owner, ref)
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


def _discard(sets: defaultdict[K, set[V]], name: K, item: V) -> None:
    """Take an item out of one of the sets, and the set with its last one."""
    sets[name].discard(item)
    if not sets[name]:
        del sets[name]


def ours(obj: Object) -> bool:
    """Whether it bears our label."""
    return (obj["metadata"].get("labels") or {}).get(MANAGED_BY_LABEL) == MANAGER
