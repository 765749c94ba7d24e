"""The full resync: list everything, find what the watches missed, reconcile every resource.

Needed because kopf, after a watch is cut for too long, lists again but never notices what was deleted
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
from kindling.engine.store import Key, Store, is_managed, key_of
from kindling.kube.errors import ApiError
from kindling.kube.resources import SEEN_WHOLE, ListPage, ResourceType, ref_of

log = logging.getLogger(__name__)

EVERY_SECONDS = 600
DEBOUNCE_SECONDS = 1.0
RETRY_SECONDS = 5.0
OVERDUE_PERIODS = 3
CAUSE = "resync"


class Lister(Protocol):
    def pages(
        self, type: ResourceType, *, namespace: str | None, selector: str = "", metadata: bool = False
    ) -> AsyncIterator[ListPage]: ...


class Resync:
    """`request` is cheap and may be called for every relist; `run` runs for ever."""

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
        watches: Sequence[ResourceType] = (),
        watched_on_demand: Callable[[ResourceType], bool] = lambda _: False,
        is_served: Callable[[ResourceType], bool] = lambda _: True,
        every_seconds: float = EVERY_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """The children are listed by `selector`, except the `watches`, which are listed without it.

        `watched_on_demand` says whether unowned objects of a type are watched at the moment: those are listed
        too, by their metadata. Children of a type that `is_served` denies are not listed.
        """
        self._watched_on_demand, self._is_served = watched_on_demand, is_served
        self._api = api
        self._store = store
        self._queue = queue
        self._metrics = metrics
        self._resources = resources
        self._children = children
        self._namespaces: Sequence[str | None] = namespaces or [None]
        self._selector = selector
        self._watches = frozenset(watches)
        self._requested = asyncio.Event()
        self._every_seconds = every_seconds
        self._monotonic = monotonic
        self._done_at = monotonic()

    @property
    def overdue(self) -> str | None:
        """Whether none has succeeded for far too long, in a sentence."""
        seconds = self._monotonic() - self._done_at
        late = seconds > OVERDUE_PERIODS * self._every_seconds
        return f"no full resync has succeeded for {seconds:.0f} s" if late else None

    def request(self) -> None:
        self._requested.set()

    async def run(self) -> None:
        pause = RETRY_SECONDS
        while True:
            try:
                async with asyncio.timeout(self._every_seconds * random.uniform(0.9, 1.1)):
                    await self._requested.wait()
                await asyncio.sleep(DEBOUNCE_SECONDS)  # where one watch was lost, the others follow
            except TimeoutError:
                pass
            self._requested.clear()
            try:
                await self.once()
            except ApiError as error:
                log.warning(f"full resync failed, retried in {pause:.0f} s: {error}")
                await asyncio.sleep(pause)
                pause = min(2 * pause, self._every_seconds)
                self.request()
            else:
                pause = RETRY_SECONDS

    async def once(self) -> None:
        """:raises ApiError: when something could not be listed; what came before it holds."""
        for type in self._resources:
            await self._prune(type, selector="")
        for type in filter(self._is_served, self._children):
            await self._prune(type, selector="" if type in self._watches else self._selector)
        for type in self._resources:
            for ref in self._store.refs(type):
                self._queue.add(key_of(ref), cause=CAUSE)
        self._done_at = self._monotonic()

    async def _prune(self, type: ResourceType, *, selector: str) -> None:
        """Take in what is listed; drop what was known before, is unchanged since, and is not there.

        But a list may come from a server that lags behind: what is newer than the list is not gone.
        """
        before = {ref: self._store.entry(ref) for ref in self._store.refs(type)}
        there, versions = set(), set[int]()
        for namespace in self._namespaces:
            for metadata in (False, True) if self._watched_on_demand(type) else (False,):
                pages = self._api.pages(
                    type,
                    namespace=namespace,
                    selector="" if metadata else selector,
                    metadata=metadata and type not in SEEN_WHOLE,
                )
                async for page in pages:
                    versions.add(page.version)
                    for obj in page.items:
                        there.add(ref_of(type, obj))
                        if metadata and (is_managed(obj) or not self._watched_on_demand(type)):
                            continue  # had whole, or not asked for any more
                        for key in self._store.upsert(type, obj):
                            self._queue.add(key, cause=CAUSE)
        for ref, known in before.items():
            if ref in there or known is None or self._store.entry(ref) is not known:
                continue
            if known.version <= min(versions):
                self._metrics.missed_delete(type)
                for key in self._store.delete(type, known.object):
                    self._queue.add(key, cause=CAUSE)
