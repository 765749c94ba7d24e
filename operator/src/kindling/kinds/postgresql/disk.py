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


def pod_problem(cr: Object, pod: Object) -> Problem | None:
    """Why the Pod's container has ended, where that is its volume. Nothing while it runs again."""
    status = pod.get("status") or {}
    # Not the init container before `initdb`, which writes to the node's disk alone.
    for field, name, only in (("initContainerStatuses", INIT, None), ("containerStatuses", SERVER, _END)):
        for item in status.get(field) or ():
            line = _last_line(item, only=only) if item.get("name") == name else None
            if line is not None:
                return problem(cr, line=line)
    return None


def problem(cr: Object, *, line: str) -> Problem:
    """`line` are PostgreSQL's own words."""
    line = " ".join(line.split()).rstrip(".")[:LONGEST_SAID]
    if is_ephemeral(cr):
        message = f"The node's disk, on which the data lies, is full ({line}): free space on the node."
    else:
        message = (
            f"Volume {volume_name(cr)} is full ({line}): raise spec.storage.size ({size_of(cr)!r}) where its "
            "class lets it grow; while the server answers, dropped or truncated tables free space too."
        )
    return Problem(reason=reasons.DISK_FULL, message=message)


def _last_line(container: Object, *, only: re.Pattern[str] | None) -> str | None:
    """The log line that shows it, of a container that has ended and does not run again."""
    state = container.get("state") or {}
    ended = state.get("terminated")
    if ended is None and (state.get("waiting") or {}).get("reason") == reasons.CRASH_LOOP_BACK_OFF:
        ended = (container.get("lastState") or {}).get("terminated")
    for line in reversed(str((ended or {}).get("message") or "").splitlines()):
        if _FULL.search(line) and _MEMORY not in line and (only is None or only.search(line)):
            return line
    return None
