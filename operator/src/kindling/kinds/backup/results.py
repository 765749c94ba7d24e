"""What has become of the runs: Jobs and their Pods' termination messages, read strictly, once and for all.

A Pod's message is the word of a program that nobody vouches for. What is no result is none, and a run without
one has not succeeded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kindling.kinds import reasons
from kindling.kinds.backup.archive import LSN, MOST
from kindling.kinds.backup.runs import BACKUP, CONTAINER, PREPARE, RUN_LABEL
from kindling.kinds.base import Observed
from kindling.kinds.conditions import rfc3339
from kindling.kinds.times import moment
from kindling.kube.resources import CRON_JOB, JOB, POD, Object

RUNNING, SUCCEEDED, FAILED = "Running", "Succeeded", "Failed"
MOST_RUNS = 10
LONGEST_MESSAGE = 1024
JOB_NAME = "batch.kubernetes.io/job-name"
LABEL = re.compile(r"[0-9A-Za-z_-]{1,64}")
SEGMENT = re.compile(r"[0-9A-F]{24}")
NUMBER = re.compile(r"[1-9][0-9]{0,19}")

RUN_REASONS = frozenset(
    {
        reasons.STORE_UNREACHABLE,
        reasons.ACCESS_DENIED,
        reasons.BUCKET_NOT_FOUND,
        reasons.STORE_FULL,
        reasons.WRONG_PASSPHRASE,
        reasons.REPOSITORY_OF_ANOTHER_DATABASE,
        reasons.DATABASE_UNREACHABLE,
        reasons.ARCHIVING_BEHIND,
        reasons.WAL_GAP,
        reasons.CHECKSUM_FAILED,
        reasons.QUERY_FAILED,
        reasons.TARGET_NOT_REACHED,
        reasons.TARGET_TOO_EARLY,
        reasons.IMAGE_WITHOUT_PGBACKREST,
        reasons.TARGET_EXISTS,
        reasons.NOT_IN_BACKUP,
        reasons.ROLE_NOT_FOUND,
        reasons.LOAD_FAILED,
        reasons.RUN_FAILED,
    }
)
"""What a run may say of its failure; any other word is RunFailed."""
OTHER_WORDS = {"UntrustedCertificate": reasons.STORE_UNREACHABLE}
"""Words of a run that have no reason of their own, and a better one than RunFailed."""

UNSEEN_SECONDS = 60.0
"""For how long after a Job's end its Pod's is waited for."""

Result = Mapping[str, Any]


def jobs(cr: Object, observed: Observed) -> dict[str, Object]:
    """The runs' Jobs by name: those that we made, and those of our CronJobs."""
    uid = cr["metadata"]["uid"]
    ours = {uid} | {
        obj["metadata"]["uid"]
        for ref, obj in observed.objects.items()
        if ref.type == CRON_JOB and uid in _owners(obj)
    }
    return {
        ref.name: obj
        for ref, obj in observed.objects.items()
        if ref.type == JOB and ours & _owners(obj) and (obj["metadata"].get("labels") or {}).get(RUN_LABEL)
    }


def action_of(job: Object) -> str:
    return str((job["metadata"].get("labels") or {}).get(RUN_LABEL))


def ended(job: Object) -> str | None:
    """SUCCEEDED or FAILED; None while it runs."""
    for item in (job.get("status") or {}).get("conditions") or ():
        if item.get("status") == "True" and item.get("type") in ("Complete", "Failed"):
            return SUCCEEDED if item["type"] == "Complete" else FAILED
    return None


def pod_of(name: str, observed: Observed) -> Object | None:
    """The newest Pod of that Job."""
    found = [
        obj
        for ref, obj in observed.objects.items()
        if ref.type == POD and (obj["metadata"].get("labels") or {}).get(JOB_NAME) == name
    ]
    return max(found, key=lambda pod: str(pod["metadata"].get("creationTimestamp")), default=None)


def run(name: str, job: Object, observed: Observed) -> Object:
    """The entry of status.runs for this Job as it stands; RUNNING until what its Pod says is known, too."""
    action, how, status = action_of(job), ended(job), job.get("status") or {}
    started = _time(status.get("startTime") or job["metadata"].get("creationTimestamp"))
    entry: Object = {
        "name": name,
        "action": action,
        "phase": RUNNING,
        "startedAt": started or rfc3339(observed.now),
    }
    pod = pod_of(name, observed)
    if how is None or _is_unseen(pod, status, now=observed.now):
        return entry
    found = result(pod, action=action)
    stopped = _time((found or {}).get("stoppedAt")) or _time(status.get("completionTime"))
    entry["stoppedAt"] = stopped or _transition(status) or rfc3339(observed.now)
    if how == SUCCEEDED and found is not None and found["ok"]:
        return entry | {"phase": SUCCEEDED, "reason": reasons.SUCCEEDED} | facts(found, action=action)
    entry |= {"phase": FAILED, "reason": reasons.RUN_FAILED}
    where = f"-n {job['metadata']['namespace']}"
    log = f"`kubectl logs job/{name} {where}`"
    entry["message"] = f"The run left no result: see {log}, and `kubectl describe job {name} {where}`."
    if found is not None and not found["ok"]:
        said = str(found.get("reason"))
        said = OTHER_WORDS.get(said, said)
        entry["reason"] = said if said in RUN_REASONS else reasons.RUN_FAILED
        entry["message"] = _sentence(found.get("message")) or f"See {log}."
    return entry


def _is_unseen(pod: Object | None, status: Object, *, now: datetime) -> bool:
    """Whether its end may still be seen: Jobs and Pods are watched apart, so that of a Job can come first.

    What is not seen within UNSEEN_SECONDS is taken for lost.
    """
    known = (pod or {}).get("status") or {}
    containers = known.get("containerStatuses") or ()
    if known.get("phase") in ("Succeeded", "Failed") or any(_terminated(item) for item in containers):
        return False
    at = moment(status.get("completionTime")) or moment(_transition(status))
    return at is not None and (now - at).total_seconds() < UNSEEN_SECONDS


def _terminated(container: Object) -> Object:
    """How the run's container ended; empty for one that has not, or is another."""
    ended: Object = (container.get("state") or {}).get("terminated") or {}
    return ended if container.get("name") == CONTAINER else {}


def result(pod: Object | None, *, action: str) -> Result | None:
    """What the run said at its end; None for what is no result of such a run."""
    for item in ((pod or {}).get("status") or {}).get("containerStatuses") or ():
        message = _terminated(item).get("message")
        if not message:
            continue
        try:
            found = json.loads(message)
        except ValueError:
            return None
        program = BACKUP if action == PREPARE else action
        if isinstance(found, dict) and isinstance(found.get("ok"), bool) and found.get("action") == program:
            return found
    return None


def facts(found: Result, *, action: str) -> Object:
    """What of a good result goes into its entry; what is not as it should be is left out."""
    entry: Object = {}
    if action != PREPARE:
        for name, key, form in (
            ("backupId", "label", LABEL),
            ("beginLSN", "beginLSN", LSN),
            ("endLSN", "endLSN", LSN),
            ("beginWal", "beginWal", SEGMENT),
            ("endWal", "endWal", SEGMENT),
            ("reachedLSN", "reachedLSN", LSN),
        ):
            value = found.get(key)
            if isinstance(value, str) and form.fullmatch(value):
                entry[name] = value
        if found.get("type") in ("full", "incremental"):
            entry["type"] = found["type"]
        if (reached := _time(found.get("reachedTime"))) is not None:
            entry["reachedTime"] = reached
        size = {"database": _amount(found.get("databaseBytes")), "stored": _amount(found.get("storedBytes"))}
        if size["database"] is not None and size["stored"] is not None:
            entry["size"] = size
    return entry


def seconds(found: Result) -> Object | None:
    """`{download, replay, check, total}` as text, those that are there."""
    given = found.get("seconds")
    if not isinstance(given, dict):
        return None
    kept = {
        name: f"{round(value)}s"
        for name in ("download", "replay", "check", "total")
        if isinstance(value := given.get(name), (int, float))
        and not isinstance(value, bool)
        and 0 <= value < 10_000_000
    }
    return kept if "total" in kept else None


def time_in(found: Result, name: str) -> str | None:
    return _time(found.get(name))


def count_in(found: Result, name: str) -> int | None:
    return _amount(found.get(name))


def identifier_in(found: Result) -> str | None:
    value = found.get("systemIdentifier")
    return value if isinstance(value, str) and NUMBER.fullmatch(value) else None


def _amount(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST else None


def _time(value: object) -> str | None:
    """In Kubernetes' form, whole seconds."""
    found = moment(value)
    return rfc3339(found) if found is not None else None


def _transition(status: Object) -> str | None:
    times = [_time(item.get("lastTransitionTime")) for item in status.get("conditions") or ()]
    return max((each for each in times if each is not None), default=None)


def _sentence(value: object) -> str:
    """What a run said, on one line; more may follow it in a condition's message."""
    text = " ".join(str(value or "").split())
    text = "".join(char for char in text if char.isprintable())[: LONGEST_MESSAGE - 1]
    return text[:1].upper() + text[1:] + ("" if not text or text.endswith(".") else ".")


def _owners(obj: Object) -> set[str]:
    return {owner["uid"] for owner in obj["metadata"].get("ownerReferences") or ()}
