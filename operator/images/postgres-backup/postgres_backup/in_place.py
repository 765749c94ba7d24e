"""A restore into the volume of a Postgresql whose server is stopped, and the way back.

The data that is restored and the data that was there change places by one call of the system: at each instant
`PGDATA` is a whole database. A file in the restored one says whose work it is, so that a run that was ended
anywhere goes on, and nothing changes places twice.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from postgres_backup import programs, recovery, timelines
from postgres_backup.files import PGDATA, RESULT, sync, write
from postgres_backup.outcome import ARCHIVING_BEHIND, INVALID_REQUEST, RESTORE_FAILED, VOLUME_FULL, Failed
from postgres_backup.request import Request

RESTORED = recovery.VOLUME / "pgdata.restored"
PREVIOUS = recovery.VOLUME / "pgdata.previous"
MARK = "kindling.restore"
"""In a restored data directory: the uid of the Restore, and on a second line that of the one that had made
the data before.
"""

ANSWERED = "kindling.answered"
"""In a data directory with which a server has taken connections, beside one that was replaced: its next start
may remove that one. A backup has this file of the directory that it was made of, and no server has answered
with the copy.
"""

SPARE_BYTES = 256 << 20
"""What is left free of the volume, for the log that is replayed."""
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
_CONTROL_SECONDS = 60
_SHUT_DOWN = "shut down"


def restore(request: Request, recover: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """`recover` leaves a stopped server's directory at `recovery.PARTIAL`, and returns what is said of it."""
    if mark_of(PGDATA) != request.uid:
        if not PGDATA.exists():
            raise Failed(
                INVALID_REQUEST, "the volume has no database that could be replaced: restore into a new one"
            )
        if mark_of(RESTORED) != request.uid:
            _check()
            said = recover()
            timelines.hand_over(recovery.PARTIAL)
            (recovery.PARTIAL / ANSWERED).unlink(missing_ok=True)
            write(recovery.PARTIAL / MARK, f"{request.uid}\n{mark_of(PGDATA) or ''}\n")
            write(RESULT, json.dumps({"restore": request.uid, "said": said}))
            recovery.PARTIAL.rename(RESTORED)
            sync(recovery.VOLUME)
        exchange(RESTORED, PGDATA)
    if RESTORED.exists():
        RESTORED.rename(PREVIOUS)
    sync(recovery.VOLUME)
    return _said(request)


def undo(request: Request) -> dict[str, Any]:
    """Have the data from before a restore, and what was restored aside."""
    if _marks(PREVIOUS) != (request.uid, mark_of(PGDATA)):  # else it is undone
        if _marks(PGDATA) != (request.uid, mark_of(PREVIOUS)) or not PREVIOUS.exists():
            raise Failed(
                RESTORE_FAILED,
                "the volume does not have both the data of this Restore and that from before it: nothing "
                "was changed",
            )
        exchange(PGDATA, PREVIOUS)
    sync(recovery.VOLUME)
    return {"message": "the data from before the restore is in its place again"}


def mark_of(directory: Path) -> str | None:
    """Whose restore made this data directory; None for any other, and where there is none."""
    return _marks(directory)[0]


def _marks(directory: Path) -> tuple[str | None, str | None]:
    with suppress(OSError, ValueError):
        made, replaced, *_ = (directory / MARK).read_text().split("\n")
        return made or None, replaced or None
    return None, None


def exchange(one: Path, other: Path) -> None:
    """Both change places at once, or neither does.

    :raises Failed: where the file system of the volume cannot.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    names = os.fsencode(one), os.fsencode(other)
    if libc.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) != 0:
        why = os.strerror(ctypes.get_errno())
        raise Failed(
            RESTORE_FAILED,
            f"the volume's file system cannot exchange two directories ({why}): restore into a new "
            "Postgresql",
        )


def check_space(bytes: int) -> None:
    """Whether the volume takes that much beside what is there. What earlier restores left goes first."""
    for left in (RESTORED, PREVIOUS, recovery.PARTIAL):
        shutil.rmtree(left, ignore_errors=True)
    free = shutil.disk_usage(recovery.VOLUME).free
    if free < bytes + SPARE_BYTES:
        raise Failed(
            VOLUME_FULL,
            f"the volume has {free >> 20} MiB free, and the data needs {(bytes + SPARE_BYTES) >> 20} MiB "
            "beside what is there: nothing was changed; raise spec.storage.size, or restore into a new "
            "Postgresql",
        )


def _check() -> None:
    """What is to be so before anything is downloaded: the server ended in good order, all of its log is in
    the store, and two directories can be exchanged.
    """
    state = _state()
    if state != _SHUT_DOWN:
        raise Failed(
            ARCHIVING_BEHIND,
            f"the server did not stop in good order (its data is {state!r}), so the end of its log may not "
            "be in the store: nothing was changed; once it is Ready again, create another Restore",
        )
    if waiting := timelines.waiting(PGDATA):
        raise Failed(
            ARCHIVING_BEHIND,
            f"{len(waiting)} files of the server's log are not in the store, {waiting[0]} for one: nothing "
            "was changed; once the Backup's condition Archiving is True, create another Restore",
        )
    _try_exchange()


def _state() -> str:
    """The state of the cluster by PostgreSQL's own word."""
    done = programs.run(["pg_controldata", f"--pgdata={PGDATA}"], seconds=_CONTROL_SECONDS)
    for line in done.out.splitlines():
        name, _, value = line.partition(":")
        if name == "Database cluster state":
            return value.strip()
    return "not readable"


def _try_exchange() -> None:
    tried = [recovery.VOLUME / f"pgdata.try-{number}" for number in (1, 2)]
    try:
        for each in tried:
            each.mkdir(exist_ok=True)
        exchange(*tried)
    finally:
        for each in tried:
            with suppress(OSError):
                each.rmdir()


def _said(request: Request) -> dict[str, Any]:
    with suppress(OSError, ValueError, KeyError):
        kept = json.loads(RESULT.read_text())
        if kept["restore"] == request.uid:
            said: dict[str, Any] = kept["said"]
            return said
    return {"message": "the data is restored"}
