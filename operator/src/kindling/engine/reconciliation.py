"""One pass over one resource: gather, decide, act, report. The engine's only writer of children and status.

Knows no kind and no HTTP: kinds come by their contract, the API and the inquiries by `Ports`. What
lasts longer than a pass (which keys, when again, what was answered) is the worker's.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Hashable
from dataclasses import dataclass, field
from datetime import datetime

from kindling.engine import writing
from kindling.engine.compare import merge_patch
from kindling.engine.plan import Action, Apply, Create, Plan, plan
from kindling.engine.ports import Ports
from kindling.engine.store import Key
from kindling.kinds.conditions import dated, find, taken_up
from kindling.kinds.contract import (
    After,
    Answer,
    Child,
    Findings,
    Inquiry,
    Kind,
    Observed,
    Outcome,
    Problem,
    Report,
)
from kindling.kube.errors import ApiError, Conflict, NotFound, Refused
from kindling.kube.resources import SECRET, Object, Ref, ref_of

log = logging.getLogger(__name__)

ROUNDS = 4
"""A child may wait for another's uid; more rounds than children can wait in line mean a fight."""
ANSWER_SECONDS = 600.0
"""How long a good answer is believed: roles and settings inside a server can change with no event."""


@dataclass(frozen=True, kw_only=True)
class Remembered:
    """A good answer, what it was an answer to, and when."""

    memo: Hashable
    answer: Answer
    at: datetime


class Gone(Exception):
    """The resource, as we know it, is no more: nothing may be written for it."""


@dataclass(kw_only=True)
class Reconciliation:
    """`run` once. `remembered` goes in as the last pass left it, and comes out for the next."""

    ports: Ports
    key: Key
    kind: Kind
    cr: Object
    remembered: Remembered | None = None
    _children: dict[Ref, Object] = field(default_factory=dict)
    _entropy: bytes = field(default_factory=lambda: os.urandom(32), repr=False)

    async def run(self) -> Outcome:
        """:raises Gone: where the resource is no more.
        :raises ApiError: when the pass could not be ended; it is to be tried again.
        """
        await self._gather()
        bare = not self._children and not self.cr.get("status")
        paused = self.kind.paused(self.cr)
        problem = self.kind.refuse(self.cr, self._observed())
        settled, refusal = False, None
        if problem is None and paused:
            decided = await self._decide(looking=True)
            settled, problem = not decided.actions, decided.problem
        elif problem is None:
            try:
                problem, refusal = await self._converge()
            except ApiError:
                await self._own_up()
                raise
            settled = problem is None
            if settled and bare and self._children:
                return After(0)  # the children of others come before this one's status
        answer = await self._inquire() if settled else None
        findings = Findings(settled=settled, problem=problem, answer=answer, paused=paused)
        report = self.kind.status(self.cr, self._observed(), findings)
        await self._report(report)
        if refusal is not None:
            raise refusal
        return report.outcome

    async def _own_up(self) -> None:
        """Where children fail to be made, time and again perhaps, the resource is not left without a word."""
        if not self.cr.get("status"):
            with contextlib.suppress(ApiError):
                await self._report(self.kind.status(self.cr, self._observed(), Findings(settled=False)))

    async def _converge(self) -> tuple[Problem | None, Refused | None]:
        """Write what differs until nothing does; returns what hinders, and the refusal if that is it."""
        written: list[Action] = []
        refusal: Refused | None = None
        was_taken_up = taken_up(self.cr)
        looking = was_taken_up
        for _ in range(ROUNDS):
            decided = await self._decide(looking=looking)
            if decided.problem is not None:
                return decided.problem, None
            actions = [action for action in decided.actions if action not in written]
            if not actions:
                if decided.actions and refusal is None:  # a mutating webhook, say: what we can have, we have
                    self._log(logging.WARNING, "a child does not stay as it was applied")
                break
            repairing = was_taken_up and not written
            if not written:
                await self._announce()
            for action in actions:
                written.append(action)
                try:
                    await self._act(action)
                except Conflict:
                    if looking or not isinstance(action, Apply) or not action.new:
                        raise
                    looking = True
                    written.remove(action)
                    break
                except Refused as error:
                    refusal = refusal or error
                    if not isinstance(action, Apply) or action.new:
                        return _refused(refusal)  # what comes after may need it
                else:
                    if repairing and isinstance(action, Apply) and (action.new or action.drift):
                        self.ports.repaired(self.kind.type, self.cr, action)
        else:
            self._log(logging.WARNING, f"children still differ after {ROUNDS} rounds")
        return _refused(refusal) if refusal is not None else (None, None)

    async def _decide(self, *, looking: bool) -> Plan:
        """What to write. If `looking`, names that we do not know to be taken are looked up first.

        That costs a new resource a request for each child, where the server refuses to create over what is
        there in any case; so only where nothing may be made before all names are known to be free.
        """
        wanted = self.kind.desired(self.cr, self._observed())
        if looking or any(child.once for child in wanted):
            await self._look_up(wanted)
        return plan(type=self.kind.type, cr=self.cr, desired=wanted, observed=self._children)

    def _observed(self) -> Observed:
        return Observed(
            children=self._children,
            now=self.ports.clock(),
            entropy=self._entropy,
            sought=self.ports.store.sought(self.key),
        )

    async def _gather(self) -> None:
        """What the store has, with the Secrets' content read live: it is kept for this pass alone."""
        self._children = self.ports.store.children(self.key)
        refs = [Ref(SECRET, self.key.namespace, name) for name in self.kind.secrets(self.cr)]
        for ref, found in zip(refs, await asyncio.gather(*map(self._live, refs)), strict=True):
            self._children.pop(ref, None)
            if found is not None:
                self._children[ref] = found

    async def _look_up(self, wanted: list[Child]) -> None:
        """What we do not know of may still be there, unlabelled and someone else's: see before writing."""
        missing = [child.ref for child in wanted if child.ref not in self._children and child.type != SECRET]
        for ref, found in zip(missing, await asyncio.gather(*map(self._live, missing)), strict=True):
            if found is not None:
                self._children[ref] = found

    async def _live(self, ref: Ref) -> Object | None:
        try:
            return await self.ports.api.get(ref)
        except NotFound:
            return None

    async def _announce(self) -> None:
        """Before the first write: is the resource still there, as we know it, and does its status, if it has
        one, own up to the change?

        A watch that was cut may have hidden its deletion: what we made would be orphaned. And children are
        watched apart from it: where theirs is ahead, what follows from its new spec looks like damage.
        """
        meta = self.cr["metadata"]
        live: Object | None = None
        if not taken_up(self.cr) and self.cr.get("status"):
            # What is answered is the resource as it is: nobody need be asked besides.
            live = await self._report(self.kind.status(self.cr, self._observed(), Findings(settled=False)))
        live = live or await self._live(Ref(self.kind.type, meta["namespace"], meta["name"]))
        if live is None:
            raise self._gone()
        if live["metadata"]["uid"] != meta["uid"] or "deletionTimestamp" in live["metadata"]:
            raise Gone
        if live["metadata"].get("generation") != meta.get("generation"):
            self.ports.store.put(self.kind.type, live)
            raise Conflict(status=409, reason="Conflict", message="its spec has changed meanwhile")

    async def _act(self, action: Action) -> None:
        if isinstance(action, (Apply, Create)):
            name = action.body["metadata"].get("name")
            verb = "apply" if isinstance(action, Apply) and not action.new else "create"
            if isinstance(action, Apply):
                written = await writing.write(self.ports.api, action)
            else:
                written = await self.ports.api.create(action.type, action.body)
            self.ports.store.put(action.type, written)
            self._children[ref_of(action.type, written)] = written
            self._log(logging.INFO, f"{verb} {action.type.kind} {name}")
            return
        with contextlib.suppress(NotFound):
            await self.ports.api.delete(action.ref, uid=action.uid, resource_version=action.resource_version)
        gone = self._children.pop(action.ref)
        self.ports.store.drop(action.ref.type, gone)
        self._log(logging.INFO, f"delete {action.ref.type.kind} {action.ref.name}")

    async def _inquire(self) -> Answer | None:
        inquiry = self.kind.inquire(self.cr, self._observed())
        known, now = self.remembered, self.ports.clock()
        self.remembered = None
        if inquiry is None:
            return None
        fresh = known is not None and (now - known.at).total_seconds() < ANSWER_SECONDS
        if fresh and known is not None and known.memo == inquiry.memo:
            self.remembered = known
            return known.answer
        answer = await self._answer(inquiry)
        if answer.ok:
            self.remembered = Remembered(memo=inquiry.memo, answer=answer, at=now)
        return answer

    async def _answer(self, inquiry: Inquiry) -> Answer:
        """A server that hangs may take a minute; what happens to the children is not left until then."""
        asking = asyncio.ensure_future(self.ports.ask(inquiry))
        named = asyncio.ensure_future(self.ports.named_again(self.key))
        try:
            while True:
                await asyncio.wait({asking, named}, return_when=asyncio.FIRST_COMPLETED)
                if asking.done():
                    return asking.result()
                named = asyncio.ensure_future(self.ports.named_again(self.key))
                await self._tend()
        finally:
            asking.cancel()
            named.cancel()

    async def _tend(self) -> None:
        """Set the children right once more. A changed spec waits for its own pass, and its own answer."""
        latest = (self.ports.store.resource(self.key) or {}).get("metadata", {})
        same = latest.get("generation") == self.cr["metadata"].get("generation")
        if latest.get("uid") == self.cr["metadata"]["uid"] and same and "deletionTimestamp" not in latest:
            with contextlib.suppress(ApiError):  # the key is named: the next pass makes up for it
                await self._gather()
                await self._converge()

    async def _report(self, report: Report) -> Object | None:
        """One status patch, if anything differs; from then on the resource says so here too.

        Returns the resource as it was answered, which may be newer than ours in all else.
        """
        known = self.cr.get("status") or {}
        status = dated(report.status, known=known, now=self.ports.clock())
        patch = merge_patch(known=known, wanted=status)
        if not patch:
            return None
        meta = self.cr["metadata"]
        ref = Ref(self.kind.type, meta["namespace"], meta["name"])
        try:
            # The uid makes it fail rather than tell a namesake's story.
            body = {"metadata": {"uid": meta["uid"]}, "status": patch}
            written = await self.ports.api.merge(ref, body, subresource="status")
        except NotFound:
            raise self._gone() from None
        self.ports.store.put(self.kind.type, written)
        self.ports.tell(self.kind.type, self.cr, known, status)
        ready = find(status, "Ready")
        self._log(logging.INFO, f"status: Ready={ready.get('status')} {ready.get('reason')}")
        self.cr = {**self.cr, "status": status}
        return written

    def _gone(self) -> Gone:
        """No watch may ever tell of it: it is forgotten here, or would be taken for there until a resync."""
        self.ports.store.drop(self.kind.type, self.cr)
        return Gone()

    def _log(self, level: int, message: str) -> None:
        log.log(level, message, extra={"key": str(self.key)})


def _refused(refusal: Refused) -> tuple[Problem, Refused]:
    return Problem(reason="Refused", message=f"{refusal.message}; it is tried again."), refusal
