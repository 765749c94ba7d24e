"""A resource that is only a plan for another one: what would be done if that one had this spec.

It has no children and changes nothing. All of what is decided for the other one is decided with this spec in
place of its own, from the other's children, and only the plan of it is kept, in this one's status.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kindling.engine.changes import changes
from kindling.engine.dependencies import Dependencies
from kindling.engine.reconciliation import Reconciliation
from kindling.engine.resource_writer import ResourceWriter
from kindling.engine.store import Key
from kindling.kinds import reasons
from kindling.kinds.base import Done, Kind, Probe, RequeueAfter, Result, StatusReport, SyncResult
from kindling.kinds.conditions import condition, standard_conditions
from kindling.kinds.planned import COMPARE
from kindling.kube.resources import Object

AGAIN_SECONDS = 5.0
"""When a server that could not be compared is asked again."""


@dataclass(kw_only=True)
class PlanFor(Reconciliation):
    """`key` and `cr` are the other's, with the proposed spec; `asker` is the resource that is the plan."""

    asker: ResourceWriter

    async def run(self) -> Result:
        await self._gather()
        await self._probe(self.kind.probes(self.cr, self._observed()))
        with self._step("validate"):
            problem = self.kind.validate(self.cr, self._observed())
        sync = SyncResult(in_sync=False, problem=problem, paused=True)
        if problem is None:
            decided = await self._decide(check_existing=True)
            sync = SyncResult(
                in_sync=not decided.actions,
                problem=decided.problem,
                paused=True,
                changes=changes(decided, self._objects),
            )
        plan: Object = self.kind.status(self.cr, self._observed(), sync).status["plan"]
        await self.asker._report(StatusReport(status=self._status(plan), result=Done()))
        open_ = any(item["action"] == COMPARE for item in plan["items"])
        return RequeueAfter(AGAIN_SECONDS) if open_ else Done()

    async def _probe(self, probes: Mapping[str, Probe]) -> None:
        """Beside those of the other one, which has its own."""
        state = self.dependencies.external_state
        state.keep(self.asker.key, probes)
        with self._step("probe"):
            await state.probe(self.asker.key, probes)
        self._results = state.results(self.asker.key)

    def _status(self, plan: Object) -> Object:
        generation = int(self.asker.cr["metadata"].get("generation", 0))
        message = (
            f"spec.planFor names {self.kind.type.kind} {self.key.name}: this resource makes nothing, and "
            "status.plan has what would be done; delete it once that is read."
        )
        conditions = standard_conditions(
            ready=False,
            available=False,
            broken=False,
            reason=reasons.PAUSED,
            message=message,
            serving="",
            generation=generation,
        )
        conditions = [{**item, "status": "False"} for item in conditions]
        paused = condition("Paused", True, reason=reasons.PAUSED, message=message, generation=generation)
        return {"observedGeneration": generation, "conditions": [*conditions, paused], "plan": plan}


def reconciliation(dependencies: Dependencies, key: Key, kind: Kind, cr: Object) -> Reconciliation:
    """Of the resource itself, or of the plan that it is."""
    name = kind.plan_for(cr)
    if not name:
        return Reconciliation(dependencies=dependencies, key=key, kind=kind, cr=cr)
    other = key._replace(name=name)
    proposed = kind.proposed(cr, dependencies.store.resource(other))
    asker = ResourceWriter(dependencies=dependencies, key=key, kind=kind, cr=cr)
    return PlanFor(dependencies=dependencies, key=other, kind=kind, cr=proposed, asker=asker)
