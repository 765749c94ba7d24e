"""Timelines: each recovery that ends begins one, with a history file that says where it branched off.

A backup of a branch that was left leads nowhere, and without its history file no timeline can be recovered
along.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from postgres_backup import wal
from postgres_backup.engine import BackupSet, Engine, Repository

_STATUS = "archive_status"


def branches(engine: Engine, repository: Repository, timeline: int) -> Mapping[int, int | None]:
    """The timelines that a recovery along this one passes, each with the position where it was left; None for
    the last.
    """
    history = engine.history(repository, timeline) if timeline > 1 else None
    return {**parents(history or ""), timeline: None}


def parents(history: str) -> dict[int, int]:
    """What a history file says: each timeline before, with the position where it was left."""
    found = {}
    for line in history.splitlines():
        words = line.split()
        if len(words) >= 2 and words[0].isdecimal():
            found[int(words[0])] = wal.lsn(words[1])
    return found


def leads(each: BackupSet, known: Mapping[int, int | None]) -> bool:
    """Whether a recovery along these timelines can begin with this backup."""
    if each.timeline not in known:
        return False
    left = known[each.timeline]
    return left is None or each.end_lsn <= left


def hand_over(directory: Path) -> None:
    """Have the server hand over the history files of its timelines once it archives.

    It does so when it begins one, but none was archived then.
    """
    log = directory / "pg_wal"
    (log / _STATUS).mkdir(mode=0o700, exist_ok=True)
    for file in log.glob("*.history"):
        if not (log / _STATUS / f"{file.name}.done").exists():
            (log / _STATUS / f"{file.name}.ready").touch(mode=0o600)


def waiting(directory: Path) -> list[str]:
    """The names of what the server of this directory has not handed over."""
    return sorted(
        file.name.removesuffix(".ready") for file in (directory / "pg_wal" / _STATUS).glob("*.ready")
    )
