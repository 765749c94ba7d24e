"""Containers that end again and again, as the status of their Pod has them.

The kubelet calls that CrashLoopBackOff only while it waits before the next start. Between two waits the
container runs for a moment, and is no better for it.
"""

from __future__ import annotations

from datetime import datetime

from kindling.kinds import reasons
from kindling.kinds.times import moment, seconds_since
from kindling.kube.resources import Object

RUN_SECONDS = 30.0
"""What has run for so long since its last end is on its way, though it may not be ready."""
RESET_SECONDS = 600.0
"""Whoever ran for so long before the last end has not failed again and again: the kubelet's own measure."""
OOM_KILLED = "OOMKilled"
MORE_MEMORY = "Raise the limit in the spec, or have it use less."


def last_end(container: Object, *, now: datetime) -> Object | None:
    """How it ended last (`exitCode`, `reason`; empty if that is not known), while it keeps failing."""
    state = container.get("state") or {}
    last: Object = (container.get("lastState") or {}).get("terminated") or {}
    if (state.get("waiting") or {}).get("reason") == reasons.CRASH_LOOP_BACK_OFF:
        return last
    if (container.get("restartCount") or 0) < 2:
        return None
    if ended := state.get("terminated"):
        return ended if _failed_soon(ended) else None
    waits = _seconds_left(container, now=now) > 0 and not container.get("ready")
    return last if waits and _failed_soon(last) else None


def seconds_left(container: Object, *, now: datetime) -> float | None:
    """Until one that has just been started, and keeps failing, is on its way; None for any other."""
    left = _seconds_left(container, now=now)
    return left if left > 0 and last_end(container, now=now) is not None else None


def words(container: Object, end: Object, *, logs: str) -> str:
    """What keeps failing, and the next step; `logs` is the command that prints its last words."""
    name, code = container.get("name"), end.get("exitCode")
    if end.get("reason") == OOM_KILLED:
        return (
            f"Container {name} keeps failing: it uses more memory than its limit{_limit(container)} and is "
            f"killed for that ({OOM_KILLED}). {MORE_MEMORY}"
        )
    last = "" if code is None else f", the last time with exit code {code}"
    return f"Container {name} keeps failing{last}: see {logs}."


def used_too_much(container: Object) -> str:
    """Why it was killed, of one that was for its memory."""
    return f"it used more memory than its limit{_limit(container)} and was killed for that ({OOM_KILLED})"


def _limit(container: Object) -> str:
    limit = ((container.get("resources") or {}).get("limits") or {}).get("memory")
    return f", {limit}," if limit else ""


def _seconds_left(container: Object, *, now: datetime) -> float:
    running = (container.get("state") or {}).get("running")
    return RUN_SECONDS - seconds_since(running.get("startedAt"), now=now) if running else 0.0


def _failed_soon(end: Object) -> bool:
    """Whether it failed, and not long after it was started."""
    ended = moment(end.get("finishedAt"))
    if ended is None or not end.get("exitCode"):
        return False
    return seconds_since(end.get("startedAt"), now=ended) < RESET_SECONDS
