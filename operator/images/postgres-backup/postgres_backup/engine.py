"""The port of what stores backups and WAL, so that another engine can take pgBackRest's place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class BackupSet:
    """One backup that is complete. `started` and `stopped` are seconds since the epoch.

    `stored_bytes` is what it added to the store; `page_errors`: pages had a wrong checksum while it was made.
    """

    label: str
    full: bool
    started: int
    stopped: int
    begin_lsn: int
    end_lsn: int
    begin_wal: str
    end_wal: str
    database_bytes: int
    stored_bytes: int
    page_errors: bool

    @property
    def timeline(self) -> int:
        return int(self.end_wal[:8], 16)


@dataclass(frozen=True)
class Repository:
    """What is stored of one database, the oldest first; `wal_folder` is where the engine has its WAL."""

    sets: tuple[BackupSet, ...]
    system_identifier: str
    wal_folder: str


class Engine(Protocol):
    """Each raises `Failed` with a reason of the closed list, and calls its programs with a time limit."""

    def reach(self) -> None:
        """List the place: whether the store is there, and lets us read."""

    def left(self) -> Sequence[str]:
        """The files that are in the place, from it on; empty if there are none."""

    def prepare(self) -> None:
        """Make the place ready for a first backup; does nothing where it is."""

    def backup(self, *, full: bool, uid: str) -> None: ...

    def expire(self) -> None:
        """Delete what retention no longer asks for."""

    def delete(self) -> None:
        """Delete all backups and all WAL; does nothing where there is none. No server may archive there."""

    def info(self) -> Repository: ...

    def segments(self, repository: Repository, *, since: str) -> Sequence[str]:
        """The names of the WAL segments in the store, from the one named on, of every timeline."""

    def history(self, repository: Repository, timeline: int) -> str | None:
        """The history file of a timeline from 2 on; None where the store has none."""

    def restore(self, label: str, *, into: Path, timeline: int, again: bool = False) -> None:
        """Put the files of a backup into an empty directory, with nothing said of how to recover.

        `again`: into one that has them from before, of which only what has changed is fetched.
        """

    def restore_command(self, directory: Path) -> str:
        """For PostgreSQL's parameter of that name."""

    def fetch(self, segment: str, *, to: Path, directory: Path) -> bool:
        """Get one segment, as PostgreSQL would have; False where the store has none of that name."""
