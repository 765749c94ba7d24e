"""How far a real PostgreSQL's archive is: without one, with one that takes, and with one that does not."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Callable

import psycopg
import pytest
from kindling.kinds.backup import archive
from kindling.kinds.backup.archive import ArchiveRequest, Facts
from kindling.kinds.postgresql.spec import SUPERUSER
from kindling.prober import archive as prober
from kindling.prober import jobs

from tests.unit.operator.conftest import SUPERUSER_PASSWORD, Files
from tests.unit.operator.test_postgres_port import as_superuser, login

SECONDS = 20.0


def request(files: Files, *, password: str = SUPERUSER_PASSWORD) -> ArchiveRequest:
    asked = login(files)
    return ArchiveRequest(
        namespace="ns", host=asked.host, port=asked.port, pod="db-0", user=SUPERUSER, password=password
    )


def ask(files: Files) -> Facts:
    """The answer as it comes through the prober's lines."""
    asked = request(files)
    answer = jobs.read(jobs.written(prober.ask((asked.host, asked.port), asked)))
    assert answer is not None
    assert answer.ok, answer.message
    facts = archive.read(answer.facts["archive"])
    assert facts is not None
    return facts


def soon(files: Files, true: Callable[[Facts], bool]) -> Facts:
    deadline = time.monotonic() + SECONDS
    while not true(found := ask(files)):
        assert time.monotonic() < deadline, found
        time.sleep(0.1)
    return found


def test_a_server_that_archives_nothing_says_so(server: Files) -> None:
    facts = ask(server)
    assert facts.mode == "off"
    assert facts.archived_until is None
    assert facts.settings["max_connections"] == as_superuser(server, "SHOW max_connections")
    assert facts.settings.keys() == set(archive.SETTINGS)
    assert facts.timeline == 1


def test_a_wrong_password_is_no_answer_and_is_not_repeated(server: Files) -> None:
    asked = request(server, password="canary")
    answer = prober.ask((asked.host, asked.port), asked)
    assert (answer.ok, answer.reason) == (False, "LoginFailed")
    assert "canary" not in answer.message


def test_what_is_archived_and_what_waits(files: Files) -> None:
    """By the server's own state: while the archive takes nothing, the window grows and the count of failures
    says little; afterwards it has all again.
    """
    taken = files.root / "tmp"
    # By its path: the server has PostgreSQL's own programs on PATH, and nothing else.
    command = f"test ! -e {taken}/closed && {shutil.which('cp')} %p {taken}/%f"
    files.configure({"archive_mode": "on", "archive_command": command})
    with files.running():
        as_superuser(files, "CREATE TABLE t AS SELECT 1 AS id")
        as_superuser(files, "SELECT pg_switch_wal()")
        facts = soon(files, lambda facts: facts.archived_until is not None and not facts.waiting)
        assert facts.mode == "on"
        assert facts.behind_seconds is not None
        assert facts.behind_seconds < SECONDS
        (taken / "closed").touch()
        time.sleep(1.1)  # the times of files are whole seconds
        as_superuser(files, "INSERT INTO t VALUES (2)")
        as_superuser(files, "SELECT pg_switch_wal()")
        held = soon(files, lambda facts: facts.waiting > 0)
        time.sleep(1.2)
        later = ask(files)
        assert held.behind_seconds is not None
        assert later.behind_seconds is not None
        assert later.behind_seconds >= held.behind_seconds + 1
        (taken / "closed").unlink()
        before = held.archived_until
        assert before is not None
        # The server counts a segment a moment after it waits no more.
        soon(
            files,
            lambda now: not now.waiting and now.archived_until is not None and now.archived_until > before,
        )


@pytest.mark.parametrize("crash", [False, True], ids=["started", "crashed"])
def test_a_change_is_archived_in_time_after_each_start(files: Files, *, crash: bool) -> None:
    """PostgreSQL by itself ends no segment before its first checkpoint is due, after `checkpoint_timeout`."""
    command = f"{shutil.which('cp')} %p {files.root}/tmp/%f"
    files.configure({
        "archive_mode": "on", "archive_command": command, "archive_timeout": "1s", "checkpoint_timeout": "1h",
    })  # fmt: skip
    with files.running():
        if crash:
            assert ask(files).mode == "on"
            _kill_a_session(files)
        as_superuser(files, "CREATE TABLE changed AS SELECT 1 AS id")
        soon(files, lambda facts: facts.archived_until is not None)


def _kill_a_session(files: Files) -> None:
    """As one that is out of memory ends: all others end with it, and the server recovers."""
    checkpointer = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'"
    before = as_superuser(files, checkpointer)
    asked = login(files)
    with psycopg.connect(
        host=asked.host, port=asked.port, user=SUPERUSER, password=SUPERUSER_PASSWORD, dbname="template1"
    ) as session:
        os.kill(session.info.backend_pid, signal.SIGKILL)
        deadline = time.monotonic() + SECONDS
        while True:
            with contextlib.suppress(psycopg.OperationalError):
                if as_superuser(files, checkpointer) != before:
                    return
            assert time.monotonic() < deadline
            time.sleep(0.1)


def test_what_is_no_answer_is_none() -> None:
    for found in (
        None,
        {},
        {"mode": "on"},
        {"mode": "maybe", "now": "2026-01-01T00:00:00+00:00", "lsn": "0/1"},
    ):
        assert archive.read(found) is None


@pytest.mark.parametrize("field", ["now", "lsn", "timeline", "waiting"])
def test_each_field_is_read_strictly(field: str) -> None:
    good = {"mode": "on", "now": "2026-01-01T00:00:00+00:00", "lsn": "0/1", "timeline": 1, "waiting": 0}
    assert archive.read(good) is not None
    assert archive.read({**good, field: "x" * 9}) is None
