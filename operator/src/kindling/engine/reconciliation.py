"""One pass over one resource: gather, decide, act, report. The engine's only writer of children and status.

Knows no kind and no HTTP: kinds come by their contract, the API and the inquiries by `Ports`. What
lasts longer than a pass (which keys, when again) is the worker's, and `Answers`'.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from dataclasses import dataclass, field

from kindling.engine import writing
from kindling.engine.compare import merge_patch
from kindling.engine.plan import Action, Apply, Create, Plan, plan
from kindling.engine.ports import Ports
from kindling.engine.said import failing, last_said, refused
from kindling.engine.store import Key
from kindling.kinds.conditions import dated, find, gist, status_of, taken_up, whole
from kindling.kinds.contract import (
    After,
    Answer,
    Child,
    Findings,
    Heard,
    Kind,
    Observed,
    Outcome,
    Problem,
    Report,
    Said,
    Turn,
)
from kindling.kube.errors import ApiError, Conflict, NotFound, Refused
from kindling.kube.resources import SECRET, Object, Ref, ref_of

log = logging.getLogger(__name__)

ROUNDS = 4
"""A child may wait for another's uid; more rounds than children can wait in line mean a fight."""
ANSWER_SECONDS = 60.0
"""An answer that is not there yet names the key when it comes; should that be lost, it is asked again."""


class Gone(Exception):
    """The resource, as we know it, is no more: nothing may be written for it."""


@dataclass(kw_only=True)
class Reconciliation:
    """`run` once."""

    ports: Ports
    key: Key
    kind: Kind
    cr: Object
    _children: dict[Ref, Object] = field(default_factory=dict)
    _heard: Heard | None = None
    _turn: Turn = field(default_factory=Turn)
    _warnings: dict[Ref, Said] = field(default_factory=dict)
    _entropy: bytes = field(default_factory=lambda: os.urandom(32), repr=False)

    async def run(self) -> Outcome:
        """:raises Gone: where the resource is no more.
        :raises ApiError: when the pass could not be ended; it is to be tried again.
        """
        self._heard = known = self.ports.answers.heard(self.key)
        await self._gather()
        bare = not self._children and not status_of(self.cr)
        paused = self.kind.paused(self.cr)
        problem = self.kind.refuse(self.cr, self._observed())
        settled, refusal = False, None
        self._turn = await self.ports.turns.ask(self.key, self._wants_turn(problem))
        if problem is None and paused:
            decided = await self._decide(looking=True)
            settled, problem = not decided.actions, decided.problem
        elif problem is None:
            try:
                problem, refusal = await self._converge()
            except ApiError as error:
                await self._own_up(error)
                raise
            settled = problem is None
            if settled and bare and self._children:
                return After(0)  # the children of others come before this one's status
        # A child that is refused keeps nothing from the workload; what is not ours to write is not asked.
        answer: Answer | None = None
        if settled or refusal is not None:
            inquiry = self.kind.inquire(self.cr, self._observed())
            if inquiry is None:
                self.ports.answers.forget(self.key)
            else:
                answer = await self.ports.answers.of(self.key, inquiry)
                if answer is not None:
                    self._heard = Heard(memo=inquiry.memo, answer=answer)
                elif status_of(self.cr) and refusal is None:
                    return After(ANSWER_SECONDS)  # what was said last stands until there is something new
        if self._heard != known and not paused:
            problem, refusal = await self._converge()  # the children that follow from the answer
            settled = problem is None
        deaf = await self._listen() if settled else None
        findings = Findings(settled=settled, problem=problem, answer=answer, paused=paused)
        report = self.kind.status(self.cr, self._observed(), findings)
        await self._report(report)
        if (failure := refusal or deaf) is not None:
            raise failure
        ready = find(report.status, "Ready").get("status") == "True"
        await self.ports.turns.settle(self.key, self._wants_turn(problem), ready=ready)
        return report.outcome

    def _wants_turn(self, problem: Problem | None) -> bool | None:
        """Whatever keeps us from acting keeps it from wanting a turn, though not from keeping one."""
        if self.kind.paused(self.cr):
            return None
        return self.kind.wants_turn(self.cr, self._observed()) and problem is None

    async def _own_up(self, error: ApiError) -> None:
        """Where children fail to be made, time and again perhaps, the resource is not left without a word."""
        known, problem = status_of(self.cr), failing(error)
        if known and (problem is None or find(known, "Ready").get("status") == "True"):
            return
        report = self.kind.status(self.cr, self._observed(), Findings(settled=False, problem=problem))
        # Words that differ each time would be written each time, and each write is an event to look again.
        if gist(report.status) != gist(known):
            with contextlib.suppress(ApiError):
                await self._report(report)

    async def _listen(self) -> ApiError | None:
        """What is said of children in trouble. Returns why that is not known: the status does without."""
        asked = self.kind.warnings(self.cr, self._observed())
        try:
            self._warnings = await last_said(self.ports.api, asked, self._children)
        except ApiError as error:
            return error
        return None

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
                        return refused(refusal), refusal  # what comes after may need it
                else:
                    if repairing and isinstance(action, Apply) and (action.new or action.drift):
                        self.ports.repaired(self.kind.type, self.cr, action)
        else:
            self._log(logging.WARNING, f"children still differ after {ROUNDS} rounds")
        return (refused(refusal), refusal) if refusal is not None else (None, None)

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
            heard=self._heard,
            turn=self._turn,
            warnings=self._warnings,
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
        if not taken_up(self.cr) and status_of(self.cr):
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

    async def _report(self, report: Report) -> Object | None:
        """One status patch, if anything differs; from then on the resource says so here too.

        Returns the resource as it was answered, which may be newer than ours in all else.
        """
        known = self.cr.get("status") or {}
        status = dated(whole(report), known=known, now=self.ports.clock())
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
