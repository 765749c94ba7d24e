"""The condition RestartPending: a later operator's change waits for a restart of the Pod, and for which.

Derived from the StatefulSet and the restart queue (`Observed.restart_slot`). Nothing is wrong meanwhile, so
Ready stays what it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from kindling.kinds import reasons
from kindling.kinds.base import Observed
from kindling.kinds.postgresql import approval, maintenance_window, observation, updates
from kindling.kinds.postgresql.spec import pod_name
from kindling.kube.resources import Object

TYPE = "RestartPending"


@dataclass(frozen=True, kw_only=True)
class Pending:
    """`reason` and `message` of the condition; `opens` is when time alone changes it."""

    reason: str
    message: str
    opens: datetime | None = None


def image(cr: Object, observed: Observed) -> str | None:
    """The image in force: that of the running Pod. None while there is none, or it is being replaced."""
    workload, pod = observation.find_workload(cr, observed), observation.current_pod(cr, observed)
    if workload is None or pod is None:
        return None
    if observation.is_updated(workload, pod):
        return updates.image_of(workload) or None
    return (workload["metadata"].get("annotations") or {}).get(updates.IMAGE)


def pending(cr: Object, observed: Observed) -> Pending | None:
    """What the Pod lacks and when it comes; None where it lacks nothing, or is on its way."""
    workload, pod = observation.find_workload(cr, observed), observation.find_pod(cr, observed)
    if workload is None or pod is None or not observation.is_held(workload):
        return None
    if observation.is_updated(workload, pod):
        return None
    if approval.noted(workload) is not None:
        return Pending(
            reason=reasons.APPROVAL_PENDING,
            message="The Pod is of the template before; the change waits for an approval, whose name is in "
            "status.approvals.",
        )
    runs, comes = image(cr, observed), updates.image_of(workload)
    other = runs != comes
    lacks = f"The server runs {runs}; the operator has {comes}" if other else "The operator has a newer Pod"
    now = f"`kubectl rollout restart statefulset {cr['metadata']['name']}` restarts it now."
    rule = updates.policy(cr)
    if rule == updates.MANUAL:
        return Pending(reason=reasons.MANUAL, message=f"{lacks}, which you restart yourself: {now}")
    if rule == updates.ON_RESTART or not other:
        when = f"comes when Pod {pod_name(cr)} is next created"
        return Pending(reason=reasons.NEXT_RESTART, message=f"{lacks}, which {when}: {now}")
    opens = maintenance_window.opens(cr, observed.now)
    if opens is not None:
        window = maintenance_window.clock(opens)
        message = f"{lacks}, which waits for the maintenance window at {window}: {now}"
        return Pending(reason=reasons.AWAITING_WINDOW, opens=opens, message=message)
    restart_slot = observed.restart_slot
    if restart_slot.halted:
        return Pending(
            reason=reasons.RESTARTS_HALTED,
            message=f"{lacks}, but no server is restarted before the last one is Ready again, which takes "
            f"longer than ten minutes: the operator's log names it. {now}",
        )
    place = (
        f"{restart_slot.place} of {restart_slot.length} when last looked at"
        if restart_slot.place
        else "place not known yet"
    )
    return Pending(reason=reasons.QUEUED, message=f"{lacks}, which is queued ({place}): {now}")
