"""What a restore leaves on the volume beside data directories, and how it is written."""

from __future__ import annotations

import os
from pathlib import Path

from postgres_backup import recovery

PGDATA = recovery.VOLUME / "pgdata"
RESULT = recovery.VOLUME / "restore.json"
"""What a restore said that has its data in place, in case nobody read it."""


def write(file: Path, text: str) -> None:
    """Whole or not at all."""
    new = file.with_suffix(".new")
    with new.open("w") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    new.rename(file)


def sync(folder: Path) -> None:
    """Have the names in it survive the machine's end."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
