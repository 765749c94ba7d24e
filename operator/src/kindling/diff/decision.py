"""All that is decided for one resource, by the functions that the reconciliation calls; nothing is written.

What comes later than the first write is decided too, as far as it follows from that alone: a database that
is queued for its restart is decided once more as if its turn had come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from kindling.engine import finalizers
from kindling.engine.changes import change
from kindling.engine.compare import merge_patch
from kindling.engine.plan import Action, Apply, Plan
from kindling.engine.reconciliation import Reconciliation
from kindling.kinds.base import Observed, Problem, RestartSlot, SyncResult
from kindling.kinds.conditions import find_condition
from kindling.kinds.planned import Change, Disruption
from kindling.kube.resources import STATEFUL_SET, Object, Ref, ref_of

PENDING = "RestartPending"


@dataclass(frozen=True, kw_only=True)
class Decided:
    """Of one resource. `objects` is what was observed of its children.

    `changes` are the actions with what each changes and disrupts, `in_turn` those that the restart queue
    comes to; `restarted` is what it costs once Pods that are held back follow, `pending` the condition
    RestartPending until then. `decisions` and `finalizer` are written into the resource itself. `members`
    are those whose answers decide what is done in them, and what follows from that.
    """

    cr: Object
    objects: Mapping[Ref, Object]
    problem: Problem | None = None
    paused: bool = False
    changes: Sequence[tuple[Action, Change, Disruption]] = ()
    in_turn: Sequence[tuple[Action, Change, Disruption]] = ()
    restarted: Mapping[Ref, Disruption] = field(default_factory=dict)
    pending: Object | None = None
    decisions: Sequence[str] = ()
    finalizer: bool = False
    members: Sequence[str] = ()


@dataclass(kw_only=True)
class Decision(Reconciliation):
    """`decide` once."""

    async def decide(self) -> Decided:
        """:raises ApiError: when something that is read by its name cannot be."""
        if self.kind.plan_for(self.cr) or self._is_released():
            return Decided(cr=self.cr, objects={})  # It has no children, or will be gone.
        await self._gather()
        before, paused = self.cr, self.kind.paused(self.cr)
        deleted = finalizers.is_deleted(before)
        problem = None if deleted else self.kind.validate(before, self._observed())
        if paused or problem is not None:
            return Decided(cr=before, objects=self._objects, problem=problem, paused=paused)
        decisions = self._take_decisions()
        plan = await self._decide(check_existing=True)
        if plan.problem is not None:
            return Decided(cr=before, objects=self._objects, problem=plan.problem)
        observed = self._observed()
        return Decided(
            cr=before,
            objects=self._objects,
            changes=self._changes(plan),
            in_turn=() if deleted else await self._in_turn(),
            restarted=self._restarted(plan),
            pending=None if deleted else self._pending(plan),
            decisions=decisions,
            finalizer=finalizers.due_patch(self.kind, before) is not None,
            members=self._members(observed, deleted=deleted),
        )

    def _members(self, observed: Observed, *, deleted: bool) -> Sequence[str]:
        asked = {name for name, probe in self.kind.probes(self.cr, observed).items() if not probe.background}
        actions = (
            self.kind.finish(self.cr, observed).actions
            if deleted
            else self.kind.external_actions(self.cr, observed)
        )
        return sorted(asked | {action.member for action in actions})

    def _is_released(self) -> bool:
        return finalizers.is_deleted(self.cr) and not finalizers.has_finalizer(self.kind, self.cr)

    def _take_decisions(self) -> Sequence[str]:
        """As `_store_decisions` would write them, into our copy alone."""
        known = self.cr.get("status") or {}
        wanted = self.kind.durable_state(self.cr, self._observed())
        changed = merge_patch(known={name: known.get(name) for name in wanted}, wanted=dict(wanted))
        status = {name: value for name, value in {**known, **wanted}.items() if value is not None}
        if changed:
            self.cr = {**self.cr, "status": status}
        return sorted(changed)

    def _changes(self, plan: Plan) -> Sequence[tuple[Action, Change, Disruption]]:
        observed = self._observed()
        found = [(action, change(action, self._objects)) for action in (*plan.actions, *plan.later)]
        return [(action, each, self.kind.disruption_of(self.cr, observed, each)) for action, each in found]

    async def _in_turn(self) -> Sequence[tuple[Action, Change, Disruption]]:
        """What is decided of each member that is to be disrupted once it has the slot."""
        found: list[tuple[Action, Change, Disruption]] = []
        for member in self.kind.disruptions(self.cr, self._observed()) or ():
            self._restart_slot = RestartSlot(granted=True, member=member)
            try:
                granted = self._changes(await self._decide(check_existing=True))
            finally:
                self._restart_slot = RestartSlot()
            found += [item for item in granted if item[2] != Disruption.NONE]
        return found

    def _restarted(self, plan: Plan) -> Mapping[Ref, Disruption]:
        observed = self._observed()
        found = [change(action, self._objects) for action in plan.actions]
        return {
            each.ref: self.kind.disruption_of(self.cr, observed, replace(each, held=False))
            for each in found
            if each.held
        }

    def _pending(self, plan: Plan) -> Object | None:
        """The condition that the status would have once the StatefulSets are as planned and keep their Pods.

        The controller is the one that sees that a Pod is not of the present template; here it has.
        """
        after = dict(self._objects)
        for action in plan.actions:
            if isinstance(action, Apply) and action.type == STATEFUL_SET and not action.new:
                ref = ref_of(action.type, action.body)
                after[ref] = _as_observed_by_controller(after[ref], action.body)
        observed: Observed = replace(self._observed(), objects=after)
        report = self.kind.status(self.cr, observed, SyncResult(in_sync=True))
        return find_condition(report.status, PENDING) or None


def _as_observed_by_controller(known: Object, body: Object) -> Object:
    meta, annotations = known["metadata"], body["metadata"].get("annotations") or {}
    generation = int(meta.get("generation") or 0) + 1
    return {
        **known,
        "metadata": {
            **meta,
            "generation": generation,
            "annotations": {**(meta.get("annotations") or {}), **annotations},
        },
        "spec": {**(known.get("spec") or {}), **body.get("spec", {})},
        "status": {**(known.get("status") or {}), "observedGeneration": generation, "updateRevision": None},
    }
