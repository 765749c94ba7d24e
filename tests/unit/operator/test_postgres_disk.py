"""PostgreSQL on a volume that enforces its size: what the default one holds, what is said of a full one."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from kindling.kinds.base import ExternalResult, SyncResult
from kindling.kinds.conditions import find_condition
from kindling.kinds.postgresql import defaults, workload
from kindling.kinds.postgresql.initdb import INITDB
from kindling.kinds.postgresql.spec import DEFAULT_SIZE
from kindling.kube.resources import POD, Object, Ref

from tests.unit.operator.conftest import IS_READY, Files
from tests.unit.operator.postgresqls import KIND, observed, postgresql, running
from tests.unit.operator.test_postgres_port import as_superuser, login, sync

MESSAGE_BYTES = 2048
"""What the kubelet keeps of a container's output when it ends."""


@contextmanager
def volume_of(files: Files, size: str) -> Iterator[Path]:
    """The data's directory as a file system of that size; the test is skipped if it cannot be mounted."""
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0777", "tmpfs", str(files.mount)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, timeout=30).returncode != 0:
        pytest.skip("a file system of its own size needs root, and the right to mount")
    try:
        yield files.mount
    finally:
        subprocess.run(["umount", "--lazy", str(files.mount)], check=True, timeout=30)


def grow(files: Files, size: str) -> None:
    options = f"remount,size={size}"
    subprocess.run(["mount", "-o", options, str(files.mount)], check=True, timeout=30)


def fill(files: Files, *, but: int) -> Path:
    """Fill all free disk space but for so many KiB."""
    filler = files.mount / f"filler-{len(os.listdir(files.mount))}"
    found = os.statvfs(files.mount)
    kind = found.f_bavail * found.f_frsize - but * 1024
    with filler.open("wb") as file:
        if kind > 0:
            os.posix_fallocate(file.fileno(), 0, kind)
    return filler


def output(files: Files, command: list[str]) -> tuple[int, str]:
    """Its exit status and the end of its output, as the kubelet keeps it."""
    log = files.root / "container.log"
    with log.open("wb") as file:
        process = files.start(command, log=file.fileno())
        try:
            code = process.wait(timeout=60)
        finally:
            process.kill()
            process.wait()
    return code, log.read_bytes()[-MESSAGE_BYTES:].decode()


def said(status: Object, **answer: Any) -> tuple[str, str]:
    """Reason and message of a resource whose Pod's containers are in that state."""
    children = running(ready=bool(answer), **status)
    found = {"server": ExternalResult(ok=False, **answer)} if answer else {}
    report = KIND.status(postgresql(), observed(children), SyncResult(in_sync=True, results=found))
    assert children[Ref(POD, "ns", "db-0")]
    ready = find_condition(report.status, "Ready")
    return ready["reason"], ready["message"]


def crashed(container: str, message: str) -> Object:
    """As the kubelet shows one that it does not start again yet."""
    state = {"waiting": {"reason": "CrashLoopBackOff"}}
    ended = {"terminated": {"exitCode": 1, "message": message}}
    field = "initContainerStatuses" if container == "initdb" else "containerStatuses"
    return {field: [{"name": container, "state": state, "lastState": ended}]}


def test_bulk_load_does_not_fill_the_default_volume(files: Files) -> None:
    """540 MB in one statement, which is as much log: with PostgreSQL's own max_wal_size it is too much."""
    with volume_of(files, "1g"):
        assert DEFAULT_SIZE == "1Gi"
        files.configure(defaults.of(postgresql(), observed()))
        with files.running():
            as_superuser(files, "CREATE TABLE load (row text)")
            as_superuser(files, "ALTER TABLE load ALTER row SET STORAGE PLAIN")
            # One row of 8 kB a page, none of it compressed.
            query = "INSERT INTO load SELECT repeat('x', 8000) FROM generate_series(1, 66000)"
            as_superuser(files, query)
            assert as_superuser(files, "SELECT count(*) FROM load") == 66000
            as_superuser(files, "CHECKPOINT")
            log = as_superuser(files, "SELECT sum(size)::int / 1048576 FROM pg_ls_waldir()")
            assert log <= 204
        assert "No space left" not in (files.root / "server.log").read_text()


def test_volume_too_small_to_begin_with(files: Files) -> None:
    with volume_of(files, "8m"):
        code, message = output(files, INITDB)
        assert code != 0
        reason, words = said(crashed("initdb", message))
        assert reason == "DiskFull"
        assert "raise spec.storage.size ('1Gi')" in words
        assert "No space left on device" in words


def test_full_volume_is_reported_and_its_data_is_served_again_once_it_has_space(files: Files) -> None:
    values = {"max_wal_size": "32MB", "max_connections": "50"}
    files.configure(values)
    with volume_of(files, "128m"):
        with files.running():
            assert sync(login(files, parameters=values)).ok
            as_superuser(files, "CREATE TABLE kept AS SELECT generate_series(1, 1000) AS row")
            filler = fill(files, but=64)
            # The server still runs, but cannot create another database.
            answer = sync(login(files, user="eve", parameters=values))
            assert answer.reason == "DiskFull", answer
            reason, words = said({}, reason=answer.reason, message=answer.message)
            assert reason == "DiskFull"
            assert "Volume db-data is full" in words
            assert "No space left on device" in words
            filler.unlink()

        # Full before a Pod starts: its parameters cannot be put in place, those that are there stay.
        before = (files.mount / "pgdata" / "postgresql.auto.conf").read_text()
        assert "50" in before
        fill(files, but=0)
        files.configure({"max_wal_size": "32MB", "max_connections": "60", "log_line_prefix": "%m " * 300})
        assert output(files, INITDB)[0] == 0
        assert (files.mount / "pgdata" / "postgresql.auto.conf").read_text() == before
        fill(files, but=0)
        code, message = output(files, workload.SERVER)
        assert code != 0
        reason, words = said(crashed("postgres", message))
        assert (reason, "No space left on device" in words) == ("DiskFull", True), message

        grow(files, "256m")
        with files.running():
            assert as_superuser(files, "SELECT count(*) FROM kept") == 1000
            assert as_superuser(files, "SELECT current_setting('max_connections')") == "60"


def test_log_of_changes_that_cannot_be_written_ends_the_server_and_is_said(files: Files) -> None:
    files.configure({"max_wal_size": "1GB"})
    with volume_of(files, "128m"):
        assert files.run(INITDB) == 0
        log = files.root / "container.log"
        with log.open("wb") as file:
            server = files.start(workload.SERVER, log=file.fileno())
            try:
                deadline = time.monotonic() + 60
                while files.run(IS_READY) != 0:
                    assert time.monotonic() < deadline
                    time.sleep(0.1)
                as_superuser(files, "CREATE TABLE load (row text)")
                as_superuser(files, "ALTER TABLE load ALTER row SET STORAGE PLAIN")
                fill(files, but=24 * 1024)
                query = "INSERT INTO load SELECT repeat('x', 8000) FROM generate_series(1, 66000)"
                with pytest.raises(psycopg.Error):
                    as_superuser(files, query)
                assert server.wait(timeout=60) != 0
            finally:
                server.kill()
                server.wait()
        reason, words = said(crashed("postgres", log.read_bytes()[-MESSAGE_BYTES:].decode()))
        assert reason == "DiskFull", log.read_text()
        assert "pg_wal/xlogtemp" in words
