"""A full volume, as the server's last log line or its answer shows it, and the next step.

PostgreSQL ends when it cannot write its log of changes, or cannot even start; the kubelet keeps the end of
its output with the container's state. Of a table that cannot grow while the server runs on, only its client
learns.
"""

from __future__ import annotations

import re

from kindling.kinds import reasons
from kindling.kinds.base import Problem
from kindling.kinds.postgresql.spec import is_ephemeral, size_of
from kindling.kinds.postgresql.volume import volume_name
from kindling.kube.resources import Object

LONGEST_SAID = 300
INIT, SERVER = "initdb", "postgres"
"""The containers that write to the volume."""

# In capitals as the C library says it, and without as Go does.
_FULL = re.compile(r"[Nn]o space left on device|[Dd]isk quota exceeded")
# What ends the server; an ERROR ends a statement, and may have come long before an end of another cause.
_END = re.compile(r"\b(PANIC|FATAL): ")
# In these words it speaks of /dev/shm, which is memory.
_MEMORY = "shared memory"
# Not the init container before `initdb`, which writes to the node's disk alone.
_WRITERS = (("initContainerStatuses", INIT, None), ("containerStatuses", SERVER, _END))


def pod_problem(cr: Object, pod: Object) -> Problem | None:
    """Why the Pod's container has ended, where that is its volume. Nothing while it runs again."""
    status = pod.get("status") or {}
    for field, name, only in _WRITERS:
        for item in status.get(field) or ():
            line = _last_line(item, only=only) if item.get("name") == name else None
            if line is not None:
                return problem(cr, line=line)
    return None


def full_since(cr: Object, pod: Object) -> str | None:
    """When the run of the container began that ended because the volume was full; None where none has."""
    for field, name, only in _WRITERS:
        for item in (pod.get("status") or {}).get(field) or ():
            if item.get("name") == name and _last_line(item, only=only) is not None:
                return str((_ended(item) or {}).get("startedAt") or "") or None
    return None


def problem(cr: Object, *, line: str) -> Problem:
    """`line` are PostgreSQL's own words."""
    line = " ".join(line.split()).rstrip(".")[:LONGEST_SAID]
    if is_ephemeral(cr):
        message = f"The node's disk, on which the data lies, is full ({line}): free space on the node."
    elif most := (((cr.get("spec") or {}).get("storage") or {}).get("autoGrow") or {}).get("maxSize"):
        message = (
            f"Volume {volume_name(cr)} is full ({line}): it grows by itself up to {most!r} "
            "(spec.storage.autoGrow), and then the server starts; at that limit, raise maxSize."
        )
    else:
        message = (
            f"Volume {volume_name(cr)} is full ({line}): raise spec.storage.size ({size_of(cr)!r}) where its "
            "class lets it grow; while the server answers, dropped or truncated tables free space too."
        )
    return Problem(reason=reasons.DISK_FULL, message=message)


def _last_line(container: Object, *, only: re.Pattern[str] | None) -> str | None:
    """The log line that shows it, of a container that has ended and does not run again."""
    for line in reversed(str((_ended(container) or {}).get("message") or "").splitlines()):
        if _FULL.search(line) and _MEMORY not in line and (only is None or only.search(line)):
            return line
    return None


def _ended(container: Object) -> Object | None:
    """How its last run ended, if it does not run again."""
    state = container.get("state") or {}
    ended: Object | None = state.get("terminated")
    if ended is None and (state.get("waiting") or {}).get("reason") == reasons.CRASH_LOOP_BACK_OFF:
        ended = (container.get("lastState") or {}).get("terminated")
    return ended
