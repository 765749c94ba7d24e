"""What a reconciliation writes of the resource itself: its status, its decisions, its finalizer."""

from __future__ import annotations

import logging
import os
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from kindling.engine import finalizers
from kindling.engine.compare import merge_patch
from kindling.engine.decisions import STATUS, Asking, of_status, seen
from kindling.engine.dependencies import Dependencies
from kindling.engine.store import Key
from kindling.engine.tracer import Step
from kindling.kinds.base import (
    CachedResult,
    Kind,
    RestartSlot,
    StatusReport,
    SyncResult,
    WarningEvent,
)
from kindling.kinds.conditions import find_condition, summary, with_stalled, with_transition_times
from kindling.kube.errors import Conflict, NotFound
from kindling.kube.resources import Object, Ref

log = logging.getLogger(__name__)


class ResourceDeleted(Exception):
    """The resource was deleted or replaced: nothing may be written for it."""


class Outdated(Exception):
    """Our copy of the resource was not the resource. The cache has it now, so no event of its watch will
    requeue the key; of the children the cache may have what is as old as our copy was.
    """


@dataclass(kw_only=True)
class ResourceWriter:
    """The state of one reconciliation of one resource, and the writes of the resource itself."""

    dependencies: Dependencies
    key: Key
    kind: Kind
    cr: Object
    _objects: dict[Ref, Object] = field(default_factory=dict)
    _read: set[Ref] = field(default_factory=set)
    """Those of the objects that this reconciliation has from the API server, not from the cache."""
    _results: dict[str, CachedResult] = field(default_factory=dict)
    _restart_slot: RestartSlot = field(default_factory=RestartSlot)
    _warnings: dict[Ref, WarningEvent] = field(default_factory=dict)
    _entropy: bytes = field(default_factory=lambda: os.urandom(32), repr=False)

    @property
    def _ref(self) -> Ref:
        return Ref(self.kind.type, self.cr["metadata"]["namespace"], self.cr["metadata"]["name"])

    def _observed(self) -> Asking:
        return Asking(
            objects=self._objects,
            now=self.dependencies.clock(),
            entropy=self._entropy,
            watched=self.dependencies.store.watched_by(self.key),
            results=self._results,
            restart_slot=self._restart_slot,
            warnings=self._warnings,
            unserved=self.dependencies.optional.unserved,
        )

    def _record(
        self, what: str, decision: Object, observed: Asking, *, sync: SyncResult | None = None
    ) -> None:
        """Note a decision before it is carried out, with what it is taken from."""
        self.dependencies.recorder.record(
            self.key,
            what,
            decision,
            lambda redactor: seen(redactor, self.kind, self.cr, observed, decision, sync),
        )

    async def _live(self, ref: Ref) -> Object | None:
        try:
            return await self.dependencies.api.get(ref)
        except NotFound:
            return None

    async def _patch(self, patch: Object, *, subresource: str | None = None) -> None:
        """Patch the resource itself, in the version that is known.

        :raises Conflict: when it has changed: what was decided is decided again.
        """
        self.cr = await self._merge(patch, subresource=subresource)

    async def _store_decisions(self) -> None:
        """Write what `durable_state` decides, before anything that depends on it."""
        known = self.cr.get("status") or {}
        wanted = self.kind.durable_state(self.cr, self._observed())
        changed = merge_patch(known={name: known.get(name) for name in wanted}, wanted=dict(wanted))
        if changed:
            patch = {"metadata": finalizers.precondition(self.cr), "status": changed}
            await self._patch(patch, subresource="status")
            self._log(logging.INFO, f"decided: {', '.join(changed)}")

    async def _report(
        self, report: StatusReport, *, taken_from: tuple[Asking, SyncResult] | None = None
    ) -> Object | None:
        """Patch the status, if anything differs, and update our copy of the resource.

        Returns the resource of the response.

        :raises Outdated: when the resource has changed: a report from an older view would take back what was
            found since.
        """
        known = self.cr.get("status") or {}
        decided = {name: known[name] for name in self.kind.durable if name in known}
        status = with_transition_times(with_stalled(report), known=known, now=self.dependencies.clock())
        status = {**status, **decided}
        patch = merge_patch(known=known, wanted=status)
        if not patch:
            return None
        body = {"metadata": finalizers.precondition(self.cr), "status": patch}
        if taken_from is not None and summary(status) != summary(known):
            observed, sync = taken_from
            self._record(STATUS, of_status(report), observed, sync=sync)
        try:
            written = await self._merge(body, subresource="status")
        except Conflict:
            # What is changed all the time is reported too: the next reconciliation has this version at least.
            if (live := await self._live(self._ref)) is None:
                raise self._deleted() from None
            raise self._outdated(live, "it has changed since it was read") from None
        self.dependencies.status_changed(self.kind.type, self.cr, known, status)
        ready = find_condition(status, "Ready")
        self._log(logging.INFO, f"status: Ready={ready.get('status')} {ready.get('reason')}")
        version = written["metadata"]["resourceVersion"]
        metadata = {**self.cr["metadata"], "resourceVersion": version}
        self.cr = {**self.cr, "metadata": metadata, "status": status}
        return written

    def _outdated(self, live: Object, message: str) -> Outdated:
        """Neither children nor a status are to follow from our copy."""
        self.dependencies.store.upsert(self.kind.type, live)
        return Outdated(message)

    async def _merge(self, patch: Object, *, subresource: str | None) -> Object:
        """The resource of the response, which the cache has by then."""
        try:
            written = await self.dependencies.api.merge(self._ref, patch, subresource=subresource)
        except NotFound:
            raise self._deleted() from None
        self.dependencies.store.upsert(self.kind.type, written)
        return written

    def _deleted(self) -> ResourceDeleted:
        """Its delete event may be missed, so remove it from the cache here, not only at the next resync."""
        self.dependencies.store.delete(self.kind.type, self.cr)
        return ResourceDeleted()

    def _step(self, name: Step) -> AbstractContextManager[object]:
        return self.dependencies.tracer.step(name)

    def _log(self, level: int, message: str) -> None:
        log.log(level, message, extra={"key": str(self.key)})
