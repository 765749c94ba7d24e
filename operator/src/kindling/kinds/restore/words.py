"""What is said of a Restore: whether it is done, why not, and the next step."""

from __future__ import annotations

from dataclasses import replace

from kindling.kinds import pods, reasons
from kindling.kinds.backup import results
from kindling.kinds.backup.situation import database_not_ready
from kindling.kinds.base import Observed, Problem, SyncResult
from kindling.kinds.restore import decisions, in_place, loading, progress, situation, start_deadline
from kindling.kinds.restore.decisions import COMPLETED, GAVE_UP, RESTORED, RESTORING, UNDOING, UNDONE
from kindling.kube.resources import Object, Ref


def judged(
    cr: Object, observed: Observed, sync: SyncResult, found: situation.Situation
) -> tuple[bool, Problem]:
    """Whether it is done, and what is to be said."""
    phase, status = decisions.phase_of(cr), cr.get("status") or {}
    if sync.problem is not None:
        return False, sync.problem
    if phase is None:
        starting = Problem(
            reason=reasons.RECONCILING, message="The restore is about to begin.", transient=True
        )
        return False, found.problem or starting
    failure = status.get("failure")
    if phase == GAVE_UP and failure is not None:
        message = f"{failure['message']} {_after_a_failure(cr, found)}"
        return False, Problem(reason=failure["reason"], message=message)
    if phase == COMPLETED and failure is not None:
        message = f"spec.undo: {failure['message']} The server runs on with the data that was restored."
        return False, Problem(reason=failure["reason"], message=message)
    if phase in (COMPLETED, UNDONE):
        reason = reasons.RESTORED if phase == COMPLETED else reasons.UNDONE
        reason = reasons.SUCCEEDED if found.spec.proves else reason
        return sync.in_sync, Problem(reason=reason, message=_done(cr, found), transient=True)
    if failure is not None and phase in (RESTORING, UNDOING) and start_deadline.is_over(cr):
        message = f"{failure['message']} It is being ended; then the server starts again."
        return False, Problem(reason=failure["reason"], message=message)
    if phase == RESTORING and failure is not None and failure["attempt"] == status.get("attempt"):
        message = f"{failure['message']} It is retried by itself."
        return False, Problem(reason=failure["reason"], message=message)
    if found.spec.in_place and found.database is None:
        return False, in_place.no_database(found)
    if phase == RESTORED and found.made and found.database is not None:
        where = Ref(found.spec.database_type, cr["metadata"]["namespace"], found.spec.database)
        if (waits := database_not_ready(where, found.database)) is not None:
            return False, replace(waits, message=f"The data is restored. {waits.message}")
    for run, job in sorted(results.jobs(cr, observed).items()):
        pod = results.pod_of(run, observed) if results.ended(job) is None else None
        if pod is not None and (stuck := pods.pod_problem(pod, now=observed.now)) is not None:
            return False, _stuck(stuck, run, found)
    return False, Problem(reason=reasons.RUNNING, message=_progress(cr, observed, found), transient=True)


def _after_a_failure(cr: Object, found: situation.Situation) -> str:
    name = found.spec.database
    if found.spec.in_place:
        again = "It is not retried: delete this Restore, then create another one."
        if (cr.get("status") or {})["failure"]["reason"] == reasons.RUN_NOT_STARTED:
            return f"The server of Postgresql {name} starts again, with the data that it had. {again}"
        if in_place.is_unsure(cr):
            return (
                f"The server of Postgresql {name} starts again, with the data that it had, unless the run "
                f"had come to its end: then spec.undo brings that back. {again}"
            )
        return f"Nothing of Postgresql {name} was changed, and its server starts again. {again}"
    if found.spec.proves:
        return "It is not retried, and no server was touched: delete this Restore, then create another one."
    if found.spec.loads:
        return "It is not retried, and no database was made: delete this Restore, then create another one."
    return (
        f"It is not retried, and no Postgresql was made: delete this Restore and claim {name}-data, then "
        "create another Restore."
    )


def _done(cr: Object, found: situation.Situation) -> str:
    status, name = cr.get("status") or {}, found.spec.database
    if decisions.phase_of(cr) == UNDONE:
        return f"Postgresql {name} has the data from before this restore again. Delete this Restore."
    reached = status.get("reachedTime") or status.get("reachedLSN")
    if found.spec.loads:
        return loading.loaded(found.spec, reached=reached)
    reached = reached or "the end of the log"
    if found.spec.proves:
        source = f"Backup {found.spec.backup}"
        if found.spec.repository is not None:
            source = found.spec.repository.store.url
        return (
            f"The data as of {reached} was restored from {source} and has passed its checks. The volume of "
            "the copy goes with this Restore."
        )
    has = f"The data as of {reached} is in Postgresql {name}"
    if found.spec.in_place:
        return (
            f"{has}. Its volume keeps the data from before, which spec.undo brings back, until this Restore "
            "is deleted and the server is started once more."
        )
    return f"{has}, whose password is in Secret {name}-binding, unless spec.postgresql names another."


def _stuck(stuck: Problem, run: str, found: situation.Situation) -> Problem:
    if not found.spec.in_place:
        return stuck
    name = found.spec.database
    back = (
        f"Postgresql {name} is stopped meanwhile: if run {run} does not start within "
        f"{start_deadline.SECONDS / 60:.0f} minutes, it is ended, and the server starts again; at once if "
        "you delete this Restore."
    )
    return replace(stuck, message=f"{stuck.message} {back}")


def _progress(cr: Object, observed: Observed, found: situation.Situation) -> str:
    phase, name = decisions.phase_of(cr), found.spec.database
    if found.spec.in_place and in_place.waits_for_the_stop(cr):
        return f"The server of Postgresql {name} is being stopped; wait."
    if phase == UNDOING and (cr.get("status") or {}).get("undoStoppedAt"):
        return f"The server of Postgresql {name} starts with the data from before this restore; wait."
    if phase == UNDOING:
        return f"Postgresql {name} gets back the data from before this restore; wait."
    if phase == RESTORED and found.spec.in_place:
        return (
            f"The data is restored, and the server of Postgresql {name} starts. If it does not, spec.undo "
            "brings back the data from before."
        )
    if phase == RESTORED and found.spec.proves:
        return "The data was restored and checked."
    if phase == RESTORED and found.spec.loads:
        return f"The databases are loaded into Postgresql {name}."
    if phase == RESTORED:
        return f"The data is restored, and Postgresql {name} is being made."
    job_name = decisions.job_name(cr, decisions.attempt_of(cr))
    job = results.jobs(cr, observed).get(job_name)
    if job is not None and results.ended(job) == results.FAILED:
        return (
            f"The Pod of run {job_name} is gone, and its result is not known; in a minute another run begins."
        )
    restoring = f"The data is being restored into volume {name}-data"
    if found.spec.proves:
        restoring = "The backup is being restored aside, and then checked"
    if found.spec.loads:
        restoring = f"The backup is being restored aside, and then loaded into Postgresql {name}"
    if (at := progress.report(cr, observed)) is not None:
        return f"{restoring}: {progress.words(at)}."
    where = f"`kubectl logs job/{job_name} -n {cr['metadata']['namespace']}`"
    return f"{restoring}; {where} says how far it is."
