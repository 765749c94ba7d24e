"""What a real PostgreSQL's data takes, asked with the rights of pg_monitor, and what is no figure."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from kindling.kinds.postgresql.usage import CRASHED, USED, UsageRequest
from kindling.prober import jobs
from kindling.prober import usage as prober

from tests.unit.operator.conftest import SUPERUSER_PASSWORD, Files
from tests.unit.operator.hostile import hostile
from tests.unit.operator.test_postgres_port import as_superuser, login

MB = 2**20
SETTLED_SECONDS = 5.5
"""After which a process that begins is not one of the server's start."""


def request(files: Files) -> UsageRequest:
    asked = login(files)
    return UsageRequest(
        namespace="ns",
        host=asked.host,
        port=asked.port,
        pod="db-0",
        user="kindling",
        password=SUPERUSER_PASSWORD,
    )


def facts(files: Files) -> Mapping[str, Any]:
    """Those of the answer as it comes through the prober's lines."""
    asked = jobs.job(jobs.Job(request=request(files), host="127.0.0.1", port=files.port).line())
    assert isinstance(asked.request, UsageRequest)
    answer = jobs.read(jobs.written(prober.ask((asked.host, asked.port), asked.request)))
    assert answer is not None
    assert answer.ok, answer.message
    return answer.facts


def used(files: Files) -> int:
    return int(facts(files)[USED])


def on_disk(files: Files) -> int:
    data = Path(as_superuser(files, "SHOW data_directory"))
    return sum(file.stat().st_size for file in data.rglob("*") if file.is_file())


def test_a_table_of_20_mb_makes_the_data_larger_by_that_and_the_figure_is_at_least(server: Files) -> None:
    before = used(server)
    as_superuser(server, "CREATE TABLE of_twenty AS SELECT repeat('x', 1000) FROM generate_series(1, 21000)")
    try:
        after = used(server)
        assert after - before >= 20 * MB
        assert after <= on_disk(server)
        assert after > 0.95 * on_disk(server)
    finally:
        as_superuser(server, "DROP TABLE of_twenty")
    before = used(server)
    as_superuser(server, "CREATE DATABASE closed")
    as_superuser(server, "REVOKE CONNECT ON DATABASE closed FROM PUBLIC")
    size = int(as_superuser(server, "SELECT pg_database_size('closed')"))
    assert used(server) - before >= size > 5 * MB


def test_a_process_that_is_killed_ends_all_sessions_and_the_server_says_when(server: Files) -> None:
    assert facts(server)[CRASHED] == ""
    time.sleep(SETTLED_SECONDS)
    assert facts(server)[CRASHED] == ""
    number = int(as_superuser(server, "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'"))
    began = datetime.now(UTC).replace(microsecond=0)
    os.kill(number, signal.SIGKILL)
    deadline = time.monotonic() + 20
    while not (found := answer(server)) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert began <= datetime.fromisoformat(found) <= datetime.now(UTC)


def answer(files: Files) -> str:
    """When it crashed, empty also while nobody can log in."""
    found = prober.ask(("127.0.0.1", files.port), request(files))
    return str(found.facts[CRASHED]) if found.ok else ""


def test_with_less_than_pg_monitor_there_is_no_figure(server: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each right on its own: the sizes of databases without the lists of files, and neither."""
    for role in ("pg_read_all_stats", "pg_read_all_settings", "pg_stat_scan_tables"):
        monkeypatch.setattr(prober, "ROLE", role)
        answer = prober.ask(("127.0.0.1", server.port), request(server))
        assert (answer.ok, answer.message) == (False, "InsufficientPrivilege"), role
    as_superuser(server, "CREATE ROLE lists")
    as_superuser(server, "GRANT EXECUTE ON FUNCTION pg_ls_waldir(), pg_ls_tmpdir() TO lists")
    as_superuser(server, "CREATE DATABASE closed")
    as_superuser(server, "REVOKE CONNECT ON DATABASE closed FROM PUBLIC")
    monkeypatch.setattr(prober, "ROLE", "lists")
    answer = prober.ask(("127.0.0.1", server.port), request(server))
    assert (answer.ok, answer.message) == (False, "InsufficientPrivilege")


def test_it_asks_as_pg_monitor_and_can_change_nothing(server: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prober, "QUERY", "SELECT CASE WHEN current_user = 'pg_monitor' THEN 7 ELSE 0 END")
    assert used(server) == 7
    monkeypatch.setattr(prober, "QUERY", "CREATE TABLE public.t (i int)")
    assert not prober.ask(("127.0.0.1", server.port), request(server)).ok


def test_what_is_no_figure_is_no_answer_and_what_takes_long_ends_at_the_server(
    server: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    for said in ("-1", "'NaN'::numeric", "NULL", "1e30", "'Infinity'::float8", "'x'"):
        monkeypatch.setattr(prober, "QUERY", f"SELECT {said}")
        answer = prober.ask(("127.0.0.1", server.port), request(server))
        assert (answer.ok, dict(answer.facts)) == (False, {}), said
    monkeypatch.setattr(prober, "STATEMENT_MILLISECONDS", 200)
    monkeypatch.setattr(prober, "QUERY", "SELECT pg_sleep(20)")
    began = time.monotonic()
    answer = prober.ask(("127.0.0.1", server.port), request(server))
    assert (answer.ok, answer.message) == (False, "QueryCanceled")
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("sort", ["cleartext", "trust"])
def test_a_hostile_server_gets_no_password_and_gives_no_figure(sort: str) -> None:
    with hostile(sort) as running:
        answer = prober.ask(("127.0.0.1", running.port), request(Files(Path(), running.port)))
    assert (answer.ok, answer.message) == (False, "UnsafeAuthentication")


def test_a_wrong_password_is_no_answer(server: Files) -> None:
    asked = replace(request(server), password="canary")
    answer = prober.ask(("127.0.0.1", server.port), asked)
    assert (answer.ok, answer.message) == (False, "LoginRejected")
    assert "canary" not in f"{answer}{asked}"
