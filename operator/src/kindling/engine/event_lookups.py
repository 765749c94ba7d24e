"""Reads the newest Warning Events of children, a few at a time and beside the reconciliations.

The API server looks through all Events of a namespace for each. Where a thousand resources wait for their
Pods or volumes, every worker would be kept for minutes, and with them the resources that are well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kindling.engine.external import WAIT_SECONDS
from kindling.engine.store import Key
from kindling.engine.warnings import EventReader, newest_warnings
from kindling.kinds.base import WarningEvent
from kindling.kube.resources import Ref

AT_ONCE = 2
FRESH_SECONDS = 60.0
"""How long after it was read an answer is of now: its reconciliation waits in the queue, or needed none."""


@dataclass(kw_only=True)
class _Lookup:
    """`left`: the reconciliation has not waited for its end. `ended` is by the loop's clock."""

    wanted: Mapping[Ref, str]
    task: asyncio.Task[dict[Ref, WarningEvent]]
    left: bool = False
    ended: float | None = None

    def answers(self, wanted: Mapping[Ref, str], *, now: float) -> bool:
        """Whether it is an answer to this, or will be."""
        stale = self.ended is not None and now - self.ended > FRESH_SECONDS
        return self.wanted == wanted and not stale and not self.task.cancelled()


class EventLookups:
    """`newest` in each reconciliation. `requeue` adds a key to the queue."""

    def __init__(self, *, api: EventReader, requeue: Callable[[Key], None] = lambda key: None) -> None:
        self._api, self._requeue = api, requeue
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._lookups: dict[Key, _Lookup] = {}

    async def newest(self, key: Key, wanted: Mapping[Ref, str]) -> dict[Ref, WarningEvent] | None:
        """What was said last of each of these objects, given with their uids, where anything was said. None
        while that is being read: then it requeues the key.

        :raises ApiError: when the Events cannot be read.
        """
        known = self._lookups.get(key)
        if known is None or not known.answers(wanted, now=asyncio.get_running_loop().time()):
            self.forget(key)
            if not wanted:
                return {}
            busy = self._slots.locked()
            known = self._start(key, wanted)
            if not busy:
                await asyncio.wait({known.task}, timeout=WAIT_SECONDS)
        if not known.task.done():
            known.left = True
            return None
        del self._lookups[key]
        return known.task.result()

    def _start(self, key: Key, wanted: Mapping[Ref, str]) -> _Lookup:
        lookup = _Lookup(wanted=dict(wanted), task=asyncio.create_task(self._read(wanted)))
        self._lookups[key] = lookup

        def end(task: asyncio.Task[dict[Ref, WarningEvent]]) -> None:
            lookup.ended = asyncio.get_running_loop().time()
            if task.cancelled():
                return
            task.exception()  # Where nobody comes for it, it is not reported as lost.
            if lookup.left:
                self._requeue(key)

        lookup.task.add_done_callback(end)
        return lookup

    def forget(self, key: Key) -> None:
        """Nothing is wanted of its objects any more."""
        if (known := self._lookups.pop(key, None)) is not None:
            known.task.cancel()

    async def _read(self, wanted: Mapping[Ref, str]) -> dict[Ref, WarningEvent]:
        async with self._slots:
            return await newest_warnings(self._api, wanted)
