"""The volume that is a store, looked at before the engine works there: what it answers has one number.

A volume of the network may answer nothing, and what waits for it cannot be interrupted: so it is asked on a
thread.
"""

from __future__ import annotations

import errno
import os
import re
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from postgres_backup.outcome import ACCESS_DENIED, ENGINE_FAILED, STORE_FULL, STORE_UNREACHABLE, Failed
from postgres_backup.request import VOLUME, Folder

SECONDS = 20.0
PROBE, PROBE_BYTES = "kindling.preflight", 65536
NEARLY_FULL = 16 * 2**20
"""One part of a file that does not fit is no larger."""
_NUMBER = re.compile(r"\[(\d{1,3})\]")

_FULL = (
    STORE_FULL,
    "the volume of the store is full: let its claim ask for more; a lower retention keeps it from filling "
    "again",
)
_DENIED = (
    ACCESS_DENIED,
    "the volume of the store refuses access: its files must belong to user or group 999, and it must not be "
    "mounted read-only where backups are made",
)
_GONE = (
    STORE_UNREACHABLE,
    "the volume of the store fails: see its claim, and what serves it; the next run tries again",
)
_MEANINGS = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EFBIG: _FULL,
    errno.EACCES: _DENIED,
    errno.EPERM: _DENIED,
    errno.EROFS: _DENIED,
    errno.EIO: _GONE,
    errno.ESTALE: _GONE,
    errno.ENOTCONN: _GONE,
    errno.ENODEV: _GONE,
    errno.ENXIO: _GONE,
    errno.EHOSTDOWN: _GONE,
    errno.ETIMEDOUT: _GONE,
}


def meaning(number: int) -> tuple[str, str]:
    """Reason and message for an error of the file system."""
    name = errno.errorcode.get(number, str(number))
    return _MEANINGS.get(
        number, (ENGINE_FAILED, f"the volume of the store answers {name}: see the Pod's log")
    )


def said(words: str, *, free: Callable[[], int] | None = None) -> tuple[str, str] | None:
    """The same for words of the engine about the volume; None for what is about another file."""
    if str(VOLUME) not in words:
        return None
    free = free or _free
    numbers = [int(each) for each in _NUMBER.findall(words)]
    known = next((_MEANINGS[each] for each in numbers if each in _MEANINGS), None)
    if known is None and "unable to write" in words:
        # Of what it writes to a file that is open, it does not say which error it was.
        return _FULL if free() < NEARLY_FULL else _GONE
    return known


def _free() -> int:
    """The bytes that can be written to the volume; as many as there may be where it does not say."""
    with suppress(OSError):
        found = os.statvfs(VOLUME)
        return found.f_bavail * found.f_frsize
    return NEARLY_FULL


def preflight(store: Folder, *, write: bool) -> None:
    """List the place; to `write`, make it, and put and delete a small file there.

    :raises Failed: by what the volume answers.
    """
    _ask(lambda: _look(store, write=write))


def left(store: Folder) -> Sequence[str]:
    """The files that are in the place, from it on. Where there are none, its empty folders go too."""
    found: list[str] = []

    def look() -> None:
        for folder, _, names in os.walk(store.path, topdown=False):
            found.extend(os.path.relpath(os.path.join(folder, name), store.path) for name in names)
            with suppress(OSError):
                os.rmdir(folder)

    _ask(look)
    return sorted(found)


def _look(store: Folder, *, write: bool) -> None:
    os.listdir(store.volume)
    if not write:
        if store.path.exists():
            os.listdir(store.path)
        return
    store.path.mkdir(mode=0o750, parents=True, exist_ok=True)
    probe = store.path / PROBE
    try:
        with probe.open("wb") as file:
            file.write(bytes(PROBE_BYTES))
            file.flush()
            os.fsync(file.fileno())
    finally:
        with suppress(FileNotFoundError):
            probe.unlink()


def _ask(look: Callable[[], Any]) -> None:
    failed: list[OSError] = []

    def ask() -> None:
        try:
            look()
        except OSError as error:
            failed.append(error)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(SECONDS)
    if thread.is_alive():
        raise Failed(*_GONE)
    if failed:
        raise Failed(*meaning(failed[0].errno or 0))
