"""Which resources watch which objects of others, both ways round, for the cache.

Names are indexed for the types of which a resource watches a name in all namespaces, and for no others: there
are as many of them as there are objects, and a name in a namespace is found without.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

from kindling.kinds.base import WatchedObject
from kindling.kube.resources import Ref, ResourceType

K = TypeVar("K", bound=Hashable)


class WatchedObjects(Generic[K]):
    """`cached` gives the references of a type that the cache holds."""

    def __init__(self, *, cached: Callable[[ResourceType], Iterable[Ref]]) -> None:
        self._cached = cached
        self._watchers: defaultdict[WatchedObject, set[K]] = defaultdict(set)
        self._watched: dict[K, tuple[WatchedObject, ...]] = {}
        self._count: Counter[ResourceType] = Counter()
        self._everywhere: Counter[ResourceType] = Counter()
        self._names: dict[ResourceType, defaultdict[str, set[Ref]]] = {}
        self.types_changed: Callable[[], None] = lambda: None
        """Called when the first resource watches objects of a type, and when the last one stops."""

    def of(self, key: K) -> tuple[WatchedObject, ...]:
        return self._watched.get(key, ())

    def refs(self, key: K, *, cached: Container[Ref]) -> Iterator[Ref]:
        """The objects that this resource watches, as far as they are `cached`."""
        for type, name, namespace in self.of(key):
            if namespace is None:
                yield from self._names[type].get(name, ())
            elif (ref := Ref(type, namespace, name)) in cached:
                yield ref

    def is_watched(self, type: ResourceType) -> bool:
        """Whether any resource watches objects of this type."""
        return self._count[type] > 0

    def watchers_of_type(self, type: ResourceType) -> set[K]:
        return {key for watched, keys in self._watchers.items() if watched.type == type for key in keys}

    def watchers(self, ref: Ref) -> set[K]:
        exact = WatchedObject(ref.type, ref.name, ref.namespace)
        return self._watchers.get(exact, set()) | self._watchers.get(exact._replace(namespace=None), set())

    def set(self, key: K, wanted: Sequence[WatchedObject]) -> None:
        """Replace the set of objects that this resource watches."""
        if self.of(key) == tuple(wanted):
            return
        for watched in self._watched.pop(key, ()):
            discard(self._watchers, watched, key)
            self._step(watched, -1)
        for watched in wanted:
            self._watchers[watched].add(key)
            self._step(watched, +1)
        if wanted:
            self._watched[key] = tuple(wanted)

    def add_name(self, ref: Ref) -> None:
        """The cache holds it from now on."""
        if ref.type in self._names:
            self._names[ref.type][ref.name].add(ref)

    def forget_name(self, ref: Ref) -> None:
        if ref.type in self._names:
            discard(self._names[ref.type], ref.name, ref)

    def _step(self, watched: WatchedObject, step: int) -> None:
        type = watched.type
        if watched.namespace is None:
            self._everywhere[type] += step
            self._index(type)
        before = self.is_watched(type)
        self._count[type] += step
        if self.is_watched(type) != before:
            self.types_changed()

    def _index(self, type: ResourceType) -> None:
        if not self._everywhere[type]:
            del self._names[type]
        elif type not in self._names:
            self._names[type] = defaultdict(set)
            for ref in self._cached(type):
                self.add_name(ref)


_N = TypeVar("_N")
_V = TypeVar("_V")


def discard(sets: defaultdict[_N, set[_V]], name: _N, item: _V) -> None:
    """Take an item out of one of the sets, and the set with its last one."""
    sets[name].discard(item)
    if not sets[name]:
        del sets[name]
