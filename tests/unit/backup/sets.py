"""Backups as the engine lists them, for tests of what is decided on them."""

from __future__ import annotations

from dataclasses import replace

from postgres_backup import wal
from postgres_backup.engine import BackupSet, Repository

NOON = 1_800_000_000
"""A moment in seconds since the epoch."""


def backup_set(number: int, *, full: bool = True, stopped: int = NOON, timeline: int = 1) -> BackupSet:
    """The backup that took the segment of this number."""
    segment = wal.Segment(number, timeline)
    return BackupSet(
        label=f"label-{number}",
        full=full,
        started=stopped - 10,
        stopped=stopped,
        begin_lsn=segment.begin + 0x28,
        end_lsn=segment.begin + 0x150,
        begin_wal=segment.name,
        end_wal=segment.name,
        database_bytes=1000,
        stored_bytes=100,
        page_errors=False,
    )


def repository(*sets: BackupSet) -> Repository:
    return Repository(sets, "7000000000000000001", "17-1")


def later(each: BackupSet, seconds: int) -> BackupSet:
    return replace(each, started=each.started + seconds, stopped=each.stopped + seconds)
