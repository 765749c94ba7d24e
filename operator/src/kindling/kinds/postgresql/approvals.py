"""`status.approvals`: the acts that wait for an approval, and what they keep the resource from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from kindling.kinds.base import Observed
from kindling.kinds.postgresql import approval, drops, maintenance_window, observation, planned
from kindling.kinds.postgresql.approval import Act
from kindling.kinds.postgresql.spec import is_ephemeral
from kindling.kube.resources import Object, ResourceType

LONGEST_MESSAGE = 1024
"""What the CRD admits."""


@dataclass(frozen=True, kw_only=True)
class Approvals:
    """What waits. `edits`: some of it is what the spec asks for, so the resource is not as it is to be.

    `opens` is when the maintenance window approves it, `message` says what it is and what approves it.
    """

    acts: Sequence[Act] = ()
    edits: bool = False
    message: str = ""
    opens: datetime | None = None

    def status(self) -> Object:
        """The part of the status; nothing where nothing waits."""
        return {"approvals": [act.written() for act in self.acts]} if self.acts else {}


def read(type: ResourceType, cr: Object, observed: Observed) -> Approvals:
    """From the StatefulSet, which notes the restart that waits, and from the databases to drop."""
    workload = observation.find_workload(cr, observed)
    restart, drop = _restart(cr, workload), _drop(cr, observed)
    acts = [act for act in (restart, drop) if act is not None]
    if not acts:
        return Approvals()
    opens = approval.opens(cr, restart, observed.now) if restart is not None else None
    window = ""
    if opens is not None:
        window = f"; at {maintenance_window.clock(opens)} the maintenance window has it restarted"
    what = " ".join(act.message for act in acts)
    return Approvals(
        acts=acts,
        # A later operator's image comes with the next Pod, an edit of the spec does not.
        edits=drop is not None or not observation.is_on_delete(workload or {}),
        message=f"{what} Approve with {approval.command(type, cr, acts)}{window}.",
        opens=opens,
    )


def _restart(cr: Object, workload: Object | None) -> Act | None:
    act = approval.noted(workload)
    if act is None:
        return None
    if workload is not None and not observation.is_held(workload):
        message = f"Parameters wait for approval: {planned.WITHIN_POD}."
        return replace(act, message=message)
    what = planned.DATA_GOES if is_ephemeral(cr) else planned.one_restart(cr)
    return replace(act, message=f"A change of the Pod waits for approval: {what}.")


def _drop(cr: Object, observed: Observed) -> Act | None:
    act = drops.awaited(cr, observed)
    if act is None:
        return None
    names = ", ".join(drops.all_of(cr, "databases"))
    message = f"That databases are dropped with all of their data waits for approval: {names}"
    return replace(act, message=f"{message[: LONGEST_MESSAGE - 1]}.")
