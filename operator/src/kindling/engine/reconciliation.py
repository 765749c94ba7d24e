"""One reconciliation of one resource: gather, decide, act, report. The only writer of children and status.

It knows no kind and no HTTP: kinds implement `kinds.base.Kind`, API and external syncs are `Dependencies`.
What lasts longer (which keys, when again) belongs to the worker and `ExternalSyncs`.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass

from kindling.engine import finalizers
from kindling.engine.child_writer import ChildWriter
from kindling.engine.resource_writer import ResourceDeleted
from kindling.engine.warnings import newest_warnings, server_failure
from kindling.kinds.base import CachedResult, ExternalResult, Problem, RequeueAfter, Result, SyncResult
from kindling.kinds.conditions import find_condition, status_of, summary
from kindling.kube.errors import ApiError, Rejected
from kindling.kube.resources import SECRET, Ref

RESULT_SECONDS = 60.0
"""A result that is not there yet requeues the key; if that is lost, this does."""


@dataclass(kw_only=True)
class Reconciliation(ChildWriter):
    """`run` once."""

    async def run(self) -> Result:
        """:raises ResourceDeleted: nothing may be written any more.
        :raises ApiError: when the reconciliation failed; it is to be retried.
        """
        if finalizers.is_deleted(self.cr):
            return await self._finish()
        if (patch := finalizers.due_patch(self.kind, self.cr)) is not None and not self.kind.paused(self.cr):
            await self._patch(patch)
        self._last_result = known = self.dependencies.external_syncs.last_result(self.key)
        await self._gather()
        is_new = not self._objects and not status_of(self.cr)
        paused = self.kind.paused(self.cr)
        problem = self.kind.validate(self.cr, self._observed())
        in_sync, refusal = False, None
        if problem is None and not paused:
            await self._store_decisions()
        self._restart_slot = await self.dependencies.restart_queue.request(
            self.key, self._wants_restart_slot(problem)
        )
        if problem is None and paused:
            decided = await self._decide(check_existing=True)
            in_sync, problem = not decided.actions, decided.problem
        elif problem is None:
            try:
                problem, refusal = await self._converge()
            except ApiError as error:
                await self._report_progress(error)
                raise
            in_sync = problem is None
            if in_sync and is_new and self._objects:
                return RequeueAfter(0)  # others' children come before this one's status
        # A child that is rejected does not keep the workload from its state.
        external: ExternalResult | None = None
        if in_sync or refusal is not None:
            external_sync = self.kind.external_sync(self.cr, self._observed())
            if external_sync is None:
                self.dependencies.external_syncs.forget(self.key)
            else:
                external = await self.dependencies.external_syncs.sync(self.key, external_sync)
                if external is not None:
                    self._last_result = CachedResult(cache_key=external_sync.cache_key, result=external)
                elif status_of(self.cr) and refusal is None:
                    return RequeueAfter(RESULT_SECONDS)  # the last status stays until there is a new result
        if self._last_result != known and not paused:
            problem, refusal = await self._converge()  # the children that depend on the result
            in_sync = problem is None
        unread = await self._fetch_warnings() if in_sync else None
        sync = SyncResult(in_sync=in_sync, problem=problem, external=external, paused=paused)
        report = self.kind.status(self.cr, self._observed(), sync)
        await self._report(report)
        if (failure := refusal or unread) is not None:
            raise failure
        ready = find_condition(report.status, "Ready").get("status") == "True"
        await self.dependencies.restart_queue.release_if_ready(
            self.key, self._wants_restart_slot(problem), ready=ready
        )
        return report.result

    async def _finish(self) -> Result:
        """Do what remains before a deleted resource may go, then remove its finalizer."""
        await self._gather()
        refusal: Rejected | None = None
        if not (paused := self.kind.paused(self.cr)):
            await self._store_decisions()
            _, refusal = await self._converge()
        finish = self.kind.finish(self.cr, self._observed())
        if finish.done and not paused:
            await self._patch(finalizers.release_patch(self.kind, self.cr))
            raise ResourceDeleted
        await self._report(finish.report)
        if refusal is not None:
            raise refusal
        return finish.report.result

    def _wants_restart_slot(self, problem: Problem | None) -> bool | None:
        """A problem keeps it from requesting the slot, though not from keeping it."""
        if self.kind.paused(self.cr):
            return None
        return self.kind.wants_restart_slot(self.cr, self._observed()) and problem is None

    async def _report_progress(self, error: ApiError) -> None:
        """Write a status if the children could not be written and there is none, or it says Ready."""
        known, problem = status_of(self.cr), server_failure(error)
        if known and (problem is None or find_condition(known, "Ready").get("status") == "True"):
            return
        report = self.kind.status(self.cr, self._observed(), SyncResult(in_sync=False, problem=problem))
        # A message that differs each time would be written each time, and each write is an event.
        if summary(report.status) != summary(known):
            with contextlib.suppress(ApiError):
                await self._report(report)

    async def _fetch_warnings(self) -> ApiError | None:
        """Read the Warning Events of children with a problem. Returns the error, if any: the status does
        without.
        """
        refs = self.kind.warnings(self.cr, self._observed())
        try:
            self._warnings = await newest_warnings(self.dependencies.api, refs, self._objects)
        except ApiError as error:
            return error
        return None

    async def _gather(self) -> None:
        """What the cache has, and the Secrets' content from the API, which is kept for this reconciliation
        alone.
        """
        self._objects = self.dependencies.store.children(self.key)
        refs = [Ref(SECRET, self.key.namespace, name) for name in self.kind.secrets(self.cr)]
        for ref, found in zip(refs, await asyncio.gather(*map(self._live, refs)), strict=True):
            self._objects.pop(ref, None)
            if found is not None:
                self._objects[ref] = found
