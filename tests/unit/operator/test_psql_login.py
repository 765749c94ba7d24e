"""psql itself, asked for a password by pipes and on a terminal, as the kubectl plugin answers it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

import pytest

from tests.unit.operator.conftest import SUPERUSER_PASSWORD, Files, programs
from tests.unit.plugin.terminals import on_a_terminal

CALLS = """\
import sys
from kubectl_kindling import terminal
way = terminal.run if sys.argv[1] == "terminal" else terminal.pipe
sys.exit(way(sys.argv[3:], sys.argv[2]))
"""


def argv(server: Files, way: str, *words: str, password: str = SUPERUSER_PASSWORD) -> list[str]:
    program = shutil.which("psql", path=programs())
    assert program is not None
    inside = [
        program, "--host=localhost", f"--port={server.port}", "--username=kindling", "--dbname=postgres",
        "--no-psqlrc", "--password", *words,
    ]  # fmt: skip
    return [sys.executable, "-c", CALLS, way, password, *inside]


def piped(server: Files, *words: str, stdin: str = "", **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv(server, "pipe", *words, **more),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        # Without a terminal of its own, as in a container.
        start_new_session=True,
    )


def test_by_pipes_statements_follow_the_password(server: Files) -> None:
    done = piped(server, "-At", stdin="select 6 * 7;\nselect current_user;\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, "42\nkindling\n", "")
    assert piped(server, "-Atc", "select 1").stdout == "1\n"


def test_by_pipes_errors_and_the_status_are_psqls(server: Files) -> None:
    done = piped(server, "-c", "select nothing")
    assert done.returncode == 1
    assert done.stderr.startswith("ERROR:")
    done = piped(server, "-c", "select 1", password="wrong")
    assert done.returncode == 2
    assert done.stderr.startswith("psql: error: ")
    assert "password authentication failed" in done.stderr


@pytest.mark.parametrize("password", [SUPERUSER_PASSWORD, "wrong"])
def test_on_a_terminal(server: Files, password: str) -> None:
    words = argv(server, "terminal", "-P", "pager=off", password=password)
    output, status = on_a_terminal(words, keys=b"select 6 * 7 as product;\r\\q\r", after=b"postgres=# ")
    assert b"Password" not in output
    # A port may have these digits too.
    answered = re.search(rb"^ +42\r?$", output, re.MULTILINE) is not None
    assert (status, answered) == ((0, True) if password == SUPERUSER_PASSWORD else (2, False)), output
