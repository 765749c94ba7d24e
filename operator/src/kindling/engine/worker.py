"""One pass over one resource: gather, decide, act, report. The engine's only writer of children and status.

Knows no kind and no HTTP: kinds come by their contract, the API and the inquiries by two ports.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from kindling.engine.compare import merge_patch
from kindling.engine.metrics import Metrics
from kindling.engine.plan import Action, Apply, Create, plan
from kindling.engine.queue import Queue
from kindling.engine.store import Key, Store, key_of
from kindling.kinds.conditions import dated, find
from kindling.kinds.contract import (
    After,
    Answer,
    Child,
    Done,
    Findings,
    Kind,
    Observed,
    Outcome,
    Problem,
    Report,
)
from kindling.kube.errors import ApiError, Conflict, NotFound, Refused, TooMany, Unreachable
from kindling.kube.resources import SECRET, Object, Ref, ResourceType, ref_of

log = logging.getLogger(__name__)

WORKERS = 32
ROUNDS = 4
"""A child may wait for another's uid; more rounds than children can wait in line mean a fight."""


class Api(Protocol):
    """What the worker needs of the API server (`kube.client.Client` has it)."""

    async def get(self, ref: Ref) -> Object: ...
    async def apply(self, type: ResourceType, body: Object) -> Object: ...
    async def create(self, type: ResourceType, body: Object) -> Object: ...
    async def merge(self, ref: Ref, patch: Object, *, subresource: str | None = None) -> Object: ...
    async def delete(self, ref: Ref, *, uid: str, resource_version: str | None = None) -> None: ...


Ask = Callable[[Any], Awaitable[Answer]]
"""Puts a kind's inquiry to the running workload."""

Tell = Callable[[ResourceType, Object, Object, Object], None]
"""Told of each written status: (type, resource, status before, status after)."""


class _Gone(Exception):
    """The resource, as we know it, is no more: nothing may be written for it."""


@dataclass(kw_only=True)
class Reconciler:
    """Makes one resource true. `reconcile` may run for many keys at once, for each key once."""

    api: Api
    store: Store
    kinds: Mapping[str, Kind]
    ask: Ask
    tell: Tell
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    _answers: dict[Key, tuple[Hashable, Answer]] = field(default_factory=dict)

    async def reconcile(self, key: Key) -> Outcome:
        """:raises ApiError: when the pass could not be ended; its key is to be retried."""
        kind = self.kinds[key.kind]
        cr = self.store.resource(key)
        if cr is None or "deletionTimestamp" in cr["metadata"]:
            self._answers.pop(key, None)
            return Done()
        try:
            return await self._pass(key, kind, cr)
        except _Gone:
            return Done()

    async def _pass(self, key: Key, kind: Kind, cr: Object) -> Outcome:
        problem = kind.refuse(cr)
        children = await self._gather(key, kind, cr)
        entropy = os.urandom(32)
        refusal: Refused | None = None
        if problem is None:
            try:
                cr, problem = await self._converge(key, kind, cr, children, entropy)
            except Refused as error:
                refusal = error
                problem = Problem(reason="Refused", message=f"{error.message}; it is tried again.")
        settled = problem is None
        observed = self._observed(children, entropy)
        answer = await self._inquire(key, kind, cr, observed) if settled else None
        report = kind.status(cr, observed, Findings(settled=settled, problem=problem, answer=answer))
        await self._report(kind, cr, report)
        if refusal is not None:
            raise refusal
        return report.outcome

    async def _converge(
        self, key: Key, kind: Kind, cr: Object, children: dict[Ref, Object], entropy: bytes
    ) -> tuple[Object, Problem | None]:
        """Write what differs until nothing does; returns the resource as announced, and what hinders."""
        written: list[Action] = []
        for _ in range(ROUNDS):
            observed = self._observed(children, entropy)
            wanted = kind.desired(cr, observed)
            await self._look_up(wanted, children)
            decided = plan(type=kind.type, cr=cr, desired=wanted, observed=children)
            actions = [action for action in decided.actions if action not in written]
            if decided.problem is not None or not actions:
                if decided.actions:  # a mutating webhook, say: what we can have, we have
                    log.warning("a child does not stay as it was applied", extra={"key": str(key)})
                return cr, decided.problem
            if not written:
                cr = await self._announce(kind, cr, actions, observed)
            for action in actions:
                await self._act(key, action, children)
                written.append(action)
        log.warning(f"children still differ after {ROUNDS} rounds", extra={"key": str(key)})
        return cr, None

    def _observed(self, children: dict[Ref, Object], entropy: bytes) -> Observed:
        return Observed(children=children, now=self.clock(), entropy=entropy)

    async def _gather(self, key: Key, kind: Kind, cr: Object) -> dict[Ref, Object]:
        """What the store has, with the Secrets' content read live: it is kept for this pass alone."""
        children = self.store.children(key)
        refs = [Ref(SECRET, key.namespace, name) for name in kind.secrets(cr)]
        for ref, found in zip(refs, await asyncio.gather(*map(self._live, refs)), strict=True):
            children.pop(ref, None)
            if found is not None:
                children[ref] = found
        return children

    async def _look_up(self, wanted: list[Child], children: dict[Ref, Object]) -> None:
        """What we do not know of may still be there, unlabelled and someone else's: see before writing."""
        missing = [child.ref for child in wanted if child.ref not in children and child.type != SECRET]
        for ref, found in zip(missing, await asyncio.gather(*map(self._live, missing)), strict=True):
            if found is not None:
                children[ref] = found

    async def _live(self, ref: Ref) -> Object | None:
        try:
            return await self.api.get(ref)
        except NotFound:
            return None

    async def _announce(self, kind: Kind, cr: Object, actions: list[Action], observed: Observed) -> Object:
        """Before the first write: is the resource still there, and does its status own up to the change?"""
        if any(isinstance(action, Create) or getattr(action, "new", False) for action in actions):
            ref = Ref(kind.type, cr["metadata"]["namespace"], cr["metadata"]["name"])
            live = await self._live(ref)
            if live is None or live["metadata"]["uid"] != cr["metadata"]["uid"]:
                # A watch that was cut may have hidden its deletion: what we made would be orphaned.
                if live is None:
                    self.store.drop(kind.type, cr)
                raise _Gone
            if "deletionTimestamp" in live["metadata"]:
                raise _Gone
        if (cr.get("status") or {}).get("observedGeneration") != cr["metadata"].get("generation"):
            cr = await self._report(kind, cr, kind.status(cr, observed, Findings(settled=False)))
        return cr

    async def _act(self, key: Key, action: Action, children: dict[Ref, Object]) -> None:
        if isinstance(action, (Apply, Create)):
            name = action.body["metadata"].get("name")
            verb = "apply" if isinstance(action, Apply) else "create"
            write = self.api.apply if isinstance(action, Apply) else self.api.create
            written = await write(action.type, action.body)
            self.store.put(action.type, written)
            children[ref_of(action.type, written)] = written
            log.info(f"{verb} {action.type.kind} {name}", extra={"key": str(key)})
            return
        with contextlib.suppress(NotFound):
            await self.api.delete(action.ref, uid=action.uid, resource_version=action.resource_version)
        gone = children.pop(action.ref)
        self.store.drop(action.ref.type, gone)
        log.info(f"delete {action.ref.type.kind} {action.ref.name}", extra={"key": str(key)})

    async def _inquire(self, key: Key, kind: Kind, cr: Object, observed: Observed) -> Answer | None:
        inquiry = kind.inquire(cr, observed)
        if inquiry is None:
            self._answers.pop(key, None)
            return None
        memo, answer = self._answers.get(key, (None, None))
        if answer is None or memo != inquiry.memo:
            answer = await self.ask(inquiry)
            if answer.ok:
                self._answers[key] = (inquiry.memo, answer)
            else:
                self._answers.pop(key, None)
        return answer

    async def _report(self, kind: Kind, cr: Object, report: Report) -> Object:
        """One status patch, if anything differs; returns the resource with what it then says."""
        known = cr.get("status") or {}
        status = dated(report.status, known=known, now=self.clock())
        patch = merge_patch(known=known, wanted=status)
        if not patch:
            return cr
        meta = cr["metadata"]
        ref = Ref(kind.type, meta["namespace"], meta["name"])
        try:
            # The uid makes it fail rather than tell a namesake's story.
            body = {"metadata": {"uid": meta["uid"]}, "status": patch}
            written = await self.api.merge(ref, body, subresource="status")
        except NotFound:
            raise _Gone from None
        self.store.put(kind.type, written)
        self.tell(kind.type, cr, known, status)
        ready = find(status, "Ready")
        log.info(
            f"status: Ready={ready.get('status')} {ready.get('reason')}", extra={"key": str(key_of(ref))}
        )
        return {**cr, "status": status}


async def work(reconciler: Reconciler, queue: Queue[Key], metrics: Metrics) -> None:
    """One worker, for ever: take a key, make it true, requeue by outcome. No error of a key ends it."""
    while True:
        key = await queue.get()
        began = time.perf_counter()
        result = "error"
        try:
            outcome = await reconciler.reconcile(key)
            queue.forget(key)
            if isinstance(outcome, After):
                queue.add_after(key, outcome.seconds)
            result = type(outcome).__name__.lower()
        except ApiError as error:
            pause = queue.retry(key)
            if isinstance(error, TooMany):
                queue.add_after(key, error.retry_after)
            metrics.failed(type(error).__name__)
            level = logging.INFO if isinstance(error, (Conflict, Unreachable)) else logging.WARNING
            log.log(level, f"tried again in {pause:.1f} s: {error}", extra={"key": str(key)})
        except Exception:
            queue.retry(key)
            metrics.failed("Bug")
            log.exception("a bug: this pass was given up and is tried again", extra={"key": str(key)})
        finally:
            metrics.reconciled(key.kind, result, time.perf_counter() - began)
            queue.done(key)
