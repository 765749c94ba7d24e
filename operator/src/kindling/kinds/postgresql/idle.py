"""How long nobody has used a server, and that it is stopped for it: `spec.hibernateAfter`.

Of each health check the prober says whether anybody but the operator has been connected lately
(`kindling.prober.activity`). What follows is on record in the status, before the server is stopped for it; so
it stays stopped whoever decides next, until somebody wakes it or takes the field away.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from kindling.kinds import exporter, reasons, window
from kindling.kinds.base import CachedResult, Problem
from kindling.kinds.conditions import rfc3339
from kindling.kinds.metadata import asked_by
from kindling.kinds.postgresql import postgres_exporter
from kindling.kinds.postgresql.spec import is_ephemeral, is_paused, user_of
from kindling.kinds.times import moment
from kindling.kube.resources import Object, ResourceType

PATH, FIELD = "spec.hibernateAfter", "idle"
WAKE_FIELD = "wakeOnConnection"
WAKE_PATH = f"spec.{WAKE_FIELD}"
ACTIVATOR = "activator"
"""What the name of its Deployment ends with, and the container's."""
WAKE = "kindling.dev/wake"
"""The annotation each new value of which wakes a server that is stopped because nobody used it."""
FACT = "idle_since"
"""Of a health check: since when nobody has been connected; empty where that is not QUIET_SECONDS ago."""
QUIET_SECONDS = 60.0
"""Who uses the server more often than that costs no write of the status each time."""
SHORTEST, LONGEST = timedelta(minutes=1), timedelta(hours=168)
FRESH_SECONDS = 60.0
"""How old an answer may be: after a pause, say, it is the one from before."""
SINCE, STOPPED, WOKEN, WAKING = "since", "stoppedAt", "wake", "wakingSince"


def read(cr: Object) -> timedelta | None:
    """:raises ValueError: with field, value and remedy."""
    text = (cr.get("spec") or {}).get("hibernateAfter")
    if text is None:
        return None
    found = window.read_duration(str(text))
    if found is None or not SHORTEST <= found <= LONGEST:
        raise ValueError(f"{PATH} {text!r} is not 1m to 168h: write hours and minutes, `1h30m`.")
    return found


def validate(cr: Object) -> Problem | None:
    try:
        found = read(cr)
    except ValueError as error:
        return Problem(reason=reasons.INVALID_SPEC, message=str(error))
    if found is None:
        return None
    message = ""
    if is_ephemeral(cr):
        message = (
            f"{PATH} cannot be used with spec.storage.ephemeral, whose data goes with the Pod: leave it out."
        )
    elif _has_exporter_beside_users(cr):
        message = (
            f"{PATH} cannot be used with spec.exporter and the default user 'postgres', in whose database "
            "the exporter's sessions are: leave one of the two out."
        )
    return Problem(reason=reasons.INVALID_SPEC, message=message) if message else None


def is_watched(cr: Object) -> bool:
    """Whether the health checks are to look for others' sessions."""
    return _after(cr) is not None


def wakes_on_connection(cr: Object) -> bool:
    """Whether a server that is stopped for it starts for the next connection (`activator`)."""
    return _after(cr) is not None and (cr.get("spec") or {}).get(WAKE_FIELD) is True


def is_waking(cr: Object) -> bool:
    """Whether the server was woken, and has not been ready since."""
    return WAKING in _record(cr)


def is_stopped(cr: Object, now: datetime) -> bool:
    """Whether the server is to be stopped because nobody uses it, and nobody woke it since."""
    known = _record(cr)
    if _after(cr) is None or _is_woken(cr, known):
        return False
    return bool(known.get(STOPPED)) or _is_due(cr, now)


def decide(
    cr: Object,
    now: datetime,
    *,
    answer: CachedResult | None,
    workload: Object | None,
    called: bool,
    ready: bool,
) -> Mapping[str, Any]:
    """The new value of FIELD, where it changes; None removes it.

    `answer` is the server's last, `workload` the StatefulSet, and `ready` its Pod; `called`: a connection
    waits.
    """
    if "deletionTimestamp" in cr["metadata"]:
        return {}
    known = _record(cr)
    wanted = _wanted(cr, known, now, answer=answer, workload=workload, called=called, ready=ready)
    return {} if wanted == known else {FIELD: wanted or None}


def due(cr: Object) -> datetime | None:
    """When the server is to be stopped; None where no time decides."""
    known, after = _record(cr), _after(cr)
    if after is None or known.get(STOPPED) or is_paused(cr) or (since := moment(known.get(SINCE))) is None:
        return None
    return since + after


def words(type: ResourceType, cr: Object, *, listening: bool) -> str:
    """Why the server is stopped, and what starts it; `listening`: the next connection is taken."""
    meta, since = cr["metadata"], _record(cr).get(SINCE)
    command = (
        f"`kubectl annotate {type.plural}.{type.group} {meta['name']} -n {meta['namespace']} --overwrite "
        f"{WAKE}={since}`"
    )
    starts = f"{command} starts it."
    if listening:
        starts = f"The next connection starts it, or {command}."
    elif wakes_on_connection(cr):
        starts = (
            f"No connection starts it now, because Deployment {meta['name']}-{ACTIVATOR} has no Pod that is "
            f"ready; {command} does."
        )
    return (
        f"Nobody has been connected since {since}, for as long as {PATH} says: the server is stopped and its "
        f"data kept. {starts}"
    )


def _wanted(
    cr: Object,
    known: Object,
    now: datetime,
    *,
    answer: CachedResult | None,
    workload: Object | None,
    called: bool,
    ready: bool,
) -> Object:
    if _after(cr) is None:
        return {}
    stopped = STOPPED in known
    starts = _is_woken(cr, known) or (called and stopped)
    if stopped and not starts:
        return known
    kept = {WOKEN: value} if (value := asked_by(cr, WAKE)) else {}
    if wakes_on_connection(cr):
        if starts and stopped:
            kept[WAKING] = rfc3339(now)
        elif WAKING in known and not ready:
            kept[WAKING] = known[WAKING]
    if starts:
        return kept
    # Once what was decided is done. Until then, whoever decides next begins to count again.
    if _is_due(cr, now) and ((workload or {}).get("spec") or {}).get("replicas") == 0:
        return {**known, STOPPED: rfc3339(now)}
    since = None if answer is None else answer.result.facts.get(FACT)
    if answer is None or not since or (now - answer.at).total_seconds() > FRESH_SECONDS:
        return kept
    return {SINCE: since, **kept}


def _is_due(cr: Object, now: datetime) -> bool:
    found = due(cr)
    return found is not None and found <= now


def _is_woken(cr: Object, known: Object) -> bool:
    return asked_by(cr, WAKE) != str(known.get(WOKEN) or "")


def _has_exporter_beside_users(cr: Object) -> bool:
    """Whether nobody can distinguish its sessions from theirs."""
    return exporter.is_enabled(cr) and user_of(cr) == postgres_exporter.DATABASE


def _record(cr: Object) -> Object:
    found = (cr.get("status") or {}).get(FIELD)
    return dict(found) if isinstance(found, Mapping) else {}


def _after(cr: Object) -> timedelta | None:
    """None as well where the spec is refused for it."""
    try:
        return None if is_ephemeral(cr) or _has_exporter_beside_users(cr) else read(cr)
    except ValueError:
        return None
