"""A restore into the volume of a Postgresql that is there, and the way back: what is kept on record of it.

The server is stopped first, by way of the Secret that `postgresql.in_place` reads, and what it answers in its
status is waited for. A run that fails is not retried: whatever it ends with, the server starts again, on
the data that is restored or on that which it had.
"""

from __future__ import annotations

from typing import Any

from kindling.kinds import reasons
from kindling.kinds.backup import results
from kindling.kinds.backup.results import FAILED, SUCCEEDED
from kindling.kinds.base import Child, Observed, Problem
from kindling.kinds.conditions import rfc3339
from kindling.kinds.metadata import child_metadata
from kindling.kinds.postgresql import in_place
from kindling.kinds.postgresql import spec as databases
from kindling.kinds.restore import decisions, start_deadline
from kindling.kinds.restore.decisions import (
    COMPLETED,
    GAVE_UP,
    RESTORED,
    RESTORING,
    STOPPING,
    UNDOING,
    UNDONE,
)
from kindling.kinds.restore.situation import Situation, is_up
from kindling.kube.resources import SECRET, Object, Ref, ResourceType

FINALIZER = "kindling.dev/restore"
AT_WORK = (STOPPING, RESTORING, UNDOING)
"""The phases in which the server is stopped: with the resource, it would start beside a run."""
MOST_ATTEMPTS = 3
"""Of runs that left no result. One may have come to its end: the next says so, and changes nothing."""


def decide(cr: Object, observed: Observed, situation: Situation) -> dict[str, Any]:
    """The new values of what changes once it was begun; None removes a field."""
    phase = decisions.phase_of(cr)
    if phase == STOPPING:
        # Of a Postgresql that is not seen nothing follows: an operator that has just started sees none.
        return {"phase": RESTORING} if _stopped_for(cr, situation) == in_place.RESTORING else {}
    if phase == RESTORING:
        return _restoring(cr, observed)
    if phase == UNDOING:
        return _undoing(cr, observed, situation)
    kept = phase in (RESTORED, COMPLETED) or is_unsure(cr)
    if kept and situation.spec.undo and not (cr.get("status") or {}).get("undoStartedAt"):
        return {"phase": UNDOING}
    return {"phase": COMPLETED} if phase == RESTORED and _answers(cr, situation, kept=True) else {}


def secret(type: ResourceType, cr: Object, *, database: str) -> Child:
    """What the Postgresql reads: the step that it is to stop for, or that its data is kept.

    Metadata alone: that is all that is known of a Secret which no kind reads, so all else would be written
    again and again.
    """
    metadata = child_metadata(type, cr, name=in_place.secret_name(database))
    metadata["annotations"] = {in_place.STEP: _step(cr)}
    return Child(type=SECRET, body={"metadata": metadata})


def problem(cr: Object, situation: Situation, observed: Observed) -> Problem | None:
    """Why it does not begin: there is nothing to restore into, or another Restore is at it."""
    name = situation.spec.database
    field = f"spec.databaseRef.name {name!r}"
    if situation.database is None:
        return no_database(situation)
    other = observed.watched.get(Ref(SECRET, cr["metadata"]["namespace"], in_place.secret_name(name)))
    found = in_place.owner_of(other) if other is not None else None
    if found is not None and found.uid != cr["metadata"]["uid"]:
        return Problem(
            reason=reasons.ANOTHER_RESTORE,
            message=f"{field}: Restore {found.restore} has restored it in place, or is about to. Delete that "
            "Restore once the data from before it is not needed any more; this one then begins.",
            transient=True,
        )
    has = str((situation.database.get("status") or {}).get("systemIdentifier") or "")
    wants = str(situation.data.get("systemIdentifier") or "")
    if has != wants:
        return Problem(
            reason=reasons.REPOSITORY_OF_ANOTHER_DATABASE,
            message=f"{field} has other data (system identifier {has or 'not known yet'}) than the backups "
            f"({wants}); nothing was changed. Restore it into a new Postgresql: leave out spec.into.",
        )
    if paused := databases.paused_by(situation.database):
        return Problem(
            reason=reasons.PAUSED,
            message=f"{field} is only observed ({paused}), so its server is not stopped: "
            f"{databases.resumed(paused)}.",
            transient=True,
        )
    return None


def no_database(situation: Situation) -> Problem:
    return Problem(
        reason=reasons.DATABASE_NOT_FOUND,
        message=f"spec.databaseRef.name {situation.spec.database!r}: there is no such Postgresql in this "
        "namespace to restore in place. Create it, or delete this Restore and create one without spec.into.",
        transient=True,
    )


def undo_name(cr: Object) -> str:
    return f"{cr['metadata']['name']}-undo-1"


def run_name(cr: Object) -> str | None:
    """The Job that it is at, in the phases that have one."""
    phase = decisions.phase_of(cr)
    if phase == RESTORING:
        return decisions.job_name(cr, decisions.attempt_of(cr))
    return undo_name(cr) if phase == UNDOING else None


def is_at_work(cr: Object, observed: Observed) -> bool:
    """Whether a run may be changing the volume: a deleted resource waits for its end."""
    job = results.jobs(cr, observed).get(run_name(cr) or "")
    return job is not None and results.ended(job) is None


def is_unsure(cr: Object) -> bool:
    """Whether it was given up without a result: the data may be in place. A run that did not start in time
    may still have done so before it was ended.
    """
    failure = (cr.get("status") or {}).get("failure") or {}
    no_result = failure.get("reason") in (reasons.RUN_FAILED, reasons.RUN_NOT_STARTED)
    return decisions.phase_of(cr) == GAVE_UP and no_result


def waits_for_the_stop(cr: Object) -> bool:
    """Whether it is the server's stop that is waited for."""
    status = cr.get("status") or {}
    return status.get("phase") == STOPPING or (
        status.get("phase") == UNDOING and not status.get("undoStartedAt")
    )


def _restoring(cr: Object, observed: Observed) -> dict[str, Any]:
    attempt = decisions.attempt_of(cr)
    name = decisions.job_name(cr, attempt)
    entry = decisions.ended(cr, observed, name)
    if entry is None:
        return start_deadline.decide(cr, observed, name)
    if entry["unsure"] and start_deadline.is_over(cr):
        return {"phase": GAVE_UP, "stoppedAt": entry["stoppedAt"]}
    if entry["unsure"] and attempt < MOST_ATTEMPTS:
        return {"attempt": attempt + 1}
    found = decisions.outcome(entry, attempt)
    return (
        found if entry["phase"] == SUCCEEDED else {**found, "phase": GAVE_UP, "stoppedAt": entry["stoppedAt"]}
    )


def _undoing(cr: Object, observed: Observed, situation: Situation) -> dict[str, Any]:
    status = cr.get("status") or {}
    if status.get("undoStoppedAt"):
        return {"phase": UNDONE} if _answers(cr, situation, kept=False) else {}
    if not status.get("undoStartedAt"):
        stopped = _stopped_for(cr, situation) == in_place.UNDOING
        return {"undoStartedAt": rfc3339(observed.now)} if stopped else {}
    entry = decisions.ended(cr, observed, undo_name(cr))
    if entry is None:
        return start_deadline.decide(cr, observed, undo_name(cr))
    if entry["unsure"] and start_deadline.is_over(cr):
        return {"phase": COMPLETED}
    if entry["phase"] == FAILED:
        failure = {name: entry[name] for name in ("reason", "message")}
        known = {"attempt": decisions.attempt_of(cr), "at": entry["stoppedAt"]}
        return {"phase": COMPLETED, "failure": {**failure, **known}}
    return {"undoStoppedAt": entry["stoppedAt"]}


def _said(cr: Object, situation: Situation) -> Object:
    found: Object = ((situation.database or {}).get("status") or {}).get(in_place.FIELD) or {}
    return found if found.get("uid") == cr["metadata"]["uid"] else {}


def _stopped_for(cr: Object, situation: Situation) -> str | None:
    return _said(cr, situation).get("stoppedFor")


def _answers(cr: Object, situation: Situation, *, kept: bool) -> bool:
    """Whether the server is up with the data. With `kept` it is to say that the data from before is kept,
    else that no Restore is at it.
    """
    said = _said(cr, situation)
    return bool(said) is kept and not said.get("stoppedFor") and is_up(situation.database)


def _step(cr: Object) -> str:
    phase = decisions.phase_of(cr)
    if phase in (STOPPING, RESTORING):
        return in_place.RESTORING
    if phase == UNDOING and not (cr.get("status") or {}).get("undoStoppedAt"):
        return in_place.UNDOING
    return in_place.KEPT if phase in (RESTORED, COMPLETED) or is_unsure(cr) else in_place.OVER
