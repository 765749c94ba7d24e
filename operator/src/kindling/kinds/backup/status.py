"""A Backup's status: Ready, Available, Progressing, Degraded, Archiving and Verified, the times, and what
would be lost now.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from kindling.kinds import pods, reasons
from kindling.kinds.backup import archive, claims, decisions, deletion, proofs, results
from kindling.kinds.backup import spec as specs
from kindling.kinds.backup.results import FAILED, RUNNING
from kindling.kinds.backup.runs import BACKUP, DELETE, PREPARE, VERIFY
from kindling.kinds.backup.situation import Situation
from kindling.kinds.base import Observed, Problem, RequeueAfter, Result, StatusReport, SyncResult, Terminal
from kindling.kinds.conditions import condition, find_condition, rfc3339, standard_conditions
from kindling.kinds.times import moment, seconds_since
from kindling.kube.resources import Object


@dataclass(frozen=True, kw_only=True)
class _Judgement:
    """A condition to be: None is Unknown."""

    truth: bool | None
    reason: str
    message: str


def report(cr: Object, observed: Observed, sync: SyncResult, situation: Situation) -> StatusReport:
    known, generation = cr.get("status") or {}, int(cr["metadata"].get("generation", 0))
    archiving = _archiving(known, observed, situation)
    verified = _verified(known, observed, situation)
    problem = sync.problem or situation.refusal or situation.wait or _run_problem(cr, known, observed)
    problem = problem or proofs.problem(situation.spec, observed, namespace=situation.namespace)
    ready, broken = _ready(known, situation, problem, archiving, verified, in_sync=sync.in_sync)
    kept = known.get("lastSuccessfulBackupTime")
    conditions = standard_conditions(
        ready=ready.truth is True,
        available=kept is not None,
        broken=broken,
        reason=ready.reason,
        message=ready.message,
        serving="There is a backup to restore.",
        generation=generation,
    )
    conditions += _further(archiving, verified, generation=generation)
    status: Object = {
        "observedGeneration": generation,
        **_window(known, situation),
        "conditions": conditions,
    }
    coming = _next(situation, observed)
    if coming is not None:
        status["nextScheduledTime"] = coming
    return StatusReport(status=status, result=_result(cr, observed, situation, sync))


def report_deleted(cr: Object, observed: Observed, situation: Situation) -> StatusReport:
    """Of one that stays until what it stored is deleted."""
    known, generation = cr.get("status") or {}, int(cr["metadata"].get("generation", 0))
    newest = next((run for run in deletion.runs(cr) if run["action"] == DELETE), None)
    problem = deletion.problem(cr, observed, situation)
    if newest is not None and newest["phase"] == FAILED:
        said = newest.get("message") or "See the log of its Pod."
        problem = Problem(
            reason=newest.get("reason") or reasons.RUN_FAILED,
            message=f"What is stored could not be deleted: {said} It is repeated by itself. {deletion.KEEP}",
        )
    elif newest is not None or problem is None:
        message = "What is stored is being deleted; wait."
        problem = Problem(reason=reasons.DELETING_BACKUPS, message=message, transient=True)
    conditions = standard_conditions(
        ready=False,
        available=known.get("lastSuccessfulBackupTime") is not None and newest is None,
        broken=not problem.transient,
        reason=problem.reason,
        message=problem.message,
        serving="There is a backup to restore.",
        generation=generation,
    )
    archiving, verified = _archiving(known, observed, situation), _verified(known, observed, situation)
    if not deletion.archives(situation):
        message = "This Backup is deleted: its database archives no longer."
        archiving = _Judgement(truth=False, reason=reasons.DELETING_BACKUPS, message=message)
    conditions += _further(archiving, verified, generation=generation)
    status = {"observedGeneration": generation, "conditions": conditions}
    return StatusReport(status=status, result=RequeueAfter(deletion.EVERY_SECONDS))


def _further(archiving: _Judgement, verified: _Judgement, *, generation: int) -> list[Object]:
    return [
        condition(type, judged.truth, reason=judged.reason, message=judged.message, generation=generation)
        for type, judged in (("Archiving", archiving), ("Verified", verified))
    ]


def _window(known: Object, situation: Situation) -> Object:
    """What can be restored, and what would be lost now: in whole minutes, not to be written for ever."""
    facts, found = situation.facts, {}
    if facts is None or facts.archived_until is None:
        found = {name: known.get(name) for name in ("latestRestorableTime", "dataLossWindow")}
        return {name: value for name, value in found.items() if value}
    until = facts.archived_until.replace(second=0, microsecond=0)
    first = moment(known.get("firstRecoverabilityPoint"))
    if first is not None and facts.archived_until >= first:
        found["latestRestorableTime"] = rfc3339(max(until, first))
    if known.get("lastSuccessfulBackupTime"):
        found["dataLossWindow"] = _minutes(facts.behind_seconds or 0.0)
    return found


def _minutes(seconds: float) -> str:
    minutes = max(1, -int(-seconds // 60))
    return f"{minutes}m" if minutes < 120 else f"{-(-minutes // 60)}h"


def _next(situation: Situation, observed: Observed) -> str | None:
    spec = situation.spec
    if spec.schedule is None or spec.suspended:
        return None
    try:
        found = specs.next_time(spec.schedule, spec.time_zone, observed.now)
    except ValueError:
        return None
    return rfc3339(found.astimezone(observed.now.tzinfo)) if found is not None else None


def _archiving(known: Object, observed: Observed, situation: Situation) -> _Judgement:
    facts, name = situation.facts, situation.spec.database
    if facts is None:
        before = find_condition(known, "Archiving")
        truth = {"True": True, "False": False}.get(str(before.get("status")))
        if (
            truth is not None
            and situation.refusal is None
            and situation.wait is None
            and before.get("reason") != reasons.DATABASE_NOT_FOUND
        ):
            return _Judgement(truth=truth, reason=before["reason"], message=before["message"])
        said = situation.refusal or situation.wait
        reason, message = archive.problem(observed) or (
            reasons.DATABASE_NOT_READY,
            f"Postgresql {name} has not said yet how far its archive is; wait.",
        )
        if said is not None:
            reason, message = said.reason, said.message
        return _Judgement(truth=None if situation.refusal is None else False, reason=reason, message=message)
    if facts.mode == "off":
        message = f"Postgresql {name} is being restarted, once, to archive its log; wait."
        return _Judgement(truth=False, reason=reasons.DATABASE_NOT_READY, message=message)
    if facts.is_behind:
        since = "Nothing" if facts.archived_until is None else "Too little"
        store = "answers and takes its keys"
        if claims.ref(situation.spec.store, namespace=situation.namespace) is not None:
            store = "has space, and can be written"
        message = (
            f"{since} of the log of Postgresql {name} reaches the store: see that the store {store} "
            f"(`kubectl logs {name}-0 -c postgres -n {situation.namespace}` has what "
            "pgBackRest says). What waits is kept on the volume and uploaded later; until then it fills."
        )
        return _Judgement(truth=False, reason=reasons.ARCHIVING_BEHIND, message=message)
    message = f"The log of Postgresql {name} reaches the store."
    return _Judgement(truth=True, reason=reasons.ARCHIVING, message=message)


def _verified(known: Object, observed: Observed, situation: Situation) -> _Judgement:
    verify, last = situation.spec.verify, known.get("lastVerifiedTime")
    newest = _newest(known, VERIFY)
    if newest is not None and newest["phase"] == FAILED:
        message = newest.get("message") or "See the log of its Pod."
        return _Judgement(truth=False, reason=newest.get("reason") or reasons.RUN_FAILED, message=message)
    if last is None:
        hint = (
            "spec.verify is not set, so none is tried" if verify is None else "the first one follows a backup"
        )
        return _Judgement(
            truth=False if verify is not None else None,
            reason=reasons.NOT_VERIFIED_YET,
            message=f"No restore of a backup has been tried yet: {hint}.",
        )
    if verify is not None and seconds_since(last, now=observed.now) >= verify.max_age:
        return _Judgement(
            truth=False,
            reason=reasons.VERIFICATION_STALE,
            message=f"The last restore that succeeded ended at {last}, longer ago than spec.verify.maxAge: "
            "see why the verify runs do not succeed (status.runs), or are not scheduled.",
        )
    checks = ", ".join((known.get("verified") or {}).get("checks") or ()) or "none"
    return _Judgement(
        truth=True,
        reason=reasons.SUCCEEDED,
        message=f"The restore that ended at {last} reached the newest archived moment; further "
        f"checks: {checks}.",
    )


def _ready(
    known: Object,
    situation: Situation,
    problem: Problem | None,
    archiving: _Judgement,
    verified: _Judgement,
    *,
    in_sync: bool,
) -> tuple[_Judgement, bool]:
    """Ready, and whether a fault keeps it from that."""
    if problem is not None:
        return _Judgement(truth=False, reason=problem.reason, message=problem.message), not problem.transient
    newest = next((run for run in known.get("runs") or () if run["action"] in (BACKUP, PREPARE)), None)
    ended = next(
        (
            run
            for run in known.get("runs") or ()
            if run["action"] in (BACKUP, PREPARE) and run["phase"] != RUNNING
        ),
        None,
    )
    if ended is not None and ended["phase"] == FAILED:
        message = f"{ended.get('message') or 'See the log of its Pod.'} It is repeated by itself."
        reason = ended.get("reason") or reasons.RUN_FAILED
        return _Judgement(truth=False, reason=reason, message=message), True
    if not known.get("lastSuccessfulBackupTime"):
        if situation.spec.suspended:
            message = "spec.suspend is true, so no run is started: set it to false."
            return _Judgement(truth=False, reason=reasons.SUSPENDED, message=message), False
        if newest is not None and newest["phase"] == RUNNING:
            log = f"`kubectl logs job/{newest['name']} -n {situation.namespace}`"
            message = f"The first run is under way ({log}); wait."
            return _Judgement(truth=False, reason=reasons.RUNNING, message=message), False
        if newest is not None and archiving.truth is True:
            message = "The repository is there, and the log is archived; the first backup is scheduled."
            return _Judgement(truth=False, reason=reasons.SCHEDULED, message=message), False
        message = (
            archiving.message if archiving.truth is not True else "The first run is about to begin; wait."
        )
        reason = archiving.reason if archiving.truth is not True else reasons.RUNNING
        return _Judgement(truth=False, reason=reason, message=message), False
    if archiving.truth is not True:
        return _Judgement(truth=False, reason=archiving.reason, message=archiving.message), (
            archiving.reason == reasons.ARCHIVING_BEHIND
        )
    if situation.spec.verify is not None and verified.truth is not True:
        fault = verified.reason != reasons.NOT_VERIFIED_YET
        return _Judgement(truth=False, reason=verified.reason, message=verified.message), fault
    if not in_sync:
        message = "The runs are being set up; wait."
        return _Judgement(truth=False, reason=reasons.RECONCILING, message=message), False
    message = f"The last backup ended at {known['lastSuccessfulBackupTime']}, and the log is archived."
    return _Judgement(truth=True, reason=reasons.SUCCEEDED, message=message), False


def _newest(known: Object, action: str) -> Object | None:
    """The newest of its runs that has ended."""
    found: Object
    for found in known.get("runs") or ():
        if found["action"] == action and found["phase"] != RUNNING:
            return found
    return None


def _run_problem(cr: Object, known: Object, observed: Observed) -> Problem | None:
    """What keeps the Pod of a run from running."""
    for name, job in sorted(results.jobs(cr, observed).items()):
        pod = results.pod_of(name, observed) if results.ended(job) is None else None
        if pod is not None and (found := pods.pod_problem(pod, now=observed.now)) is not None:
            return found
    return None


def _result(cr: Object, observed: Observed, situation: Situation, sync: SyncResult) -> Result:
    if sync.problem is not None and sync.problem.reason == reasons.INVALID_SPEC:
        return Terminal(sync.problem.reason)
    if sync.problem is not None:
        return sync.problem.retry
    known, waits = cr.get("status") or {}, [60.0]
    if situation.database is not None:
        waits.append(float(archive.EVERY_SECONDS))
    state: dict[str, Any] = {name: known.get(name) for name in decisions.DURABLE}
    waits += decisions.due(state, situation, observed.now).values()
    verify, last = situation.spec.verify, moment(known.get("lastVerifiedTime"))
    if verify is not None and last is not None:
        stale = (last + timedelta(seconds=verify.max_age) - observed.now).total_seconds()
        waits += [stale] if stale > 0 else []
    return RequeueAfter(max(0.5, min(waits)))
