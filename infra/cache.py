"""What of the cache is in use, and what goes: tools, images and environments that nobody used for a month.

At the bottom, as those who make these things mark them here: by the time of the lock file beside each.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from contextlib import suppress
from pathlib import Path

from infra import locks, paths

DAYS = 30.0
FOLDERS = ("tools", "images", "python", "pipelines")
DAY_SECONDS = 86_400.0


def used(path: Path) -> None:
    """Say that what is made at this path was used just now; a cache that cannot be written says nothing."""
    with suppress(OSError):
        locks.lock_path(path).touch()


def prune(*, days: float = DAYS) -> tuple[list[str], int]:
    """Remove what was used last so many days ago; the names, and the bytes that are free again.

    What another command is making, and what bears no mark, stays.
    """
    names, freed = [], 0
    oldest = time.time() - days * DAY_SECONDS
    for lock in (lock for folder in FOLDERS for lock in (paths.cache_dir() / folder).glob("*.lock")):
        made = lock.with_name(lock.name.removesuffix(".lock"))
        with suppress(OSError), lock.open() as held:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if lock.stat().st_mtime > oldest:
                continue
            size = _size(made)
            if made.is_dir():
                shutil.rmtree(made)
            else:
                made.unlink(missing_ok=True)
            lock.unlink()
            names.append(made.name)
            freed += size
    return sorted(names), freed


def _size(path: Path) -> int:
    """Bytes of a file, or of all files in a folder; one that is linked elsewhere too frees nothing."""
    walked = os.walk(path)
    files = [path] if path.is_file() else [Path(at, name) for at, _, names in walked for name in names]
    found = 0
    for file in files:
        with suppress(OSError):
            state = file.lstat()
            found += state.st_size if state.st_nlink == 1 else 0
    return found
