"""What Prometheus gets of each Backup: the values of its status, and until when another backup is due."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache

from kindling.kinds.backup import spec as specs
from kindling.kinds.metrics import ResourceMetric, status_condition, status_duration, status_time
from kindling.kube.resources import Object

MOST_SCHEDULES = 1024


def _next_due(cr: Object) -> float | None:
    """None without a schedule, while it is suspended, and before the first good backup."""
    spec, last = specs.read(cr), (cr.get("status") or {}).get("lastSuccessfulBackupTime")
    if spec.schedule is None or spec.suspended or not isinstance(last, str):
        return None
    return _first_after(spec.schedule, spec.time_zone, last)


@lru_cache(maxsize=MOST_SCHEDULES)
def _first_after(schedule: str, zone: str, last: str) -> float | None:
    """Remembered: a schedule of once a year takes a millisecond, and most statuses differ in other fields."""
    try:
        found = specs.next_time(schedule, zone, datetime.fromisoformat(last))
    except (ValueError, OverflowError):
        return None
    return found.timestamp() if found is not None and found.tzinfo is not None else None


METRICS = (
    ResourceMetric(
        "kindling_backup_last_success_timestamp_seconds",
        "when the last good backup ended (`lastSuccessfulBackupTime`)",
        "longer ago than the schedule explains",
        status_time("lastSuccessfulBackupTime"),
    ),
    ResourceMetric(
        "kindling_backup_last_failure_timestamp_seconds",
        "when a backup last failed (`lastFailedBackupTime`); no series if none has",
        "later than the last good one",
        status_time("lastFailedBackupTime"),
    ),
    ResourceMetric(
        "kindling_backup_next_due_timestamp_seconds",
        "the first time in `spec.schedule` after the last good backup; no series without a schedule "
        "and while `spec.suspend` is true",
        "it has passed by more than a backup takes",
        _next_due,
    ),
    ResourceMetric(
        "kindling_backup_verified",
        "1 if the newest restore that was tried succeeded and is not older than `spec.verify.maxAge`, else 0 "
        "(the condition `Verified`); no series while that is Unknown",
        "0, other than before the first restore",
        status_condition("Verified"),
    ),
    ResourceMetric(
        "kindling_backup_last_verified_timestamp_seconds",
        "when a restore last succeeded (`lastVerifiedTime`)",
        "longer ago than `spec.verify.schedule` explains",
        status_time("lastVerifiedTime"),
    ),
    ResourceMetric(
        "kindling_backup_restore_duration_seconds",
        "how long that restore took (`restoreDuration.total`)",
        "it nears the longest outage that you can afford",
        status_duration("restoreDuration", "total"),
    ),
    ResourceMetric(
        "kindling_backup_first_recoverable_timestamp_seconds",
        "the earliest moment that can be restored (`firstRecoverabilityPoint`)",
        "later than `spec.retention` explains",
        status_time("firstRecoverabilityPoint"),
    ),
    ResourceMetric(
        "kindling_backup_latest_recoverable_timestamp_seconds",
        "the latest moment that can be restored (`latestRestorableTime`), in whole minutes",
        "it stands still while the database runs",
        status_time("latestRestorableTime"),
    ),
    ResourceMetric(
        "kindling_backup_data_loss_window_seconds",
        "how much of the newest changes would be lost with the volume now (`dataLossWindow`), whole minutes",
        "above what you can afford; a minute or two is usual",
        status_duration("dataLossWindow"),
    ),
    ResourceMetric(
        "kindling_backup_archiving",
        "1 while the server's log reaches the store, else 0 (the condition `Archiving`); no series while "
        "that is Unknown",
        "0 for minutes: the log fills the server's volume",
        status_condition("Archiving"),
    ),
)
"""In the order of the table."""
