"""What a Restore keeps on record: that it was begun, what became of it, and that it is never done again."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from kindling.kinds import reasons
from kindling.kinds.backup import results, runs
from kindling.kinds.backup.results import FAILED, RUNNING, SUCCEEDED
from kindling.kinds.base import Observed
from kindling.kinds.conditions import rfc3339
from kindling.kinds.restore.situation import Situation, default_user, is_up
from kindling.kinds.times import moment
from kindling.kube.resources import JOB, Object, Ref

RESTORING, RESTORED, COMPLETED, GAVE_UP = "Restoring", "Restored", "Completed", "Failed"
"""The phases. In RESTORED the data is there, and the Postgresql is about to be made, or to start."""
STOPPING, UNDOING, UNDONE = "Stopping", "Undoing", "Undone"
"""Those that only a restore in place has."""
PENDING = "Pending"
"""Nothing was begun, and the condition Ready says what for. It is a word for readers alone."""

DURABLE = (
    "phase", "attempt", "source", "startedAt", "stoppedAt", "backupId", "reachedLSN", "reachedTime",
    "restoreDuration", "failure", "undoStartedAt", "undoStoppedAt",
)  # fmt: skip
# Another attempt has the same outcome.
_FINAL = frozenset({
    reasons.TARGET_NOT_REACHED, reasons.TARGET_TOO_EARLY, reasons.REPOSITORY_OF_ANOTHER_DATABASE,
    reasons.IMAGE_WITHOUT_PGBACKREST, reasons.WAL_GAP, reasons.TARGET_EXISTS, reasons.NOT_IN_BACKUP,
    reasons.ROLE_NOT_FOUND, reasons.LOAD_FAILED,
})  # fmt: skip
_FINDINGS = frozenset({reasons.CHECKSUM_FAILED, reasons.QUERY_FAILED})
"""What is the answer where that was the question."""
VOLUME_FULL = "VolumeFull"
"""What a run says whose volume was too small."""
RETRY_SECONDS, MOST_RETRY_SECONDS, MOST_DOUBLINGS = 30.0, 1800.0, 10


INTERRUPTED = "Interrupted"
NO_WORD = frozenset({INTERRUPTED, "EngineFailed"})
"""What a run says that was ended, or failed by itself, anywhere: how far it was, nobody knows."""


def phase_of(cr: Object) -> str | None:
    """None until it was begun."""
    found: str | None = (cr.get("status") or {}).get("phase")
    return None if found == PENDING else found


def job_name(cr: Object, attempt: int) -> str:
    return f"{cr['metadata']['name']}-restore-{attempt}"


def decide(cr: Object, observed: Observed, situation: Situation) -> dict[str, Any]:
    """The new values of what changes; None removes a field."""
    phase, now = phase_of(cr), rfc3339(observed.now)
    if phase is None:
        identifier = situation.data.get("systemIdentifier")
        # Without one the URL is refused before this is asked.
        if situation.problem is not None or identifier is None:
            return {"phase": PENDING}
        source: Object = {
            "systemIdentifier": identifier,
            **({} if situation.spec.of_store_alone else {"defaultUser": default_user(situation.data)}),
            **{
                name: situation.data[name]
                for name in ("size", "timeline", "settings")
                if name in situation.data
            },
        }
        begun = STOPPING if situation.spec.in_place else RESTORING
        return {"phase": begun, "attempt": 1, "source": source, "startedAt": now}
    if phase == RESTORED and (situation.spec.aside or (situation.made and is_up(situation.database))):
        return {"phase": COMPLETED}
    if phase != RESTORING:
        return {}
    attempt = attempt_of(cr)
    if has_failed(cr):
        return {"attempt": attempt + 1} if wait(cr, observed) <= 0 else {}
    entry = ended(cr, observed, job_name(cr, attempt))
    # The volume of a copy is another one each time; where its size is not the Backup's, it cannot change.
    sized = situation.spec.proves and situation.spec.copy_size is not None
    return {} if entry is None else outcome(entry, attempt, sized=sized)


def outcome(entry: Object, attempt: int, *, sized: bool = False) -> dict[str, Any]:
    """What is kept of an attempt that is over. `sized`: whether a volume that was full is so again."""
    if entry["phase"] == SUCCEEDED:
        found: Object = {name: entry.get(name) for name in ("backupId", "reachedLSN", "reachedTime")}
        duration = {"restoreDuration": entry.get("seconds")}
        return {"phase": RESTORED, "stoppedAt": entry["stoppedAt"], "failure": None, **found, **duration}
    failure = {name: entry[name] for name in ("reason", "message")}
    failure |= {"attempt": attempt, "at": entry["stoppedAt"]}
    found_out = entry["action"] == runs.VERIFY and entry["reason"] in _FINDINGS
    if entry["reason"] in _FINAL or found_out or (sized and entry["full"]):
        return {"phase": GAVE_UP, "stoppedAt": entry["stoppedAt"], "failure": failure}
    return {"failure": failure}


def attempt_of(cr: Object) -> int:
    """The number of the attempt that it is at, from 1 on."""
    return int((cr.get("status") or {}).get("attempt") or 1)


def has_failed(cr: Object) -> bool:
    """Whether the attempt that it is at is over, and there is to be another."""
    return ((cr.get("status") or {}).get("failure") or {}).get("attempt") == attempt_of(cr)


def wait(cr: Object, observed: Observed) -> float:
    """The seconds until the next attempt."""
    failure = (cr.get("status") or {}).get("failure") or {}
    stopped = moment(failure.get("at"))
    if stopped is None:
        return 0.0
    doublings = min(int(failure.get("attempt") or 1) - 1, MOST_DOUBLINGS)
    pause = min(RETRY_SECONDS * 2**doublings, MOST_RETRY_SECONDS)
    return (stopped + timedelta(seconds=pause) - observed.now).total_seconds()


def ended(cr: Object, observed: Observed, name: str) -> Object | None:
    """What became of this Job; None while that is not known, or it is not made yet. `unsure`: whether it
    failed without a word of how far it was; `full`: whether that was for want of space.
    """
    job = observed.objects.get(Ref(JOB, cr["metadata"]["namespace"], name))
    if job is None or name not in results.jobs(cr, observed) or results.ended(job) is None:
        return None
    entry = results.run(name, job, observed)
    if entry["phase"] == RUNNING:
        return None
    said: Mapping[str, Any] = results.result(results.pod_of(name, observed), action=entry["action"]) or {}
    word = str(said.get("reason") or INTERRUPTED)
    entry["unsure"] = entry["phase"] == FAILED and word in NO_WORD
    entry["full"] = entry["phase"] == FAILED and word == VOLUME_FULL
    if entry["phase"] == SUCCEEDED:
        entry["seconds"] = results.seconds(said)
    elif entry["phase"] == FAILED:
        entry.setdefault("message", "See the log of its Pod.")
    return entry
