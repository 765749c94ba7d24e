"""The deadline for the start of a run: a server that is stopped for it does not wait longer.

A run that has not started may do so at any moment, so it is ended first, by its Job's own deadline, and only
the Job's word that it has ended has the server start.
"""

from __future__ import annotations

from typing import Any

from kindling.kinds import pods, reasons
from kindling.kinds.backup import results, runs
from kindling.kinds.base import Observed
from kindling.kinds.conditions import rfc3339
from kindling.kinds.restore import decisions
from kindling.kinds.restore.decisions import UNDOING
from kindling.kinds.times import moment, seconds_since
from kindling.kube.resources import Object

SECONDS = 600.0
"""Since the Job was made; pulling the image is part of it."""
LONGEST_CAUSE = 800
"""A scheduler's words can be long."""
ENDED: Object = {"spec": {"activeDeadlineSeconds": 1}}
"""Of a Job: its controller ends it, and its Pods, wherever they are."""


def decide(cr: Object, observed: Observed, name: str) -> dict[str, Any]:
    """The failure that goes on record once the run of this Job has not started in time."""
    job = results.jobs(cr, observed).get(name)
    if job is None or is_over(cr) or has_started(name, observed):
        return {}
    if seconds_since(job["metadata"].get("creationTimestamp"), now=observed.now) < SECONDS:
        return {}
    cause = _cause(cr, name, observed)[:LONGEST_CAUSE]
    failure = {
        "reason": reasons.RUN_NOT_STARTED,
        "message": f"Run {name} did not start within {SECONDS / 60:.0f} minutes: {cause}",
        "attempt": decisions.attempt_of(cr),
        "at": rfc3339(observed.now),
    }
    return {"failure": failure}


def is_over(cr: Object) -> bool:
    """Whether it is on record that the run it is at did not start in time."""
    status = cr.get("status") or {}
    failure = status.get("failure") or {}
    if failure.get("reason") != reasons.RUN_NOT_STARTED:
        return False
    begun = status.get("undoStartedAt") if decisions.phase_of(cr) == UNDOING else status.get("startedAt")
    at, since = moment(failure.get("at")), moment(begun)
    return at is not None and since is not None and at > since


def has_started(name: str, observed: Observed) -> bool:
    """Whether the program of this Job runs, or ever ran."""
    pod = results.pod_of(name, observed) or {}
    return any(
        item.get("name") == runs.CONTAINER
        and ({"running", "terminated"} & set(item.get("state") or {}) or item.get("lastState"))
        for item in (pod.get("status") or {}).get("containerStatuses") or ()
    )


def _cause(cr: Object, name: str, observed: Observed) -> str:
    pod = results.pod_of(name, observed)
    found = pods.pod_problem(pod, now=observed.now) if pod is not None else None
    if found is not None:
        return found.message
    what = "it has no Pod" if pod is None else "its Pod does not come up"
    return f"{what}; see `kubectl describe job {name} -n {cr['metadata']['namespace']}`."
