"""A full volume, as the server's last words or its answer tell it, and the next step.

PostgreSQL ends when it cannot write its log of changes, or cannot even start; the kubelet keeps the end of
its output with the container's state. Of a table that cannot grow while the server runs on, its client alone
is told.
"""

from __future__ import annotations

import re

from kindling.kinds.contract import Problem
from kindling.kinds.postgresql.spec import is_ephemeral, size_of
from kindling.kinds.postgresql.volume import volume_name
from kindling.kube.resources import Object

REASON = "DiskFull"
LONGEST_SAID = 300

_FULL = re.compile(r"No space left on device|Disk quota exceeded")
# What ends the server; an ERROR ends a statement, and may have come long before an end of another cause.
_END = re.compile(r"\b(PANIC|FATAL): ")
# In these words it speaks of /dev/shm, which is memory.
_MEMORY = "shared memory"


def trouble(cr: Object, pod: Object) -> Problem | None:
    """Why the Pod's container has ended, where that is its volume. Nothing while it runs again."""
    status = pod.get("status") or {}
    for field, only in (("initContainerStatuses", None), ("containerStatuses", _END)):
        for item in status.get(field) or ():
            said = _last_words(item, only=only)
            if said is not None:
                return problem(cr, said=said)
    return None


def problem(cr: Object, *, said: str) -> Problem:
    """`said` are PostgreSQL's own words."""
    said = " ".join(said.split()).rstrip(".")[:LONGEST_SAID]
    if is_ephemeral(cr):
        message = f"The node's disk, on which the data lies, is full ({said}): free room on the node."
    else:
        message = (
            f"Volume {volume_name(cr)} is full ({said}): raise spec.storage.size ({size_of(cr)!r}) where its "
            "class lets it grow; while the server answers, dropped or truncated tables give room back too."
        )
    return Problem(reason=REASON, message=message)


def _last_words(container: Object, *, only: re.Pattern[str] | None) -> str | None:
    """The line that tells of it, of a container that has ended and does not run again."""
    state = container.get("state") or {}
    ended = state.get("terminated")
    if ended is None and (state.get("waiting") or {}).get("reason") == "CrashLoopBackOff":
        ended = (container.get("lastState") or {}).get("terminated")
    for line in reversed(str((ended or {}).get("message") or "").splitlines()):
        if _FULL.search(line) and _MEMORY not in line and (only is None or only.search(line)):
            return line
    return None
