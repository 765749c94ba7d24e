"""External syncs: state outside the API server, synced beside the reconciliations; results are cached.

No reconciliation waits for a slow server, so however many hang, the workers stay free: the result requeues
the key. After a good result a health check runs every few seconds; if it fails, the key's next
reconciliation gets that as its result.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any

from kindling.engine.store import Key
from kindling.kinds import reasons
from kindling.kinds.base import CachedResult, ExternalResult, ExternalSync

log = logging.getLogger(__name__)

WAIT_SECONDS = 0.5
"""How long a reconciliation waits for a result: most come at once, and a second reconciliation costs more."""
EVERY_SECONDS = 5.0
"""How often a workload is checked, while there are no more of them than MOST_A_SECOND allows."""
MOST_A_SECOND = 40
"""Checks that are begun in a second; of more than 200 workloads each is checked less often."""

SyncExternal = Callable[[Any], Awaitable[ExternalResult]]
"""Runs a kind's external sync."""
CheckHealth = Callable[[Any], Awaitable[ExternalResult | None]]
"""Runs its health check; None if it could not run."""


@dataclass(frozen=True, kw_only=True)
class _Known:
    """A result. `fresh` until a reconciliation has had it; `check` is the health check, if it was good."""

    cache_key: Hashable
    result: ExternalResult
    fresh: bool
    check: ExternalSync | None = None
    checked: bool = False


class ExternalSyncs:
    """`sync` in each reconciliation, `run` beside them. `requeue` adds a key to the queue."""

    def __init__(
        self, *, sync: SyncExternal, check_health: CheckHealth, requeue: Callable[[Key], None]
    ) -> None:
        self._sync, self._check_health, self._requeue = sync, check_health, requeue
        self._known: dict[Key, _Known] = {}
        self._syncing: dict[Key, asyncio.Task[None]] = {}
        self._waiting: set[Key] = set()
        # key -> when it is to be checked; in this order, since all wait equally long
        self._due: OrderedDict[Key, float] = OrderedDict()
        self._more = asyncio.Event()
        self._checking: set[asyncio.Task[None]] = set()

    async def sync(self, key: Key, external_sync: ExternalSync) -> ExternalResult | None:
        """The result; None while there is none yet: then it requeues the key."""
        known = self._cached(key, external_sync)
        if known is not None and known.result.ok:
            self._known[key] = replace(known, fresh=False)
            return known.result
        if known is not None and known.fresh:
            self._known[key] = replace(known, fresh=False)
            if known.checked:  # It was good until now: whether that can be fixed is found out at once.
                self._start(key, external_sync)
            return known.result
        self._start(key, external_sync)
        if known is None or known.result.reason != reasons.NOT_RESPONDING:
            await self._wait(key)
        known = self._cached(key, external_sync)
        if known is not None:
            self._known[key] = replace(known, fresh=False)
        return known.result if known is not None else None

    def last_result(self, key: Key) -> CachedResult | None:
        """The last result, of whatever cache key."""
        known = self._known.get(key)
        return CachedResult(cache_key=known.cache_key, result=known.result) if known is not None else None

    def forget(self, key: Key) -> None:
        """There is nothing to sync any more."""
        self._known.pop(key, None)
        self._due.pop(key, None)
        if task := self._syncing.pop(key, None):
            task.cancel()

    async def run(self) -> None:
        """The health checks, for ever."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                while not self._due:
                    self._more.clear()
                    await self._more.wait()
                key, due = next(iter(self._due.items()))
                await asyncio.sleep(max(due - loop.time(), 1 / MOST_A_SECOND))
                known = self._known.get(key)
                if self._due.get(key) == due and known is not None:
                    del self._due[key]
                    task = asyncio.create_task(self._check(key, known))
                    self._checking.add(task)
                    task.add_done_callback(self._checking.discard)
        finally:
            for task in [*self._checking, *self._syncing.values()]:
                task.cancel()

    def _cached(self, key: Key, external_sync: ExternalSync) -> _Known | None:
        known = self._known.get(key)
        return known if known is not None and known.cache_key == external_sync.cache_key else None

    def _start(self, key: Key, external_sync: ExternalSync) -> None:
        """One at a time for each key: two would undo each other's work."""
        if key not in self._syncing:
            self._due.pop(key, None)
            self._syncing[key] = asyncio.create_task(self._run_sync(key, external_sync))

    async def _wait(self, key: Key) -> None:
        self._waiting.add(key)
        try:
            await asyncio.wait({self._syncing[key]}, timeout=WAIT_SECONDS)
        finally:
            self._waiting.discard(key)

    async def _run_sync(self, key: Key, external_sync: ExternalSync) -> None:
        try:
            result = await self._sync(external_sync)
            check = external_sync.health_check() if result.ok else None
            self._known[key] = _Known(
                cache_key=external_sync.cache_key, result=result, fresh=True, check=check
            )
            if check is not None:
                self._watch(key)
        except Exception:
            log.exception("unhandled exception: an external sync failed", extra={"key": str(key)})
        finally:
            if self._syncing.get(key) is asyncio.current_task():
                del self._syncing[key]
                if key not in self._waiting:
                    self._requeue(key)

    def _watch(self, key: Key) -> None:
        self._due[key] = asyncio.get_running_loop().time() + EVERY_SECONDS
        self._due.move_to_end(key)
        self._more.set()

    async def _check(self, key: Key, known: _Known) -> None:
        result = await self._check_health(known.check)
        now = self._known.get(key)
        if (
            now is None
            or (now.cache_key, now.result) != (known.cache_key, known.result)
            or key in self._syncing
        ):
            return  # Meanwhile there is another result, or will be, or nothing to sync any more.
        if result is None:
            self._watch(key)
            return
        if result.ok:
            self._watch(key)
            if result.reason == known.result.reason:
                return
            result = replace(result, facts={**known.result.facts, **result.facts})
        check = known.check if result.ok else None
        self._known[key] = _Known(
            cache_key=known.cache_key, result=result, fresh=True, check=check, checked=True
        )
        self._requeue(key)
