"""Conditions as every kind reports them, and the one rule for their times.

Apart from the kinds so that a reader of any status finds the same four conditions meaning the same.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from kindling.kinds import reasons
from kindling.kinds.base import StatusReport, Terminal
from kindling.kube.resources import Object

UNSEEN = -1
"""What the CRDs set status.observedGeneration to until a status is written."""

LONGEST_MESSAGE = 4096
"""What the CRDs admit; what a server says may be longer, and would make the status unwritable."""

POSITIVE = frozenset(
    {"Ready", "Available", "Progressing", "Healthy", "Archiving", "Verified", "BacklogMoving"}
)
"""The conditions that are no fault where they are true."""

ConditionStatus = Literal["True", "False", "Unknown"]


def condition(type: str, truth: bool | None, *, reason: str, message: str, generation: int) -> Object:
    """One condition without its time; None is Unknown."""
    status: ConditionStatus = "Unknown" if truth is None else "True" if truth else "False"
    return {
        "type": type,
        "status": status,
        "observedGeneration": generation,
        "reason": reason,
        "message": message[:LONGEST_MESSAGE],
    }


def standard_conditions(
    *,
    ready: bool,
    available: bool,
    broken: bool,
    reason: str,
    message: str,
    serving: str,
    generation: int,
) -> list[Object]:
    """Ready, Available, Progressing and Degraded, in this order, of any kind that runs a workload.

    `reason` and `message` are Ready's; `serving` says in a sentence what Available means while it holds.
    """
    return [
        condition("Ready", ready, reason=reason, message=message, generation=generation),
        condition(
            "Available",
            available,
            reason=reasons.SERVING if available else reason,
            message=serving if available else message,
            generation=generation,
        ),
        condition(
            "Progressing",
            not ready and not broken,
            reason=reason,
            message=message,
            generation=generation,
        ),
        condition(
            "Degraded",
            broken,
            reason=reason if broken else reasons.AS_EXPECTED,
            message=message if broken else "No fault is known.",
            generation=generation,
        ),
    ]


def with_stalled(report: StatusReport) -> Object:
    """The report's status, with the condition Stalled where only an edit helps.

    It is True or not there: where it is, Flux and Helm stop waiting (kstatus). In Ready's words.
    """
    if not isinstance(report.result, Terminal):
        return report.status
    conditions = report.status["conditions"]
    ready = find_condition(report.status, "Ready")
    return {**report.status, "conditions": [*conditions, {**ready, "type": "Stalled", "status": "True"}]}


def with_transition_times(status: Object, *, known: Object, now: datetime) -> Object:
    """The status with lastTransitionTime on each condition: as known, or now where its truth changed."""
    before = {item["type"]: item for item in known.get("conditions") or ()}
    conditions = []
    for item in status.get("conditions", ()):
        old = before.get(item["type"], {})
        same = old.get("status") == item["status"] and old.get("lastTransitionTime")
        conditions.append({**item, "lastTransitionTime": same or rfc3339(now)})
    return {**status, "conditions": conditions}


def status_of(cr: Object) -> Object:
    """The status that we wrote; empty where there is none, or only what the CRD puts there until then."""
    status: Object = cr.get("status") or {}
    return {} if status.get("observedGeneration") == UNSEEN else status


def is_current(cr: Object) -> bool:
    """Whether its status is of the present spec: until it is, a user waits for us."""
    return bool((cr.get("status") or {}).get("observedGeneration") == cr["metadata"].get("generation"))


def find_condition(status: Object, type: str) -> Object:
    """The condition of that type, empty when there is none."""
    found: Object
    for found in status.get("conditions") or ():
        if found.get("type") == type:
            return found
    return {}


def summary(status: Object) -> tuple[object, ...]:
    """What it says, but for its words and figures."""
    ready, degraded = find_condition(status, "Ready"), find_condition(status, "Degraded")
    return status.get("observedGeneration"), ready.get("reason"), ready.get("status"), degraded.get("status")


def rfc3339(now: datetime) -> str:
    """Kubernetes' time format, in whole seconds."""
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")
