"""What the server logs where spec.logging asks for JSON, by PostgreSQL's own programs and ours."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest
from kindling.kinds.postgresql import serve
from kindling.kinds.postgresql.server_log import FILES

from tests.unit.operator import postgres_init
from tests.unit.operator.conftest import USER, Files
from tests.unit.operator.test_postgres_port import as_superuser

ROOT = os.geteuid() == 0


def admit(files: Files) -> Path:
    """The container's output belongs to the container's user, as runc has it; it is this file here."""
    log = files.root / "server.log"
    log.touch()
    if ROOT:
        shutil.chown(log, USER)
    return log


def messages(log: Path) -> list[dict[str, Any]]:
    """What the last start of the server has logged, each line of which has to be an object.

    The first lines are text, up to the one that says that it ends.
    """
    _, found, after = log.read_text().rpartition('Future log output will go to log destination "jsonlog".\n')
    assert found
    return [json.loads(line) for line in after.splitlines()]


def test_each_message_is_an_object_with_its_user_and_database(files: Files) -> None:
    log = admit(files)
    with files.running(log_format="JSON"):
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(host="127.0.0.1", port=files.port, user="ada", password="x", dbname="shop")
        with pytest.raises(psycopg.errors.UndefinedTable):
            as_superuser(files, "SELECT *\nFROM\nnowhere")
    found = messages(log)
    (denied,) = [one for one in found if one.get("state_code") == "28P01"]
    assert (denied["user"], denied["dbname"], denied["error_severity"]) == ("ada", "shop", "FATAL")
    (missing,) = [one for one in found if one.get("state_code") == "42P01"]
    assert missing["statement"] == "SELECT *\nFROM\nnowhere"
    assert found[-1]["message"] == "database system is shut down"


def test_a_container_that_starts_again_logs_json_again(files: Files) -> None:
    """Its volumes are those of before."""
    log = admit(files)
    for _ in range(2):
        with files.running(log_format="JSON"):
            pass
        assert messages(log)[-1]["message"] == "database system is shut down"
        log.write_text("")


def test_the_server_logs_text_where_its_output_cannot_be_opened_again(files: Files) -> None:
    """A log in another format is no reason for a database that is down."""
    log = files.root / "server.log"
    if not ROOT:
        pytest.skip("another user's file cannot be made by any but root")
    log.touch(0o600)
    with files.running(log_format="JSON"):
        assert as_superuser(files, "SHOW logging_collector") == "off"
    written = log.read_text()
    assert "postgres-init: the server logs text, not JSON: open /proc/self/fd/" in written
    assert "LOG:  database system is ready to accept connections" in written


@pytest.mark.parametrize(
    ("printed", "why"),
    [
        ("postgres (PostgreSQL) 14.19", "PostgreSQL 14 has no log as JSON, 15 and later have"),
        ("postgres, somebody's", "--version printed"),
    ],
)
def test_the_server_logs_text_where_it_has_no_json(files: Files, printed: str, why: str) -> None:
    """A program that says its version and its arguments alone: few machines have so old a server."""
    server = files.root / "program" / "old"
    server.write_text(
        f"#!{sys.executable}\nimport sys\n"
        f"print({printed!r} if '--version' in sys.argv else 'started ' + ' '.join(sys.argv[1:]))\n"
    )
    server.chmod(0o755)
    words = serve.command({"spec": {"logging": {"format": "JSON"}}}, [str(server), "-D", "x"], seconds=5)
    done = subprocess.run(
        [postgres_init.program(), *files.words(words[1:])],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert done.stdout == "started -D x\n"
    assert done.stderr.startswith("postgres-init: the server logs text, not JSON: ")
    assert why in done.stderr


def test_no_file_of_the_log_is_written(files: Files) -> None:
    """The volume for them is memory of the node: nothing may grow in it."""
    admit(files)
    with files.running(log_format="JSON"):
        folder = Path(files.words([FILES])[0])
        assert sorted(os.listdir(folder)) == ["postgresql.json", "postgresql.log"]
        assert all((folder / name).is_symlink() for name in os.listdir(folder))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["serve", "--", "postgres"], "give --username, the superuser"),
        (serve.SERVE[1:], "give the server's program and its arguments after --"),
        ([*serve.SERVE[1:], "--", "no-such-program"], "no-such-program"),
    ],
)
def test_wrong_calls_are_refused(words: list[str], message: str) -> None:
    done = subprocess.run(
        [postgres_init.program(), *words], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 1
    assert message in done.stderr
