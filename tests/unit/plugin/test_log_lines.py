"""PostgreSQL's messages in JSON as people read them, and every other line as it is."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubectl_kindling.log_lines import readable

PREFIX = "[pod/shop-0/postgres] "
ERROR: dict[str, Any] = {
    "timestamp": "2026-11-27 16:04:47.123 UTC",
    "user": "shop",
    "dbname": "orders",
    "pid": 71,
    "error_severity": "ERROR",
    "state_code": "42P01",
    "message": 'relation "carts" does not exist',
    "statement": "SELECT *\nFROM carts",
    "backend_type": "client backend",
}


def line(message: dict[str, Any], prefix: str = PREFIX) -> str:
    return f"{prefix}{json.dumps(message)}\n"


def test_a_message_has_who_what_and_the_statement_a_line_each() -> None:
    head = f"{PREFIX}2026-11-27 16:04:47.123 UTC [71] shop@orders "
    assert readable(line(ERROR)).splitlines() == [
        f'{head}ERROR 42P01:  relation "carts" does not exist',
        f"{head}STATEMENT:  SELECT *",
        f"{PREFIX}\tFROM carts",
    ]


def test_a_message_of_the_server_itself_has_nobody_and_no_code() -> None:
    message = {
        "timestamp": "2026-11-27 16:04:47.123 UTC",
        "pid": 1,
        "error_severity": "LOG",
        "state_code": "00000",
        "message": "database system is ready to accept connections",
    }
    expected = "2026-11-27 16:04:47.123 UTC [1] LOG:  database system is ready to accept connections\n"
    assert readable(line(message, "")) == expected


@pytest.mark.parametrize("text", ["\x1b[2J", "\r", "\x07", "\u202e"])
def test_what_a_client_wrote_moves_no_cursor(text: str) -> None:
    shown = readable(line({**ERROR, "message": f"no {text} such"}))
    assert text not in shown
    assert "no " in shown


@pytest.mark.parametrize(
    "text",
    [
        "[pod/shop-0/postgres] 2026-11-27 LOG:  a text of its own\n",
        '{"level": "info", "message": "another program"}\n',
        "[pod/shop-0/exporter] {not JSON}\n",
        "{}\n",
        "[1, 2]\n",
        "\n",
        "",
    ],
)
def test_any_other_line_is_as_it_is(text: str) -> None:
    assert readable(text) == text


@given(st.text() | st.dictionaries(st.sampled_from(sorted(ERROR)), st.none() | st.text() | st.integers()))
def test_nothing_fails_and_no_message_is_lost(given: Any) -> None:
    text = f"{json.dumps(given)}\n" if isinstance(given, dict) else given
    assert bool(readable(text)) == bool(text)


LISTED = "import sys; from kubectl_kindling.kubectl import Kubectl; Kubectl.argv = lambda self, *words: words"
ENDLESS = "while True: print('{}')"


def test_who_stops_reading_ends_it() -> None:
    """As `kubectl kindling logs … | head` does."""
    words = f"sys.exit(Kubectl().foreground(sys.executable, '-c', {ENDLESS!r}, line=str))"
    command = [sys.executable, "-c", f"{LISTED}\n{words}"]
    env = {"PYTHONPATH": ":".join(filter(None, sys.path))}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"{}\n"
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=30) != 0
