"""Children of types that a cluster need not serve, cert-manager's Certificates say, watched while it does.

A type that is not served costs nothing until a resource needs it: only its reconciliations ask again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection

from kindling.engine.optional_types import OptionalTypes
from kindling.engine.queue import Queue
from kindling.engine.store import Key, Store
from kindling.kube.errors import ApiError
from kindling.kube.reflector import Reflector, follow
from kindling.kube.resources import ResourceType
from kindling.kube.watch_monitor import WatchMonitor

log = logging.getLogger(__name__)

ASK_SECONDS = 5.0
"""The least time between two questions whether a type is served, however many resources need it."""

MakeReflector = Callable[[str, ResourceType], Reflector]
"""Makes what follows the children of a type at a path, until that is not found any more."""


class OptionalWatch:
    """The watch of one type, at its paths. `known` is set once it is listed, or known not to be served."""

    def __init__(
        self,
        type: ResourceType,
        paths: Collection[str],
        *,
        served: Callable[[ResourceType], Awaitable[bool]],
        types: OptionalTypes,
        store: Store,
        queue: Queue[Key],
        monitor: WatchMonitor,
        make_reflector: MakeReflector,
    ) -> None:
        self.known = asyncio.Event()
        self._type, self._paths, self._is_served, self._types = type, paths, served, types
        self._store, self._queue, self._monitor, self._make_reflector = store, queue, monitor, make_reflector

    async def run(self) -> None:
        """Run for ever."""
        while True:
            try:
                served = await self._is_served(self._type)
            except ApiError as error:
                log.info(f"asking again whether {self._type.plural} are served: {error}")
                await asyncio.sleep(ASK_SECONDS)
                continue
            if served:
                await self._watch()
                self._forget()
            self.known.set()
            await self._types.asked(self._type)
            await asyncio.sleep(ASK_SECONDS)

    async def _watch(self) -> None:
        """Until the type is not served any more."""
        for path in self._paths:
            self._monitor.begin(path)
        reflectors = [self._make_reflector(path, self._type) for path in self._paths]
        try:
            await follow(reflectors, synced=self._open)
        finally:
            for path in self._paths:
                self._monitor.end(path)

    def _open(self) -> None:
        log.info(f"{self._type.plural}.{self._type.group} are served")
        for key in self._types.serve(self._type):
            self._queue.add(key, cause=self._type.kind)
        self.known.set()

    def _forget(self) -> None:
        log.info(f"{self._type.plural}.{self._type.group} are not served any more")
        self._types.withdraw(self._type)
        for ref in self._store.refs(self._type):
            if (known := self._store.get(ref)) is not None:
                for key in self._store.delete(self._type, known):
                    self._queue.add(key, cause=self._type.kind)
