"""What a deleted Backup does before it goes, with `deletionPolicy: Delete`: its database stops archiving, and
a run deletes what is stored.

In that order: a server that archives on would fill its volume, with a log that no store takes.
"""

from __future__ import annotations

from kindling.kinds import reasons
from kindling.kinds.backup import results
from kindling.kinds.backup.results import SUCCEEDED
from kindling.kinds.backup.runs import DELETE
from kindling.kinds.backup.situation import Situation
from kindling.kinds.base import Observed, Problem
from kindling.kinds.conditions import find_condition
from kindling.kinds.postgresql.spec import HIBERNATED
from kindling.kube.resources import Object

FINALIZER = "kindling.dev/stored-backups"
EVERY_SECONDS = 5.0
WAITS = ("Paused", "RestartPending")
"""Conditions of a Postgresql whose server is not restarted now."""
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
    return not is_due(cr) or any(run["action"] == DELETE and run["phase"] == SUCCEEDED for run in runs(cr))


def problem(cr: Object, observed: Observed, situation: Situation) -> Problem | None:
    """Why the run that deletes cannot begin; None if it can."""
    if situation.repository is None:
        return situation.wait or Problem(
            reason=reasons.RECONCILING, message="Which data was backed up is not known.", transient=True
        )
    name = situation.spec.database
    if archives(situation):
        return Problem(
            reason=reasons.DELETING_BACKUPS,
            message=f"Postgresql {name} stops archiving first, which takes a restart of its server"
            f"{_why_not_yet(situation)}; see its conditions (`kubectl describe "
            f"postgresqls.{situation.spec.database_type.group} {name} -n {situation.namespace}`). {KEEP}",
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


def archives(situation: Situation) -> bool:
    """By the server's own word; until it has one, what has a server archives. One that is hibernated begins
    without the archiver.
    """
    if situation.database is None:
        return False
    if situation.facts is not None:
        return situation.facts.mode != "off"
    return (situation.database.get("status") or {}).get("pgPhase") != HIBERNATED


def _why_not_yet(situation: Situation) -> str:
    status = (situation.database or {}).get("status") or {}
    waits = [type for type in WAITS if find_condition(status, type).get("status") == "True"]
    return f", and that waits (its condition {waits[0]})" if waits else ""


def runs(cr: Object) -> list[Object]:
    """The entries of status.runs, the newest first."""
    found: list[Object] = (cr.get("status") or {}).get("runs") or []
    return found
