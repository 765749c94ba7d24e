"""Times as a spec and a status have them."""

from __future__ import annotations

from datetime import UTC, datetime


def moment(value: object) -> datetime | None:
    """A time with its zone, as text; None for anything else, and before the year 1 or after 9999 in UTC."""
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
        return found.astimezone(UTC) if found is not None and found.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def seconds_since(since: object, *, now: datetime) -> float:
    """Seconds since a Kubernetes time; 0 for what is none."""
    try:
        return max(0.0, (now - datetime.fromisoformat(str(since))).total_seconds())
    except ValueError:
        return 0.0
