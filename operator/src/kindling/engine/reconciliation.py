"""One reconciliation of one resource: gather, decide, act, report. The only writer of children and status.

It knows no kind and no HTTP: kinds implement `kinds.base.Kind`, API and members are `Dependencies`.
What lasts longer (which keys, when again) belongs to the worker and `ExternalState`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from kindling.engine import finalizers
from kindling.engine.changes import changes
from kindling.engine.child_writer import ChildWriter
from kindling.engine.decisions import OUTSIDE, Asking, of_actions
from kindling.engine.resource_writer import ResourceDeleted
from kindling.engine.warnings import server_failure
from kindling.kinds.base import (
    ExternalAction,
    ExternalResult,
    Probe,
    Problem,
    RequeueAfter,
    Result,
    SyncResult,
)
from kindling.kinds.conditions import find_condition, is_current, status_of, summary
from kindling.kinds.planned import Change
from kindling.kube.errors import ApiError, Rejected
from kindling.kube.resources import CONFIG_MAP, SECRET, Ref

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
        self.dependencies.optional.need(self.key, self.kind.needs(self.cr))
        if (patch := finalizers.due_patch(self.kind, self.cr)) is not None and not self.kind.paused(self.cr):
            await self._patch(patch)
        await self._observe()
        known = self._says()
        is_new = not self._objects and not status_of(self.cr)
        paused = self.kind.paused(self.cr)
        with self._step("validate"):
            problem = self.kind.validate(self.cr, self._observed())
        in_sync, refusal = False, None
        planned: Sequence[Change] = ()
        if problem is None and not paused:
            await self._store_decisions()
        self._restart_slot = await self.dependencies.restart_queue.request(
            self.key, self._disruptions(problem)
        )
        if problem is None and paused:
            decided = await self._decide(check_existing=True)
            in_sync, problem = not decided.actions, decided.problem
            planned = changes(decided, self._objects)
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
        results: dict[str, ExternalResult] = {}
        if in_sync or refusal is not None:
            results, complete = await self._act_outside(paused=paused)
            if not complete and status_of(self.cr) and refusal is None:
                return RequeueAfter(RESULT_SECONDS)  # the last status stays until there is an answer
        if self._says() != known and not paused:
            problem, refusal = await self._converge()  # the children that depend on the answers
            in_sync = problem is None
        unread: ApiError | None = None
        try:
            if in_sync and not await self._fetch_warnings() and is_current(self.cr):
                return RequeueAfter(RESULT_SECONDS)  # the last status stays until they have been read
        except ApiError as error:
            unread = error  # the status does without
        sync = SyncResult(in_sync=in_sync, problem=problem, results=results, paused=paused, changes=planned)
        observed = self._observed()
        with self._step("decide status"):
            report = self.kind.status(self.cr, observed, sync)
        await self._report(report, taken_from=(observed, sync))
        for incident in self.kind.incidents(self.cr, observed):
            self.dependencies.incident(self.kind.type, self.cr, incident)
        if (failure := refusal or unread) is not None:
            raise failure
        ready = find_condition(report.status, "Ready").get("status") == "True"
        await self.dependencies.restart_queue.release_if_ready(
            self.key, self._disruptions(problem), ready=ready
        )
        return report.result

    async def _finish(self) -> Result:
        """Do what remains before a deleted resource may go, then remove its finalizer."""
        await self._observe()
        problem: Problem | None = None
        refusal: Rejected | None = None
        if not (paused := self.kind.paused(self.cr)):
            await self._store_decisions()
            problem, refusal = await self._converge()
        finish = self.kind.finish(self.cr, observed := self._observed())
        if finish.actions and problem is None and not paused:
            await self._run_actions(finish.actions, observed)
            finish = self.kind.finish(self.cr, self._observed())
        done = finish.done and not paused
        if refusal is not None and refusal.namespace_is_deleted:
            # It can never finish, and its finalizer would keep the namespace for ever.
            done = True
            self._log(
                logging.WARNING, f"let go unfinished, its namespace is being deleted: {refusal.message}"
            )
        if done:
            await self._patch(finalizers.release_patch(self.kind, self.cr))
            raise ResourceDeleted
        report = finish.report
        if problem is not None:
            report = self.kind.status(self.cr, self._observed(), SyncResult(in_sync=False, problem=problem))
        await self._report(report)
        if refusal is not None:
            raise refusal
        return report.result

    async def _observe(self) -> None:
        """Gather the objects, and have the answers that the probes ask for."""
        await self._gather()
        # Without the last answers, a probe that follows from one would be left out, and its time begin again.
        self._results = self.dependencies.external_state.results(self.key)
        await self._probe(self.kind.probes(self.cr, self._observed()))

    async def _probe(self, probes: Mapping[str, Probe]) -> None:
        """Have the answers of all members, as far as they come soon."""
        with self._step("probe"):
            await self.dependencies.external_state.probe(self.key, probes)
        self._results = self.dependencies.external_state.results(self.key)

    def _says(self) -> dict[str, tuple[Hashable, ExternalResult]]:
        """The answers without their age, which changes no child by itself."""
        return {name: (answer.cache_key, answer.result) for name, answer in self._results.items()}

    async def _act_outside(self, *, paused: bool) -> tuple[dict[str, ExternalResult], bool]:
        """Run the external actions that are due, in order, until one has not succeeded.

        Returns the answer of each member of which something is wanted, and whether all have answered.
        """
        observed = self._observed()
        actions = [] if paused else list(self.kind.external_actions(self.cr, observed))
        results, complete = await self._run_actions(actions, observed)
        probes = self.kind.probes(self.cr, self._observed())
        self.dependencies.external_state.keep(self.key, {*probes, *(action.member for action in actions)})
        await self._probe(probes)
        for name, probe in probes.items():
            result = self._observed().result(name, probe.cache_key)
            if result is not None:
                results[name] = result
            elif not probe.background:
                complete = False
        return results, complete

    async def _run_actions(
        self, actions: Sequence[ExternalAction], observed: Asking
    ) -> tuple[dict[str, ExternalResult], bool]:
        """One after another, until one has not succeeded; whether all that ran have answered."""
        external_state = self.dependencies.external_state
        results: dict[str, ExternalResult] = {}
        if actions:
            self._record(OUTSIDE, of_actions(actions), observed)
        for action in actions:
            self._log(logging.DEBUG, f"{action.name} {action.member}")
            with self._step("act outside"):
                result = await external_state.run(self.key, action)
            self._results = external_state.results(self.key)
            if result is None:
                return results, False
            results[action.member] = result
            if not result.ok:
                break
        return results, True

    def _disruptions(self, problem: Problem | None) -> Sequence[str] | None:
        """A problem keeps it from requesting the slot, though not from keeping it."""
        if self.kind.paused(self.cr):
            return None
        members = self.kind.disruptions(self.cr, self._observed())
        return members if members is None or problem is None else ()

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

    async def _fetch_warnings(self) -> bool:
        """Read the Warning Events of children with a problem; False while they are being read.

        :raises ApiError: when they cannot be read.
        """
        refs = self.kind.warnings(self.cr, self._observed())
        uids = {ref: self._objects[ref]["metadata"].get("uid") for ref in refs if ref in self._objects}
        wanted = {ref: str(uid) for ref, uid in uids.items() if uid}
        found = await self.dependencies.event_lookups.newest(self.key, wanted)
        self._warnings = found or {}
        return found is not None

    async def _gather(self) -> None:
        """What the cache has, and from the API the content of Secrets and of others' ConfigMaps, which is
        kept for this reconciliation alone.
        """
        self._objects = self.dependencies.store.children(self.key)
        refs = [Ref(SECRET, self.key.namespace, name) for name in self.kind.secrets(self.cr)]
        refs += [Ref(CONFIG_MAP, self.key.namespace, name) for name in self.kind.config_maps(self.cr)]
        refs += self.kind.others_secrets(self.cr, self._observed())
        with self._step("read"):
            live = await asyncio.gather(*map(self._live, refs))
        for ref, found in zip(refs, live, strict=True):
            self._objects.pop(ref, None)
            self._read.add(ref)
            if found is not None:
                self._objects[ref] = found
