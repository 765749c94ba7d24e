"""`spec.maintenanceWindow`: when the operator may restart the server for its own sake."""

from __future__ import annotations

from datetime import UTC, datetime

from kindling.kinds import reasons, window
from kindling.kinds.base import Problem
from kindling.kube.resources import Object

FIELD = "spec.maintenanceWindow"
NEVER = datetime.max.replace(tzinfo=UTC)


def is_given(cr: Object) -> bool:
    return bool(_given(cr))


def is_open(cr: Object, now: datetime) -> bool:
    """Whether there is one, and it is open."""
    return is_given(cr) and opens(cr, now) is None


def opens(cr: Object, now: datetime) -> datetime | None:
    """When it opens next; None while it is open, or where there is none."""
    try:
        found = _read(cr)
    except ValueError:
        return NEVER  # the spec is refused for it
    return found.opens(now) if found else None


def clock(moment: datetime) -> str:
    """When it opens, as messages have it."""
    return moment.isoformat(sep=" ", timespec="minutes")


def validate(cr: Object) -> Problem | None:
    """A window that is none."""
    try:
        _read(cr)
    except ValueError as error:
        return Problem(reason=reasons.INVALID_SPEC, message=str(error))
    return None


def _given(cr: Object) -> Object | None:
    return (cr.get("spec") or {}).get("maintenanceWindow") or None


def _read(cr: Object) -> window.Window | None:
    """:raises ValueError: where it is none, as a sentence with field, value and remedy."""
    given = _given(cr)
    return window.read(given, field=FIELD) if given else None
