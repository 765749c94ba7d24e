"""Others' objects, watched by their metadata and only while a resource looks for one of them.

Every Pod of the cluster, say, for MyCustomResource: what nobody looks for is not listed, watched or kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from kindling.engine.queue import Queue
from kindling.engine.store import Key, Store, is_managed
from kindling.kube.reflector import EventHandler, Reflector, follow
from kindling.kube.resources import Object, ResourceType
from kindling.kube.watch_monitor import METADATA, WatchMonitor

MakeReflector = Callable[[str, ResourceType, EventHandler], Reflector]
"""Makes what follows others' objects of a type at a path."""


class OnDemandWatches:
    """The watches on demand, one for each type. Until one has listed, `Store.waits_for_list` holds its
    watchers.
    """

    def __init__(
        self,
        paths: Mapping[str, ResourceType],
        *,
        store: Store,
        queue: Queue[Key],
        monitor: WatchMonitor,
        make_reflector: MakeReflector,
    ) -> None:
        """`paths` has the path of each type, in each namespace that is watched."""
        self._store, self._queue = store, queue
        self._each = {
            type: _OnDemandWatch(
                type,
                [path for path, other in paths.items() if other == type],
                store=store,
                queue=queue,
                monitor=monitor,
                make_reflector=make_reflector,
            )
            for type in dict.fromkeys(paths.values())
        }
        store.on_watched_types_changed(self._turned)

    def active(self, type: ResourceType) -> bool:
        """Whether others' objects of this type are watched at the moment."""
        return type in self._each and self._each[type].active

    def run(self) -> list[Coroutine[Any, Any, None]]:
        """One coroutine for each type, which runs for ever."""
        return [demand.run() for demand in self._each.values()]

    def on_event(self, type: ResourceType, event: str, obj: Object) -> None:
        """For the watches by our label: what leaves them may be there still, without the label."""
        left = event == "DELETED" and self.active(type)
        for key in (
            self._store.leave_selection(type, obj) if left else self._store.handle_event(type, event, obj)
        ):
            self._queue.add(key, cause=type.kind)

    def _turned(self) -> None:
        for demand in self._each.values():
            demand.turned.set()


class _OnDemandWatch:
    def __init__(
        self,
        type: ResourceType,
        paths: Sequence[str],
        *,
        store: Store,
        queue: Queue[Key],
        monitor: WatchMonitor,
        make_reflector: MakeReflector,
    ) -> None:
        self.active = False
        self.turned = asyncio.Event()
        self._type, self._paths = type, paths
        self._store, self._queue, self._monitor, self._make_reflector = store, queue, monitor, make_reflector
        store.close(type)

    async def run(self) -> None:
        while True:
            await self._until(wanted=True)
            for path in self._paths:
                self._monitor.begin(path + METADATA)
            self.active = True
            try:
                await self._watch()
            finally:
                self.active = False
                self._store.close(self._type)
                for path in self._paths:
                    self._monitor.end(path + METADATA)

    async def _watch(self) -> None:
        """Until nobody looks any more; what a follower raises is raised."""
        reflectors = [self._make_reflector(path, self._type, self._on_event) for path in self._paths]
        await follow(reflectors, synced=self._open, until=[self._until(wanted=False)])

    def _open(self) -> None:
        for key in self._store.open(self._type):
            self._queue.add(key, cause=self._type.kind)

    async def _until(self, *, wanted: bool) -> None:
        while self._store.is_watched(self._type) != wanted:
            self.turned.clear()
            await self.turned.wait()

    def _on_event(self, type: ResourceType, event: str, obj: Object) -> None:
        """Our own objects come whole by the watch of our label; this one also reports their deletion."""
        if event == "DELETED" or not is_managed(obj):
            for key in self._store.handle_event(type, event, obj):
                self._queue.add(key, cause=type.kind)
