"""What DROP DATABASE does outside of its transaction, left out of a recovery that ends before its commit.

PostgreSQL ends a recovery at the commit of a transaction, whatever moment it is asked for. By the commit of
DROP DATABASE the log has said already that the database is invalid and that its files are deleted. So where
nothing else was committed meanwhile, a recovery to any moment before it would end without the database.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable

from postgres_backup import programs, wal
from postgres_backup.engine import Engine
from postgres_backup.outcome import RESTORE_FAILED, Failed
from postgres_backup.server import SCRATCH, Server
from postgres_backup.targets import Target

_FOLDER = SCRATCH / "dropped"
_END = re.compile(r"lsn: ([0-9A-F]+/[0-9A-F]+), prev [0-9A-F/]+, desc: (?:COMMIT|ABORT|PREPARE)")
"""Of a transaction, as pg_waldump writes it."""
_NO_RECORD = "could not find a valid record after"
"""None begins there, as where the last one that was replayed began in the segment before."""


def names(server: Server) -> list[str]:
    """The databases that DROP DATABASE has made invalid, which nobody can connect to."""
    with server.connect() as connection:
        query = "SELECT datname FROM pg_database WHERE datconnlimit = -2 ORDER BY datname"
        return [str(name) for (name,) in connection.execute(query)]


def target(engine: Engine, server: Server, *, since: int, reached: int, timelines: Iterable[int]) -> Target:
    """Just after the last transaction that ended between these positions, or else the end of the backup.

    Whatever had been committed by `reached` is committed there. `since` is the end of the backup, which a
    recovery cannot end before.
    """
    ordered, timeline = sorted(timelines, reverse=True), max(timelines)
    shutil.rmtree(_FOLDER, ignore_errors=True)
    _FOLDER.mkdir()
    try:
        last = (reached - 1) // wal.SEGMENT_BYTES
        for number in range(last, since // wal.SEGMENT_BYTES - 1, -1):
            _fetch(engine, server, number, timelines=ordered)
            segment = wal.Segment(number, timeline)
            # With the next one: a record may begin in this one and end there.
            until = min(reached, segment.end + wal.SEGMENT_BYTES)
            if found := _ends(
                segment, since=max(since, segment.begin), until=until, deadline=server.deadline
            ):
                # Before what follows it: ended by its own position, it would not count as the last replayed.
                return Target("lsn", wal.text(wal.lsn(found[-1]) + 1), exclusive=True)
            (_FOLDER / wal.Segment(number + 1, timeline).name).unlink(missing_ok=True)
        return Target("immediate", "true")
    finally:
        shutil.rmtree(_FOLDER, ignore_errors=True)


def _fetch(engine: Engine, server: Server, number: int, *, timelines: list[int]) -> None:
    """Under the name that it would have on the newest timeline, so that pg_waldump reads on across them."""
    to = _FOLDER / wal.Segment(number, timelines[0]).name
    for timeline in timelines:
        if engine.fetch(wal.Segment(number, timeline).name, to=to, directory=server.directory):
            return
    raise Failed(RESTORE_FAILED, f"the WAL segment {to.name} was replayed, and is not in the store any more")


def _ends(segment: wal.Segment, *, since: int, until: int, deadline: programs.Deadline) -> list[str]:
    """The positions of the records that end a transaction."""
    words = ["pg_waldump", f"--path={_FOLDER}", f"--timeline={segment.timeline}", "--rmgr=Transaction"]
    done = programs.run(
        [*words, f"--start={wal.text(since)}", f"--end={wal.text(until)}"], seconds=deadline.left()
    )
    if done.status != 0 and _NO_RECORD not in done.error:
        programs.note(f"pg_waldump: {done.error}", secrets=())
        raise Failed(RESTORE_FAILED, f"the WAL from {wal.text(since)} on cannot be read: see the Pod's log")
    return _END.findall(done.out)
