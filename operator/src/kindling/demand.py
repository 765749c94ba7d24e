"""Others' objects, watched by their metadata and only while a resource looks for one of them.

Every Pod of the cluster, say, for MyCustomResource: what nobody looks for is not listed, watched or kept.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from kindling.engine.queue import Queue
from kindling.engine.store import Key, Store, ours
from kindling.kube.follow import Follower, See
from kindling.kube.resources import Object, ResourceType
from kindling.kube.watches import METADATA, Watches

Follow = Callable[[str, ResourceType, See], Follower]
"""Makes what follows others' objects of a type at a path."""


class Demands:
    """The watches on demand, one of each type. Until it has listed, `Store.waits` for those who look."""

    def __init__(
        self,
        paths: Mapping[str, ResourceType],
        *,
        store: Store,
        queue: Queue[Key],
        watches: Watches,
        follow: Follow,
    ) -> None:
        """`paths` has the path of each type, in each namespace that is watched."""
        self._store, self._queue = store, queue
        self._each = {
            type: _Demand(
                type,
                [path for path, other in paths.items() if other == type],
                store=store,
                queue=queue,
                watches=watches,
                follow=follow,
            )
            for type in dict.fromkeys(paths.values())
        }
        store.turned = self._turned

    def active(self, type: ResourceType) -> bool:
        """Whether others' objects of this type are watched at the moment."""
        return type in self._each and self._each[type].active

    def run(self) -> list[Coroutine[Any, Any, None]]:
        """One coroutine for each type, which runs for ever."""
        return [demand.run() for demand in self._each.values()]

    def see(self, type: ResourceType, event: str, obj: Object) -> None:
        """For the watches by our label: what leaves them may be there still, without the label."""
        left = event == "DELETED" and self.active(type)
        for key in self._store.leave(type, obj) if left else self._store.take_in(type, event, obj):
            self._queue.add(key)

    def _turned(self) -> None:
        for demand in self._each.values():
            demand.turned.set()


class _Demand:
    def __init__(
        self,
        type: ResourceType,
        paths: Sequence[str],
        *,
        store: Store,
        queue: Queue[Key],
        watches: Watches,
        follow: Follow,
    ) -> None:
        self.active = False
        self.turned = asyncio.Event()
        self._type, self._paths = type, paths
        self._store, self._queue, self._watches, self._follow = store, queue, watches, follow
        store.close(type)

    async def run(self) -> None:
        while True:
            await self._until(wanted=True)
            for path in self._paths:
                self._watches.begin(path + METADATA)
            self.active = True
            try:
                await self._watch()
            finally:
                self.active = False
                self._store.close(self._type)
                for path in self._paths:
                    self._watches.end(path + METADATA)

    async def _watch(self) -> None:
        """Until nobody looks any more; what a follower raises is raised."""
        followers = [self._follow(path, self._type, self._see) for path in self._paths]
        tasks = [asyncio.create_task(follower.run()) for follower in followers]
        tasks.append(asyncio.create_task(self._until(wanted=False)))
        listed = asyncio.create_task(self._open(followers))
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in (*tasks, listed):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await task

    async def _open(self, followers: Sequence[Follower]) -> None:
        for follower in followers:
            await follower.listed.wait()
        for key in self._store.open(self._type):
            self._queue.add(key)

    async def _until(self, *, wanted: bool) -> None:
        while self._store.looked_for(self._type) != wanted:
            self.turned.clear()
            await self.turned.wait()

    def _see(self, type: ResourceType, event: str, obj: Object) -> None:
        """What is ours is seen whole by the watch of our label; this one tells too when it is gone."""
        if event == "DELETED" or not ours(obj):
            for key in self._store.take_in(type, event, obj):
                self._queue.add(key)
