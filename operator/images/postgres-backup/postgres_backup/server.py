"""A PostgreSQL server on restored files: recover to a target, answer on a socket, stop.

Nothing reaches it from outside of its container.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from postgres_backup import programs, wal
from postgres_backup.outcome import RESTORE_FAILED, Failed
from postgres_backup.request import SUPERUSER

SCRATCH = Path("/tmp/kindling-restore")
SOCKETS = SCRATCH
STOP_SECONDS = 600
# A throwaway: what a crash would lose is made again.
THROWAWAY = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
_REPORT_SECONDS = 5.0
_RECOVERING = re.compile(r"recovering ([0-9A-F]{24})")


@dataclass(frozen=True)
class Reached:
    """Where recovery ended. `time` is the last replayed commit's, in seconds since the epoch."""

    lsn: int
    time: float | None
    timeline: int
    identifier: str


class Ended(Exception):
    """The server ended by itself; `log` is what it wrote."""

    def __init__(self, log: str) -> None:
        super().__init__("the server ended")
        self.log = log


class Server:
    """`start`, then `wait_promoted`, then connections; `stop` in the end, whatever happened."""

    def __init__(self, directory: Path, deadline: programs.Deadline) -> None:
        self.directory, self.deadline = directory, deadline
        self._process: subprocess.Popen[bytes] | None = None
        self._log = SCRATCH / "server.log"

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def start(self, settings: Mapping[str, str]) -> None:
        """With these settings and none that lie in the data directory, which may be of another image."""
        shutil.rmtree(SCRATCH, ignore_errors=True)
        SCRATCH.mkdir(mode=0o700)
        (SCRATCH / "postgresql.conf").touch()
        # Only this container has the socket.
        (SCRATCH / "pg_hba.conf").write_text("local all all trust\n")
        (SCRATCH / "pg_ident.conf").touch()
        (self.directory / "postgresql.auto.conf").write_text("")
        fixed = {
            "config_file": str(SCRATCH / "postgresql.conf"),
            "hba_file": str(SCRATCH / "pg_hba.conf"),
            "ident_file": str(SCRATCH / "pg_ident.conf"),
            "listen_addresses": "",
            "unix_socket_directories": str(SOCKETS),
            "archive_mode": "off",
            # Without it a source that was given more connections than this server would stop it.
            "hot_standby": "off",
            "autovacuum": "off",
            "event_triggers": "off",
            "log_statement": "none",
            "log_min_error_statement": "panic",
        }
        words = [word for name, value in {**settings, **fixed}.items() for word in ("-c", f"{name}={value}")]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                ["postgres", "-D", str(self.directory), *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=programs.ENVIRONMENT,
                start_new_session=True,
            )

    def wait_promoted(self, *, first: wal.Segment, last: wal.Segment | None) -> Reached:
        """Wait until recovery is over and writes are taken; reports how far the replay is.

        :raises Ended: when the server gives up.
        """
        # It may be over before the first look, which would leave the page at the download.
        of = max(last.number - first.number + 1, 1) if last is not None else 0
        if of:
            programs.progress("replay", bytes=0, of=of * wal.SEGMENT_BYTES)
        reported = time.monotonic()
        while True:
            assert self._process is not None
            if self._process.poll() is not None:
                raise Ended(self.log)
            self.deadline.left()
            if (reached := self._reached()) is not None:
                return reached
            if of and time.monotonic() - reported >= _REPORT_SECONDS:
                reported = time.monotonic()
                if (at := _replaying(self._process.pid)) is not None:
                    done = min(max(at.number - first.number, 0), of)
                    programs.progress("replay", bytes=done * wal.SEGMENT_BYTES, of=of * wal.SEGMENT_BYTES)
            time.sleep(0.1)

    def _reached(self) -> Reached | None:
        try:
            with self.connect() as connection:
                row = connection.execute(
                    "SELECT pg_is_in_recovery(), pg_last_wal_replay_lsn()::text,"
                    " extract(epoch FROM pg_last_xact_replay_timestamp())::float8,"
                    " (SELECT timeline_id FROM pg_control_checkpoint()),"
                    " (SELECT system_identifier::text FROM pg_control_system())"
                ).fetchone()
        except psycopg.OperationalError:
            return None
        if row is None or row[0]:
            return None
        # Without any WAL to replay it has none to report.
        return Reached(wal.lsn(row[1] or "0/0"), row[2], int(row[3]), row[4])

    def connect(
        self, *, user: str = SUPERUSER, database: str = "template1", options: str = ""
    ) -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(
            host=str(SOCKETS),
            user=user,
            dbname=database,
            options=options,
            connect_timeout=10,
            autocommit=True,
        )

    def stop(self) -> None:
        """Stop it in good order, with a checkpoint.

        :raises Failed: when it does not end.
        """
        done = programs.run(
            [
                "pg_ctl",
                "stop",
                f"--pgdata={self.directory}",
                "--mode=fast",
                f"--timeout={STOP_SECONDS}",
                "--silent",
            ],
            seconds=self.deadline.left(STOP_SECONDS + 10),
        )
        if done.status != 0:
            raise Failed(RESTORE_FAILED, "the restored server did not stop: see whether the volume is slow")
        if self._process is not None:
            self._process.wait(timeout=60)

    def kill(self) -> None:
        """Whatever is left of it."""
        if self._process is not None and self._process.poll() is None:
            programs.end(self._process)


def _replaying(postmaster: int) -> wal.Segment | None:
    """The segment that the startup process is at, by the title that it gives itself."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            title = (folder / "cmdline").read_bytes().decode(errors="replace") if parent == postmaster else ""
        except (OSError, ValueError, IndexError):
            continue
        if found := _RECOVERING.search(title):
            return wal.Segment.of(found[1])
    return None
