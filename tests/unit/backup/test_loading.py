"""Databases that are loaded: what is asked for, two programs in a pipe, and what their errors become."""

from __future__ import annotations

import sys
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from postgres_backup import destination, load_words, outcome, programs
from postgres_backup.request import Database, Into, Request

REASONS = {value for name, value in vars(outcome).items() if name.isupper() and isinstance(value, str)}
FAILED_TO_LOAD = "pg_restore: error: could not execute query: ERROR:  "


def test_what_is_asked_for() -> None:
    found = Request.read(
        {
            "uid": "u",
            "databases": [{"name": "shop"}, {"name": "Stock", "as": "old", "tables": ["public.a", "s.b.c"]}],
            "into": {"host": "db.ns.svc"},
        }
    )
    tables = (("public", "a"), ("s", "b.c"))
    assert found.databases == (Database("shop", "shop", ()), Database("Stock", "old", tables))
    assert found.into == Into("db.ns.svc", 5432, True), "with TLS, unless it is said otherwise"


@pytest.mark.parametrize(
    "asked",
    [
        {"databases": [{}]},
        {"databases": ["shop"]},
        {"databases": [{"name": "shop", "tables": ["orders"]}]},
        {"databases": [{"name": "shop", "tables": [".orders"]}]},
        {"into": {}},
        {"into": {"host": "db", "port": "no"}},
    ],
)
def test_what_cannot_be_used_is_refused(asked: dict[str, Any]) -> None:
    with pytest.raises(outcome.Failed) as failed:
        Request.read(asked)
    assert failed.value.reason == outcome.INVALID_REQUEST


def test_a_temporary_name_is_of_one_restore_and_fits() -> None:
    first, second = (f"{number}1111111-2222-3333-4444-555555555555" for number in (1, 2))
    names = {destination.temporary(uid, number) for uid in (first, second) for number in (0, 15)}
    assert len(names) == 4
    assert max(len(name) for name in names) < 63


@pytest.mark.parametrize(
    ("state", "said", "reason"),
    [
        (None, "connection refused", "DatabaseUnreachable"),
        (None, 'password authentication failed for user "kindling"', "DatabaseUnreachable"),
        (None, "SSL error: certificate verify failed", "DatabaseUnreachable"),
        ("57P01", "terminating connection due to administrator command", "DatabaseUnreachable"),
        ("28P01", "", "DatabaseUnreachable"),
        ("53100", "could not extend file", "LoadFailed"),
        ("55006", "is being accessed by other users", "LoadFailed"),
    ],
)
def test_answers_of_the_server(state: str | None, said: str, reason: str) -> None:
    assert load_words.of_destination(state, said)[0] == reason


@pytest.mark.parametrize(
    ("dump", "load", "reason", "said"),
    [
        (None, f'{FAILED_TO_LOAD}role "nobody" does not exist', "RoleNotFound", "nobody"),
        (None, f'{FAILED_TO_LOAD}extension "vector" is not available', "LoadFailed", "extension vector"),
        (None, f"{FAILED_TO_LOAD}could not extend file: No space left on device", "LoadFailed", "volume"),
        (None, "pg_restore: error: server closed the connection", "DatabaseUnreachable", "Ready"),
        (None, f'{FAILED_TO_LOAD}relation "x" does not exist', "LoadFailed", "see the Pod's log"),
        # The first to fail is the cause, and the end of its output is no fault of the other's.
        ("pg_dump: error: invalid page", "pg_restore: error: unexpected end of file", "RestoreFailed",
         "dumped"),
        ("pg_dump: error: bad", "pg_restore: error: input file is too short (read 0, expected 5)",
         "RestoreFailed", "dumped"),
        ("pg_dump: error: could not write to output file", f'{FAILED_TO_LOAD}role "nobody" does not exist',
         "RoleNotFound", "nobody"),
        ("pg_dump: error: invalid page", None, "RestoreFailed", "dumped"),
        # Ended by the kernel, one has no word left.
        (None, "", "LoadFailed", "see the Pod's log"),
    ],
)  # fmt: skip
def test_errors_of_the_programs(dump: str | None, load: str | None, reason: str, said: str) -> None:
    found, message = load_words.of_load(dump, load)
    assert (found, said in message) == (reason, True), message


def test_of_an_error_the_first_line_alone_is_for_the_log() -> None:
    said = "pg_restore: while PROCESSING TOC:\npg_restore: error: ERROR:  bad\nDETAIL:  Key (name)=(Ada)"
    assert load_words.first_error(said) == "pg_restore: error: ERROR:  bad"


@given(st.text(), st.text())
def test_whatever_they_say_none_of_it_comes_through(dump: str, load: str) -> None:
    canary = "canary-row"
    reason, message = load_words.of_load(f"error: {canary} {dump}", f"error: {canary} {load}")
    assert reason in REASONS
    assert canary not in message


def test_many_roles_are_counted() -> None:
    load_words.check_roles([])
    with pytest.raises(outcome.Failed) as failed:
        load_words.check_roles([f"role{number}" for number in range(12)])
    assert failed.value.reason == outcome.ROLE_NOT_FOUND
    assert "role9 and 2 more" in failed.value.message


def python(text: str) -> list[str]:
    return [sys.executable, "-c", text]


def test_what_one_program_writes_the_other_reads() -> None:
    writes = python("import sys; sys.stdout.write('x' * 300000); sys.stderr.write('first')")
    reads = python("import sys; sys.exit(len(sys.stdin.read()) != 300000)")
    first, second = programs.pipe(writes, reads, seconds=60)
    assert (first.status, second.status, first.error) == (0, 0, "first")


def test_the_end_of_one_is_seen_by_the_other() -> None:
    endless = python("import sys\nwhile True: sys.stdout.write('x' * 100000)")
    first, second = programs.pipe(endless, python("import sys; sys.exit(3)"), seconds=60)
    assert first.status != 0
    assert second.status == 3
    first, second = programs.pipe(
        python("import sys; sys.exit(4)"), python("import sys; sys.stdin.read()"), seconds=60
    )
    assert (first.status, second.status) == (4, 0)


def test_neither_outlives_its_time() -> None:
    began = time.monotonic()
    sleeps = python("import time; time.sleep(60)")
    with pytest.raises(outcome.Failed) as failed:
        programs.pipe(sleeps, sleeps, seconds=1)
    assert failed.value.reason == outcome.INTERRUPTED
    assert time.monotonic() - began < 30
