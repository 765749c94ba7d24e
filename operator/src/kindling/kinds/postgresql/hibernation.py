"""Whether the server is to be stopped, its data kept: by `spec.hibernate`, by the clock, because nobody uses
it, or for a restore.
"""

from __future__ import annotations

from datetime import datetime

from kindling.kinds import reasons, window
from kindling.kinds.base import Observed, Problem
from kindling.kinds.conditions import rfc3339
from kindling.kinds.postgresql import idle, in_place
from kindling.kinds.postgresql.spec import is_ephemeral
from kindling.kube.resources import Object, ResourceType

FIELD, WINDOW = "spec.hibernate", "spec.hibernateWindow"


def is_to_stop(cr: Object, observed: Observed) -> bool:
    """Whether there is to be no server, for whatever reason."""
    return is_hibernated(cr, observed.now) or in_place.stops(cr, observed) is not None


def is_hibernated(cr: Object, now: datetime) -> bool:
    """Whether the spec has it stopped."""
    return is_asked(cr, now) or idle.is_stopped(cr, now)


def is_asked(cr: Object, now: datetime) -> bool:
    """Whether it is, however much it is used."""
    return _by_field(cr) or _open_window(cr, now) is not None


def field(cr: Object, now: datetime) -> str:
    """The one that stops and starts the server."""
    if _by_field(cr):
        return FIELD
    if idle.is_watched(cr) and (idle.is_stopped(cr, now) or not _given(cr)):
        return idle.PATH
    return WINDOW if _given(cr) else FIELD


def seconds_left(cr: Object, now: datetime) -> float | None:
    """Until the window opens or closes, or nobody has used it for long enough; None where no time decides."""
    if _by_field(cr):
        return None
    moments = [idle.due(cr)]
    if (found := _window(cr)) is not None:
        moments.append(found.opens(now) or found.closes(now))
    left = [(moment - now).total_seconds() for moment in moments if moment is not None]
    return max(1.0, min(left)) if left else None


def words(type: ResourceType, cr: Object, now: datetime, *, listening: bool = False) -> str:
    """Why the server is stopped, and until when; of one that is. `listening` is `activator.is_listening`."""
    if _by_field(cr):
        return f"{FIELD} is true: the server is stopped and its data kept; set it to false to start it."
    if (found := _open_window(cr, now)) is None:
        return idle.words(type, cr, listening=listening)
    closes = found.closes(now)
    until = f"it starts at {rfc3339(closes)}" if closes is not None else "the window never closes"
    return f"{WINDOW} is open: the server is stopped and its data kept; {until}. To start it now, remove it."


def validate(cr: Object) -> Problem | None:
    """A window that is none, or one for data that would go with the server."""
    try:
        found = _read(cr)
    except ValueError as error:
        return Problem(reason=reasons.INVALID_SPEC, message=str(error))
    if found is not None and is_ephemeral(cr):
        return Problem(
            reason=reasons.INVALID_SPEC,
            message=f"{WINDOW} cannot be used with spec.storage.ephemeral, whose data goes with the Pod: "
            "leave it out.",
        )
    return None


def _by_field(cr: Object) -> bool:
    return (cr.get("spec") or {}).get("hibernate") is True


def _given(cr: Object) -> Object | None:
    return (cr.get("spec") or {}).get("hibernateWindow") or None


def _read(cr: Object) -> window.Window | None:
    """:raises ValueError: where it is none."""
    given = _given(cr)
    return window.read(given, field=WINDOW) if given else None


def _window(cr: Object) -> window.Window | None:
    """None as well where the spec is refused for it."""
    try:
        return None if is_ephemeral(cr) else _read(cr)
    except ValueError:
        return None


def _open_window(cr: Object, now: datetime) -> window.Window | None:
    found = _window(cr)
    return found if found is not None and found.opens(now) is None else None
