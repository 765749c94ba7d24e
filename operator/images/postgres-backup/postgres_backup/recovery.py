"""What a verify and a restore have in common: files from the store, recovered up to a target, and judged."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from postgres_backup import dropped, judging, programs, targets, timelines, wal
from postgres_backup.engine import BackupSet, Engine, Repository
from postgres_backup.outcome import (
    BACKUP_NOT_FOUND,
    RESTORE_FAILED,
    STORE_UNREACHABLE,
    TARGET_NOT_REACHED,
    Failed,
    rfc3339,
)
from postgres_backup.request import Request
from postgres_backup.server import SCRATCH, Ended, Reached, Server
from postgres_backup.targets import Target

VOLUME = Path("/var/lib/postgresql/data")
PARTIAL = VOLUME / "pgdata.partial"
GAP_SECONDS, GAP_SEGMENTS = 15.0, 16
"""How long a gap may last, and how far from the end: sent side by side, a later segment can be first."""
_REPORT_SECONDS = 5.0


@dataclass(frozen=True)
class Recovered:
    """`archived` is the last segment in the store when it began. Seconds are by the monotonic clock."""

    chosen: BackupSet
    reached: Reached
    archived: wal.Segment
    download: float
    replay: float


@dataclass(frozen=True)
class _Replay:
    """A backup's files in `PARTIAL`, and the log replayed on them."""

    engine: Engine
    server: Server
    settings: Mapping[str, str]
    database: str
    chosen: BackupSet
    stored: wal.Archived
    timeline: int

    def to(self, target: Target | None, *, again: bool = False) -> Recovered:
        chosen, begun = self.chosen, time.monotonic()
        with _telling(PARTIAL, of=chosen.database_bytes):
            self.engine.restore(chosen.label, into=PARTIAL, timeline=self.timeline, again=again)
        downloaded = time.monotonic()
        self.server.start(
            {
                **self.settings,
                **targets.settings(target),
                "restore_command": self.engine.restore_command(PARTIAL),
                # By its number only where it must: of some timelines the store has no history file.
                "recovery_target_timeline": (
                    "current" if chosen.timeline == self.timeline else str(self.timeline)
                ),
            }
        )
        first = wal.Segment.of(chosen.begin_wal)
        try:
            reached = self.server.wait_promoted(first=first, last=self.stored.last)
        except Ended as ended:
            failed = judging.ended(ended.log, target, database=self.database)
            programs.note(f"server: {_last_lines(ended.log)}", secrets=())
            if failed.reason == TARGET_NOT_REACHED and self.stored.missing is not None:
                failed = judging.gap(self.stored.missing)
            raise failed from None
        return Recovered(chosen, reached, self.stored.last, downloaded - begun, time.monotonic() - downloaded)

    def without_drop(self, first: Recovered, *, timelines: Iterable[int]) -> Recovered:
        """Recover once more, to just after the last transaction that `first` has.

        A database that is invalid there too was so for longer, or was being dropped at that very moment.
        """
        target = dropped.target(
            self.engine,
            self.server,
            since=self.chosen.end_lsn,
            reached=first.reached.lsn,
            timelines=timelines,
        )
        programs.note(f"a database is invalid there: recovering again, to {target}", secrets=())
        self.server.kill()
        (PARTIAL / "postmaster.pid").unlink(missing_ok=True)
        second = self.to(target, again=True)
        if second.reached.time != first.reached.time:
            raise Failed(RESTORE_FAILED, f"recovery to {target} did not end at the same transaction")
        return replace(second, download=first.download + second.download, replay=first.replay + second.replay)


def recover(
    engine: Engine,
    server: Server,
    request: Request,
    *,
    settings: Mapping[str, str],
    database: str = "",
    before_download: Callable[[int], None] | None = None,
) -> Recovered:
    """Into `PARTIAL`, which is made again; the server is left running, and takes writes. `before_download` is
    called with the bytes of what is downloaded.

    Raises `Failed` where the target, or without one the end of what is archived, is not reached.
    """
    repository = engine.info()
    # The source's own: the newest there is may be that of a clone which wrote into its source's archive.
    timeline = request.timeline or (repository.sets[-1].timeline if repository.sets else 1)
    branches = timelines.branches(engine, repository, timeline)
    chosen = targets.choose(_leading(repository, branches), request.target, label=request.label)
    stored = _archived(engine, repository, chosen, branches=branches, to_the_end=request.target is None)

    if before_download is not None:
        before_download(chosen.database_bytes)
    shutil.rmtree(PARTIAL, ignore_errors=True)
    PARTIAL.mkdir(mode=0o700)
    replay = _Replay(engine, server, {**request.settings, **settings}, database, chosen, stored, timeline)
    recovered = replay.to(request.target)
    if request.target is not None and request.target.kind != "immediate" and dropped.names(server):
        recovered = replay.without_drop(recovered, timelines=branches)
    if request.target is None and not wal.reaches(recovered.reached.lsn, stored.last):
        raise _short(engine, server.log, recovered, database=database)
    return recovered


def _leading(repository: Repository, branches: Mapping[int, int | None]) -> list[BackupSet]:
    """The backups that a recovery along these timelines can begin with, the oldest first."""
    found = [each for each in repository.sets if timelines.leads(each, branches)]
    if not found and repository.sets:
        raise Failed(
            BACKUP_NOT_FOUND,
            f"no backup leads to timeline {max(branches)}, which the server is on since it was restored: let "
            "a Backup succeed first",
        )
    return found


def _archived(
    engine: Engine,
    repository: Repository,
    chosen: BackupSet,
    *,
    branches: Mapping[int, int | None],
    to_the_end: bool,
) -> wal.Archived:
    """What there is of WAL; a gap that matters for the target is a failure before anything is downloaded."""
    needed = wal.Segment.of(chosen.end_wal)
    end = time.monotonic() + GAP_SECONDS
    while True:
        names = engine.segments(repository, since=chosen.begin_wal)
        stored = wal.archived(names, begin=chosen.begin_wal, branches=branches)
        if stored is None:
            raise judging.gap(wal.Segment.of(chosen.begin_wal))
        missing = stored.missing
        if missing is None and stored.last.number < needed.number:
            missing = wal.Segment(stored.last.number + 1, max(branches))
        if missing is None:
            return stored
        # A backup is complete only with all of its own WAL: there is nothing to wait for.
        of_backup = missing.number <= needed.number
        if not of_backup and not to_the_end:
            return stored
        far = stored.last.number - missing.number > GAP_SEGMENTS
        if of_backup or far or time.monotonic() > end:
            raise judging.gap(missing)
        time.sleep(3)


def _short(engine: Engine, log: str, recovered: Recovered, *, database: str) -> Failed:
    """Why it ended early: PostgreSQL takes any failure to fetch for the end. Asked again, the store says."""
    reached = recovered.reached.lsn
    following = wal.Segment(reached // wal.SEGMENT_BYTES, recovered.archived.timeline)
    short = judging.short(reached, recovered.archived)
    try:
        there = engine.fetch(following.name, to=SCRATCH / following.name, directory=PARTIAL)
    except Failed as failed:
        return Failed(failed.reason, f"{failed.message} (WAL segment {following.name})", facts=short.facts)
    if there and "ERROR: [" in log:
        return Failed(
            STORE_UNREACHABLE,
            f"the store failed while the WAL segment {following.name} was fetched, and answers again: "
            "the next run starts from the beginning",
            facts=short.facts,
        )
    return short


@contextmanager
def _telling(directory: Path, *, of: int) -> Iterator[None]:
    """Meanwhile report how much is downloaded."""
    over = threading.Event()
    programs.progress("download", bytes=0, of=of)

    def report() -> None:
        while not over.wait(_REPORT_SECONDS):
            programs.progress("download", bytes=min(_size(directory), of), of=of)

    thread = threading.Thread(target=report, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _size(directory: Path) -> int:
    total = 0
    for file in directory.rglob("*"):
        try:
            total += file.lstat().st_size if not file.is_dir() else 0
        except OSError:
            continue
    return total


def _last_lines(log: str) -> str:
    """What it ended with, without the answers to our questions whether it is up."""
    words = ("FATAL", "PANIC", "ERROR")
    lines = [line for line in log.splitlines() if "the database system is " not in line]
    return " | ".join(line for line in lines[-30:] if any(word in line for word in words))


def facts(recovered: Recovered) -> dict[str, Any]:
    """What a run says of it."""
    reached = recovered.reached
    return {
        "label": recovered.chosen.label,
        "reachedLSN": wal.text(reached.lsn),
        "reachedTime": None if reached.time is None else rfc3339(reached.time),
        "bytes": recovered.chosen.database_bytes,
    }


def seconds(recovered: Recovered, begun: float, **more: float) -> Mapping[str, float]:
    """How long its parts took, and all since `begun`."""
    parts = {"download": recovered.download, "replay": recovered.replay, **more}
    return {name: round(value, 1) for name, value in {**parts, "total": time.monotonic() - begun}.items()}
