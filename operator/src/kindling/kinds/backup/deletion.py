"""What a deleted Backup does before it goes, with `deletionPolicy: Delete`: its database stops archiving, and
a run deletes what is stored.

In that order: a server that archives on would fill its volume, with a log that no store takes.
"""

from __future__ import annotations

from kindling.kinds import reasons
from kindling.kinds.backup import results
from kindling.kinds.backup.archive import Facts
from kindling.kinds.backup.results import FAILED, RUNNING, SUCCEEDED
from kindling.kinds.backup.runs import DELETE
from kindling.kinds.backup.situation import Situation
from kindling.kinds.base import Child, Finish, Observed, Problem, RequeueAfter, StatusReport
from kindling.kinds.conditions import condition, find_condition, standard_conditions
from kindling.kube.resources import Object

FINALIZER = "kindling.dev/stored-backups"
HIBERNATED = "hibernated"
EVERY_SECONDS = 5.0
KEEP = "To keep what is stored and let this Backup go, set spec.deletionPolicy to Retain."


def is_wanted(cr: Object) -> bool:
    return (cr.get("spec") or {}).get("deletionPolicy") == "Delete"


def is_due(cr: Object) -> bool:
    """Whether it is deleted, and something of it is to be deleted in the store.

    One that never had a run stored nothing: what is at its place in the store is another's.
    """
    known = cr.get("status") or {}
    return "deletionTimestamp" in cr["metadata"] and is_wanted(cr) and bool(known.get("attempts"))


def is_done(cr: Object) -> bool:
    """Whether the run that deletes has succeeded, or there is nothing for it."""
    return not is_due(cr) or any(run["action"] == DELETE and run["phase"] == SUCCEEDED for run in _runs(cr))


def problem(cr: Object, observed: Observed, situation: Situation) -> Problem | None:
    """Why the run that deletes cannot begin; None if it can."""
    if situation.repository is None:
        return situation.wait or Problem(
            reason=reasons.RECONCILING, message="Which data was backed up is not known.", transient=True
        )
    name = situation.spec.database
    if situation.database is not None and not _stopped_archiving(situation.database, situation.facts):
        return Problem(
            reason=reasons.DELETING_BACKUPS,
            message=f"Postgresql {name} stops archiving first, which takes a restart of its server; see its "
            f"conditions (`kubectl describe postgresqls.{situation.spec.database_type.group} {name} -n "
            f"{situation.namespace}`) if that does not come. {KEEP}",
            transient=True,
        )
    for job, found in sorted(results.jobs(cr, observed).items()):
        if results.action_of(found) != DELETE and results.ended(found) is None:
            return Problem(
                reason=reasons.DELETING_BACKUPS,
                message=f"A run is under way (`kubectl logs job/{job} -n {situation.namespace}`): wait, or "
                "delete its Job to go on at once.",
                transient=True,
            )
    return None


def _stopped_archiving(database: Object, facts: Facts | None) -> bool:
    """By the server's own word. One that is hibernated begins without the archiver."""
    if facts is not None:
        return facts.mode == "off"
    return (database.get("status") or {}).get("pgPhase") == HIBERNATED


def finish(cr: Object, observed: Observed, situation: Situation, children: list[Child]) -> Finish:
    """`children` are those of a Backup that stays, in the form that they have while it is deleted."""
    return Finish(
        done=is_done(cr),
        children=children,
        report=_report(cr, problem(cr, observed, situation), situation),
    )


def _report(cr: Object, problem: Problem | None, situation: Situation) -> StatusReport:
    known, generation = cr.get("status") or {}, int(cr["metadata"].get("generation", 0))
    newest = next((run for run in _runs(cr) if run["action"] == DELETE), None)
    if newest is not None and newest["phase"] == FAILED:
        said = newest.get("message") or "See the log of its Pod."
        problem = Problem(
            reason=newest.get("reason") or reasons.RUN_FAILED,
            message=f"What is stored could not be deleted: {said} It is repeated by itself. {KEEP}",
        )
    elif newest is not None and newest["phase"] == RUNNING:
        log = f"`kubectl logs job/{newest['name']} -n {situation.namespace}`"
        message = f"What is stored is being deleted ({log}); wait."
        problem = Problem(reason=reasons.DELETING_BACKUPS, message=message, transient=True)
    problem = problem or Problem(
        reason=reasons.DELETING_BACKUPS, message="What is stored is about to be deleted.", transient=True
    )
    conditions = standard_conditions(
        ready=False,
        available=known.get("lastSuccessfulBackupTime") is not None and newest is None,
        broken=not problem.transient,
        reason=problem.reason,
        message=problem.message,
        serving="There is a backup to restore.",
        generation=generation,
    )
    for type in ("Archiving", "Verified"):
        before = find_condition(known, type)
        truth = {"True": True, "False": False}.get(str(before.get("status")))
        reason, message = (
            (before["reason"], before["message"]) if before else (problem.reason, problem.message)
        )
        if type == "Archiving":
            truth, reason = False, reasons.DELETING_BACKUPS
            message = "This Backup is deleted: its database archives no longer, or is about to stop."
        conditions.append(condition(type, truth, reason=reason, message=message, generation=generation))
    return StatusReport(
        status={"observedGeneration": generation, "conditions": conditions},
        result=RequeueAfter(EVERY_SECONDS),
    )


def _runs(cr: Object) -> list[Object]:
    found: list[Object] = (cr.get("status") or {}).get("runs") or []
    return found
