"""What a recovery that did not go as it should means; the last word on whether one proves anything."""

from __future__ import annotations

import re

from postgres_backup import wal, words
from postgres_backup.outcome import (
    RESTORE_FAILED,
    TARGET_NOT_REACHED,
    TARGET_TOO_EARLY,
    VOLUME_FULL,
    WAL_GAP,
    Failed,
)
from postgres_backup.targets import Target

_NO_START = (
    "could not locate required checkpoint record",
    "could not locate a valid checkpoint record",
    "could not find redo location",
    "WAL ends before end of online backup",
    "WAL ends before consistent recovery point",
)
_OVER = "a backup made after it is good; make a full one now"


def ended(log: str, target: Target | None, *, database: str = "") -> Failed:
    """Of a server that gave up, by its log, to which the engine writes too."""
    if "No space left on device" in log:
        return Failed(VOLUME_FULL, "the volume is full: give the run a larger one")
    if "is before consistent recovery point" in log:
        return Failed(TARGET_TOO_EARLY, f"{target} is before the backup's own end: ask for a later one")
    # What could not be fetched, PostgreSQL takes for the end of what there is.
    if errors := words.errors(log):
        return Failed(*words.reason(*errors[-1], about=words.DATA, database=database))
    if any(line in log for line in _NO_START):
        return Failed(WAL_GAP, f"the WAL of the backup itself is missing in the store: {_OVER}")
    if "recovery ended before configured recovery target was reached" in log:
        return not_reached(target, last_commit(log))
    if "insufficient parameter settings" in log or "could not access file" in log:
        return Failed(
            RESTORE_FAILED,
            "the source's parameters or libraries are missing here: use its own image and parameters",
        )
    return Failed(RESTORE_FAILED, "the restored server does not start: see the Pod's log")


def last_commit(log: str) -> str:
    """When the last transaction was that a recovery saw, by the server's log; empty where it saw none."""
    found = re.findall(r"last completed transaction was at log time ([0-9-]+ [0-9:.]+)(?:\+00| UTC)?", log)
    return f"{found[-1].replace(' ', 'T')}Z" if found else ""


def not_reached(target: Target | None, last: str) -> Failed:
    limit = (
        f"the last transaction in the store is of {last}: ask for that or earlier"
        if last
        else ("the store has no transaction since the backup: restore the backup itself (immediate)")
    )
    return Failed(TARGET_NOT_REACHED, f"{target} is after the end of what is archived; {limit}")


def gap(missing: wal.Segment) -> Failed:
    """A segment is not in the store though later ones are."""
    return Failed(
        WAL_GAP,
        f"the WAL segment {missing.name} is missing in the store: nothing from {wal.text(missing.begin)} on "
        f"can be restored from the backups before it; {_OVER}",
        facts={"missingWal": missing.name},
    )


def short(reached: int, last: wal.Segment) -> Failed:
    """Recovery ended in silence before the end of what is archived."""
    return Failed(
        WAL_GAP,
        f"recovery ended at {wal.text(reached)}, and WAL up to {wal.text(last.end)} is in the store; {_OVER}",
        facts={"reachedLSN": wal.text(reached), "archivedLSN": wal.text(last.end)},
    )
