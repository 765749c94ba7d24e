"""When applications go on to another login: by `spec.credentials.rotation.schedule`, or by an annotation.

What is decided is on record in the status (`credentials.Record`) before anything follows from it: the
server gets the new login, the binding has it once the server lets it in, and the login before it is disabled
once `overlap` has passed and no session uses it (`logins`). Until then there is no other rotation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from kindling.kinds import reasons, window
from kindling.kinds.base import Observed, Problem
from kindling.kinds.conditions import find_condition, rfc3339
from kindling.kinds.metadata import asked_by
from kindling.kinds.postgresql import credentials, logins, secrets
from kindling.kinds.postgresql.credentials import FIELD, LONGEST_USER, Record
from kindling.kinds.postgresql.password import password_of
from kindling.kinds.postgresql.spec import is_paused, pod_name, role_names, user_of
from kindling.kube.resources import Object

PATH = "spec.credentials.rotation"
REQUEST = "kindling.dev/rotate"
"""The annotation each new value of which asks for a rotation."""
DEFAULT_OVERLAP, LONGEST_OVERLAP = timedelta(hours=24), timedelta(days=30)
SOON = 0.2
"""Seconds until the next step of a rotation, which nothing but the operator's own look brings."""


@dataclass(frozen=True, kw_only=True)
class Rotation:
    """What the spec asks for; without a `schedule`, only the annotation starts one."""

    schedule: window.Schedule | None
    overlap: timedelta


def read(cr: Object) -> Rotation | None:
    """:raises ValueError: with field, value and remedy, where it is none."""
    if (given := _given(cr)) is None:
        return None
    schedule = window.read_schedule(given, field=PATH) if given.get("schedule") else None
    text = given.get("overlap")
    overlap = DEFAULT_OVERLAP if text is None else window.read_duration(str(text))
    if overlap is None or overlap > LONGEST_OVERLAP:
        raise ValueError(f"{PATH}.overlap {text!r} is not 0m to 720h: write hours and minutes, `1h30m`.")
    return Rotation(schedule=schedule, overlap=overlap)


def validate(cr: Object) -> Problem | None:
    try:
        given = read(cr)
    except ValueError as error:
        return Problem(reason=reasons.INVALID_SPEC, message=str(error))
    user, message = user_of(cr), None
    if given is None:
        return None
    if taken := sorted(role_names(cr) & set(credentials.logins(cr)[1:])):
        message = f"spec.roles[{taken[0]}] has the name of a login that {PATH} makes: use another."
    elif credentials.is_given(cr):
        message = (
            f"{PATH} makes passwords, and the spec gives one: leave out spec.password and "
            f"spec.passwordSecretRef, or {PATH}."
        )
    elif len(user.encode()) > LONGEST_USER:
        message = (
            f"spec.defaultUser {user!r} has more than {LONGEST_USER} bytes, and the logins of {PATH} have "
            "longer names: create this resource with a shorter one, or leave that out."
        )
    return Problem(reason=reasons.INVALID_SPEC, message=message) if message else None


def decide(cr: Object, observed: Observed) -> Mapping[str, Any]:
    """The new value of FIELD, where it changes; None removes it.

    Without a rotation so far, and with none asked for, there is nothing to remember. After one there is: the
    login, and the number, with which no password comes twice.
    """
    if "deletionTimestamp" in cr["metadata"]:
        return {}
    known = credentials.record(cr)
    if known is not None and not known.number and _given(cr) is None:
        return {FIELD: None}
    decided = _decided(cr, observed, known)
    return {} if decided is None or decided == known else {FIELD: decided.written()}


def _decided(cr: Object, observed: Observed, known: Record | None) -> Record | None:
    given, now = _read(cr), rfc3339(observed.now)
    if known is None:
        if given is None or credentials.is_given(cr):
            return None
        # One that was there before the resource served anybody asks for nothing.
        request = "" if (cr.get("status") or {}).get("binding") else asked_by(cr, REQUEST)
        return Record(number=0, login=user_of(cr), at=now, request=request)
    if known.login != credentials.login_of(cr):  # a password was given
        return known._replace(login=user_of(cr), at=now, previous=known.login, since=None)
    if known.previous is not None:
        if known.since is None:
            return known._replace(since=now) if _is_bound(cr, observed) else known
        return known._replace(previous=None, since=None) if is_disabled(cr, observed, known) else known
    if given is None or credentials.is_given(cr) or not _is_ready(cr) or not is_due(cr, observed.now):
        return known
    free = [name for name in credentials.logins(cr)[1:] if name != known.login]
    return Record(
        number=known.number + 1, login=free[0], at=now, request=asked_by(cr, REQUEST), previous=known.login
    )


def is_due(cr: Object, now: datetime) -> bool:
    known, given = credentials.record(cr), _read(cr)
    if known is None or given is None:
        return False
    if asked_by(cr, REQUEST) not in ("", known.request):
        return True
    following = next_time(cr)
    return following is not None and following <= now


def next_time(cr: Object) -> datetime | None:
    """The first time of the schedule after the last rotation, or after the schedule was there."""
    known, given = credentials.record(cr), _read(cr)
    if known is None or given is None or given.schedule is None:
        return None
    return given.schedule.after(datetime.fromisoformat(known.at))


def overlap_ends(cr: Object, known: Record) -> datetime | None:
    """None while the binding does not have the new login."""
    given = _read(cr)
    overlap = DEFAULT_OVERLAP if given is None else given.overlap
    return None if known.since is None else datetime.fromisoformat(known.since) + overlap


def is_over(cr: Object, now: datetime) -> bool:
    """Whether the login before the present one needs to be valid no longer, but for who uses it."""
    known = credentials.record(cr)
    if known is None or known.previous is None:
        return True
    ends = overlap_ends(cr, known)
    return ends is not None and ends <= now


def is_disabled(cr: Object, observed: Observed, known: Record) -> bool:
    answer = logins.last_result(cr, observed)
    enabled = answer is None or known.previous in answer.facts[logins.ENABLED]
    return is_over(cr, observed.now) and not enabled


def seconds_left(cr: Object, observed: Observed) -> float | None:
    """Until there is something to decide, or to ask, again; while paused, nothing is decided."""
    asked = logins.seconds_left(cr, observed)
    if is_paused(cr):
        return asked
    if decide(cr, observed):
        return SOON
    if (known := credentials.record(cr)) is None:
        return None
    moments = [next_time(cr), overlap_ends(cr, known) if known.previous is not None else None]
    times = [(moment - observed.now).total_seconds() for moment in moments if moment is not None]
    # One that has passed waits for something else.
    ahead = [max(SOON, seconds) for seconds in times if seconds > 0] + ([] if asked is None else [asked])
    return min(ahead, default=None)


def status(cr: Object, observed: Observed) -> Object:
    """`status.credentials`: what the binding has, since when, and who still uses the login before that."""
    known, bound = credentials.record(cr), secrets.bound(cr, observed)
    if known is None or bound is None:
        return {}
    found: Object = {"login": bound[0]}
    if known.number:
        found["rotatedAt"] = known.at
    if (following := next_time(cr)) is not None:
        found["nextRotation"] = rfc3339(following)
    if known.previous is not None:
        found["previous"] = _previous(cr, observed, known)
    return {"credentials": found}


def _previous(cr: Object, observed: Observed, known: Record) -> Object:
    ends, sessions = overlap_ends(cr, known), logins.sessions(cr, observed, str(known.previous))
    found: Object = {"login": known.previous}
    if ends is not None:
        found["validUntil"] = rfc3339(ends)
    was = ((cr.get("status") or {}).get("credentials") or {}).get("previous") or {}
    was = was if was.get("login") == known.previous else {}
    asked = logins.asked_at(cr, observed)
    if sessions is None:
        sessions = was.get("sessions")
    if sessions:
        found["sessions"] = sessions
    # Who was connected before the overlap was over may have gone on since.
    lasts = "message" in was if asked is None else ends is not None and asked >= ends
    if sessions and is_over(cr, observed.now) and lasts:
        due = " A rotation is due, and waits for that." if is_due(cr, observed.now) else ""
        found["message"] = (
            f"{known.previous} is disabled once no session uses it: have those applications read Secret "
            f"{secrets.binding_name(cr)} again, and connect again. {_where(cr, sessions)}{due}"
        )
    return found


def _where(cr: Object, sessions: Sequence[Object]) -> str:
    """How to find who that is. What connects by the server's socket is in its Pod."""
    addresses = [found["address"] for found in sessions if found["address"] != logins.LOCAL]
    if not addresses:
        return f"They are in the server's own Pod, {pod_name(cr)}."
    return (
        f"`kubectl get pods -A --field-selector=status.podIP={addresses[0]} -o wide` names the Pod of an "
        "address."
    )


def _given(cr: Object) -> Object | None:
    found: Object | None = ((cr.get("spec") or {}).get("credentials") or {}).get("rotation")
    return found


def _is_bound(cr: Object, observed: Observed) -> bool:
    wanted = credentials.login_of(cr), password_of(cr, observed)
    return secrets.bound(cr, observed) == wanted


def _is_ready(cr: Object) -> bool:
    ready = find_condition(cr.get("status") or {}, "Ready").get("status") == "True"
    return ready and not is_paused(cr)


def _read(cr: Object) -> Rotation | None:
    """None as well where the spec is refused for it."""
    try:
        return read(cr)
    except ValueError:
        return None
