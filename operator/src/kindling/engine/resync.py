"""The safety net: list what there is, heal what the watches did not tell, look at every resource again.

Needed because kopf, after a watch is cut for too long, lists anew but never notices what was deleted
in between. Bounds every unknown fault to its period, ten minutes unless set.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Protocol

from kindling.engine.metrics import Metrics
from kindling.engine.queue import Queue
from kindling.engine.store import Key, Store, key_of, ours
from kindling.kube.errors import ApiError
from kindling.kube.resources import Listing, ResourceType, ref_of

log = logging.getLogger(__name__)

EVERY_SECONDS = 600
SETTLE_SECONDS = 1.0
RETRY_SECONDS = 5.0
OVERDUE_PERIODS = 3


class Lister(Protocol):
    def pages(
        self, type: ResourceType, *, namespace: str | None, selector: str = "", metadata: bool = False
    ) -> AsyncIterator[Listing]: ...


class Resync:
    """`request` is cheap and may be called for every kind that is listed anew; `run` runs for ever."""

    def __init__(
        self,
        *,
        api: Lister,
        store: Store,
        queue: Queue[Key],
        metrics: Metrics,
        resources: Sequence[ResourceType],
        children: Sequence[ResourceType],
        namespaces: Sequence[str],
        selector: str,
        sights: Sequence[ResourceType] = (),
        others: Callable[[ResourceType], bool] = lambda _: False,
        every_seconds: float = EVERY_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """The children are listed by `selector`, but for the `sights`, which are listed whole.

        `others` says of a type whether others' objects are watched at the moment: these are listed besides,
        by their metadata.
        """
        self._others = others
        self._api = api
        self._store = store
        self._queue = queue
        self._metrics = metrics
        self._resources = resources
        self._children = children
        self._namespaces: Sequence[str | None] = namespaces or [None]
        self._selector = selector
        self._sights = frozenset(sights)
        self._requested = asyncio.Event()
        self._every_seconds = every_seconds
        self._monotonic = monotonic
        self._done_at = monotonic()

    @property
    def overdue(self) -> str | None:
        """Whether none has gone well for far too long, in a sentence."""
        seconds = self._monotonic() - self._done_at
        late = seconds > OVERDUE_PERIODS * self._every_seconds
        return f"no resync has gone well for {seconds:.0f} s" if late else None

    def request(self) -> None:
        self._requested.set()

    async def run(self) -> None:
        pause = RETRY_SECONDS
        while True:
            try:
                async with asyncio.timeout(self._every_seconds * random.uniform(0.9, 1.1)):
                    await self._requested.wait()
                await asyncio.sleep(SETTLE_SECONDS)  # where one watch was lost, the others follow
            except TimeoutError:
                pass
            self._requested.clear()
            try:
                await self.once()
            except ApiError as error:
                log.warning(f"resync given up, tried again in {pause:.0f} s: {error}")
                await asyncio.sleep(pause)
                pause = min(2 * pause, self._every_seconds)
                self.request()
            else:
                pause = RETRY_SECONDS

    async def once(self) -> None:
        """:raises ApiError: when something could not be listed; what came before it holds."""
        for type in self._resources:
            await self._heal(type, selector="")
        for type in self._children:
            await self._heal(type, selector="" if type in self._sights else self._selector)
        for type in self._resources:
            for ref in self._store.refs(type):
                self._queue.add(key_of(ref))
        self._done_at = self._monotonic()

    async def _heal(self, type: ResourceType, *, selector: str) -> None:
        """Take in what is listed; drop what was known before, is unchanged since, and is not there.

        But a list may come from a server that lags behind: what is newer than the list is not gone.
        """
        before = {ref: self._store.held(ref) for ref in self._store.refs(type)}
        there, versions = set(), set[int]()
        for namespace in self._namespaces:
            for metadata in (False, True) if self._others(type) else (False,):
                pages = self._api.pages(
                    type, namespace=namespace, selector="" if metadata else selector, metadata=metadata
                )
                async for page in pages:
                    versions.add(page.version)
                    for obj in page.items:
                        there.add(ref_of(type, obj))
                        if metadata and (ours(obj) or not self._others(type)):
                            continue  # had whole, or not asked for any more
                        for key in self._store.put(type, obj):
                            self._queue.add(key)
        for ref, known in before.items():
            if ref in there or known is None or self._store.held(ref) is not known:
                continue
            if known.version <= min(versions):
                self._metrics.healed(type)
                for key in self._store.drop(type, known.object):
                    self._queue.add(key)
