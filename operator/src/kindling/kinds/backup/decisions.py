"""What a Backup keeps on record: the runs and what they showed, and which run was begun.

A result is on record before its Job may vanish, and a run that the operator begins is on record before its
Job is made. All of it can be decided again from the same view, with the same outcome.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from kindling.kinds import reasons
from kindling.kinds.backup import deletion, results
from kindling.kinds.backup.results import FAILED, RUNNING, SUCCEEDED
from kindling.kinds.backup.runs import BACKUP, DELETE, PREPARE, VERIFY, job_name
from kindling.kinds.backup.situation import Situation
from kindling.kinds.base import Observed
from kindling.kinds.conditions import rfc3339
from kindling.kinds.postgresql import spec as databases
from kindling.kinds.times import moment
from kindling.kube.resources import Object

STARTED = "Started"
DURABLE = (
    "database", "runs", "attempts", "backups", "size", "firstRecoverabilityPoint", "lastSuccessfulBackupTime",
    "lastFailedBackupTime", "lastVerifiedTime", "verified", "restoreDuration",
)  # fmt: skip
OF_THE_DATA = DURABLE[2:]
"""What says nothing of other data than that which it was learned of."""

RETRY_SECONDS = {BACKUP: 60.0, VERIFY: 300.0, DELETE: 60.0}
MOST_RETRY_SECONDS = {BACKUP: 3600.0, VERIFY: 21600.0, DELETE: 3600.0}
MOST_DOUBLINGS = 10


def decide(cr: Object, observed: Observed, situation: Situation) -> dict[str, Any]:
    """The new values of what changes; None removes a field."""
    known = cr.get("status") or {}
    state = {name: known[name] for name in DURABLE if known.get(name) is not None}
    if not deletion.is_due(cr):  # whose data is deleted is decided
        _note_database(state, situation)
    _note_runs(cr, observed, state)
    _note_attempts(cr, observed, state, situation)
    return {name: state.get(name) for name in DURABLE if state.get(name) != known.get(name)}


def due(state: Mapping[str, Any], situation: Situation, now: datetime) -> dict[str, float]:
    """For each action that is wanted: in how many seconds it is to be begun, at least 0."""
    found = {}
    for action in (BACKUP, VERIFY):
        if _wanted(state, situation, action) is not None:
            found[action] = max(0.0, _wait(state, situation, action, now))
    return found


def _note_database(state: dict[str, Any], situation: Situation) -> None:
    """Whose data it is, and what a restore must know of it when the database is gone."""
    if situation.database is None or situation.identifier is None or situation.refusal is not None:
        return
    before = state.get("database") or {}
    found: Object = {
        "systemIdentifier": situation.identifier,
        "defaultUser": databases.user_of(situation.database),
        "size": databases.size_of(situation.database),
    }
    if situation.facts is not None:
        found |= {"timeline": situation.facts.timeline, "settings": dict(situation.facts.settings)}
    elif before.get("systemIdentifier") == situation.identifier:
        found |= {name: before[name] for name in ("timeline", "settings") if name in before}
    if (state.get("database") or {}).get("systemIdentifier") not in (None, situation.identifier):
        for name in OF_THE_DATA:
            state.pop(name, None)
    state["database"] = found


def _note_runs(cr: Object, observed: Observed, state: dict[str, Any]) -> None:
    entries = {entry["name"]: entry for entry in state.get("runs") or ()}
    for name, job in sorted(results.jobs(cr, observed).items()):
        if entries.get(name, {}).get("phase") in (SUCCEEDED, FAILED):
            continue
        found = results.run(name, job, observed)
        if (known := entries.get(name)) is not None:
            found["startedAt"] = known["startedAt"]
        entries[name] = found
        if found["phase"] == SUCCEEDED:
            said = results.result(results.pod_of(name, observed), action=found["action"]) or {}
            _learn(state, found, said)
        elif found["phase"] == FAILED and found["action"] == BACKUP:
            state["lastFailedBackupTime"] = max(
                found["stoppedAt"], str(state.get("lastFailedBackupTime") or "")
            )
    present = results.jobs(cr, observed)
    for name, entry in entries.items():
        if entry["phase"] == RUNNING and name not in present and not _is_attempt(cr, state, name):
            # A Job that somebody deleted: what became of it is not known.
            entries[name] = {
                **entry,
                "phase": FAILED,
                "stoppedAt": rfc3339(observed.now),
                "reason": reasons.RUN_FAILED,
                "message": "The run's Job was deleted before it ended.",
            }
    if entries:
        newest = sorted(entries.values(), key=lambda entry: (entry["startedAt"], entry["name"]), reverse=True)
        state["runs"] = newest[: results.MOST_RUNS]


def _learn(state: dict[str, Any], entry: Object, said: results.Result) -> None:
    """What a good run shows; nothing of one that is older than what is known."""
    stopped = entry["stoppedAt"]
    if entry["action"] == BACKUP and stopped > str(state.get("lastSuccessfulBackupTime") or ""):
        state["lastSuccessfulBackupTime"] = stopped
        for name, value in (
            ("firstRecoverabilityPoint", results.time_in(said, "first")),
            ("backups", results.count_in(said, "backups")),
            ("size", entry.get("size")),
        ):
            if value is not None:
                state[name] = value
    proven = results.seconds(said) is not None and "reachedLSN" in entry and "backupId" in entry
    if entry["action"] == VERIFY and proven and stopped > str(state.get("lastVerifiedTime") or ""):
        state["lastVerifiedTime"] = stopped
        verified: Object = {
            name: entry[name] for name in ("backupId", "reachedLSN", "reachedTime") if name in entry
        }
        checks = said.get("checks")
        checks = checks if isinstance(checks, list) else []
        verified["checks"] = [name for name in ("pages", "amcheck", "queries") if name in checks]
        state["verified"] = verified
        state["restoreDuration"] = results.seconds(said)


def _note_attempts(cr: Object, observed: Observed, state: dict[str, Any], situation: Situation) -> None:
    attempts = dict(state.get("attempts") or {})
    for action in (BACKUP, VERIFY, DELETE):
        attempt = attempts.get(action)
        if attempt is not None and attempt["result"] == STARTED:
            name = job_name(cr, action, attempt["number"])
            for entry in state.get("runs") or ():
                if entry["name"] == name and entry["phase"] != RUNNING:
                    at = entry.get("stoppedAt") or entry["startedAt"]
                    attempts[action] = {**attempt, "result": entry["phase"], "at": at}
    if attempts:
        state["attempts"] = attempts
    for action in _may_begin(cr, observed, situation):
        request = _wanted(state, situation, action)
        if request is None or _wait(state, situation, action, observed.now) > 0:
            continue
        attempts[action] = {
            "number": (attempts.get(action) or {}).get("number", 0) + 1,
            "request": request,
            "result": STARTED,
            "at": rfc3339(observed.now),
            "inputs": situation.inputs,
        }
        state["attempts"] = attempts


def _may_begin(cr: Object, observed: Observed, situation: Situation) -> tuple[str, ...]:
    if "deletionTimestamp" not in cr["metadata"]:
        return (BACKUP, VERIFY) if situation.may_run else ()
    clear = deletion.is_due(cr) and deletion.problem(cr, observed, situation) is None
    return (DELETE,) if clear else ()


def _family(action: str) -> tuple[str, ...]:
    """The actions of whose runs it depends whether this one is to be begun."""
    return (BACKUP, PREPARE) if action == BACKUP else (action,)


def _wanted(state: Mapping[str, Any], situation: Situation, action: str) -> str | None:
    """What is to be asked for beside the schedule: the first run of all, and again one that failed."""
    attempt = (state.get("attempts") or {}).get(action)
    if attempt is not None and attempt["result"] == STARTED:
        return None
    runs = [entry for entry in state.get("runs") or () if entry["action"] in _family(action)]
    if any(entry["phase"] == RUNNING for entry in runs):
        return None
    failed = bool(runs) and runs[0]["phase"] == FAILED
    if action == DELETE:
        return DELETE if failed or not runs else None
    spec = situation.spec
    if action == VERIFY:
        if spec.verify is None or not state.get("lastSuccessfulBackupTime"):
            return None
        return VERIFY if failed or not state.get("lastVerifiedTime") else None
    if failed:
        return PREPARE if runs[0]["action"] == PREPARE else BACKUP
    if state.get("lastSuccessfulBackupTime"):
        return None
    if spec.immediate or spec.schedule is None:
        return BACKUP
    return None if runs else PREPARE


def _wait(state: Mapping[str, Any], situation: Situation, action: str, now: datetime) -> float:
    """The seconds until it may be begun: longer after each failure, none once a Secret was fixed.

    A run for which the archive was behind waited for the server, which has a new key a minute after its
    Secret: how often that has failed says nothing once the archive has caught up.
    """
    family = _family(action)
    failures = 0
    reason = ""
    stopped: datetime | None = None
    for entry in state.get("runs") or ():
        if entry["action"] in family:
            if entry["phase"] != FAILED:
                break
            stopped = stopped or moment(entry.get("stoppedAt"))
            reason = reason or str(entry.get("reason") or "")
            failures += 1
    caught_up = situation.facts is not None and not situation.facts.is_behind
    if reason == reasons.ARCHIVING_BEHIND and caught_up:
        failures = 1
    attempt = (state.get("attempts") or {}).get(action)
    fixed = attempt is not None and attempt.get("inputs") != situation.inputs
    if not failures or stopped is None or fixed:
        return 0.0
    pause = min(RETRY_SECONDS[action] * 2 ** min(failures - 1, MOST_DOUBLINGS), MOST_RETRY_SECONDS[action])
    return (stopped + timedelta(seconds=pause) - now).total_seconds()


def _is_attempt(cr: Object, state: Mapping[str, Any], name: str) -> bool:
    """Whether it is the Job of a run that was begun: then it is made again."""
    return any(
        attempt["result"] == STARTED and job_name(cr, action, attempt["number"]) == name
        for action, attempt in (state.get("attempts") or {}).items()
    )
