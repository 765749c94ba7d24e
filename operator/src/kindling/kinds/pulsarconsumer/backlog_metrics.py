"""The metrics of what waits for a subscription, as the status has it."""

from __future__ import annotations

from kindling.kinds import reasons
from kindling.kinds.conditions import find_condition
from kindling.kinds.metrics import ResourceMetric, status_time
from kindling.kinds.pulsarconsumer.backlog import (
    CONDITION,
    CONSUMERS,
    FIGURES,
    MESSAGES,
    OLDEST_FIELD,
    UNACKNOWLEDGED,
)
from kindling.kube.resources import Object


def _figure(name: str) -> ResourceMetric:
    meanings = {
        MESSAGES: (
            "messages that the subscription has not acknowledged, a batch counted as one",
            "it grows for longer than a peak lasts",
        ),
        UNACKNOWLEDGED: ("messages that consumers have and did not acknowledge yet", "it does not fall"),
        CONSUMERS: ("consumers that the broker has for the subscription", "fewer than `spec.replicas`"),
    }

    def read(cr: Object) -> float | None:
        value = ((cr.get("status") or {}).get("backlog") or {}).get(name)
        return float(value) if isinstance(value, int) else None

    help, investigate = meanings[name]
    return ResourceMetric(
        f"kindling_pulsarconsumer_backlog_{name}",
        f"{help}, as the broker says (`backlog.{name}`); no series without `spec.adminURL` and while the "
        "broker's admin API does not answer",
        investigate,
        read,
    )


def _stuck(cr: Object) -> float | None:
    found = find_condition(cr.get("status") or {}, CONDITION)
    if found.get("status", "Unknown") == "Unknown":
        return None
    return float(found.get("reason") == reasons.BACKLOG_STUCK)


METRICS = (
    *(_figure(name) for name in FIGURES),
    ResourceMetric(
        "kindling_pulsarconsumer_backlog_oldest_timestamp_seconds",
        "when the oldest message was published that the subscription has not acknowledged, to two digits of "
        f"its age (`backlog.{OLDEST_FIELD}`); no series while none is older than a minute",
        "further back than messages may wait: there are too few consumers, or they fail",
        status_time("backlog", OLDEST_FIELD),
    ),
    ResourceMetric(
        "kindling_pulsarconsumer_backlog_stuck",
        "1 while messages wait, consumers are connected, and none of them acknowledges anything (the "
        "condition `BacklogMoving` with the reason `BacklogStuck`), else 0; no series while that is Unknown",
        "1 for minutes: a handler fails or waits",
        _stuck,
    ),
)
"""In the order of the table."""
