"""The health check of a real PostgreSQL: what it notices, what it costs, and a server that is full."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psycopg
from kindling.kinds.base import ExternalResult
from kindling.prober import postgres
from kindling.prober.sessions import CONNECT_SECONDS

from tests.unit.operator.conftest import SUPERUSER_PASSWORD, Files
from tests.unit.operator.test_postgres_port import as_superuser, login, sync

MOST_WAL_BYTES = 1024
FREE, RESERVED = 5, 3


def look(server: Files, **changes: object) -> ExternalResult:
    asked = login(server, **changes).health_check()
    return postgres.check_health((asked.host, asked.port), asked)


def test_it_holds_no_password_but_the_one_that_it_needs(files: Files) -> None:
    asked = login(files, parameters={"work_mem": "5MB"}).health_check()
    assert (asked.superuser_password, asked.parameters) == (None, {})
    assert asked.password == login(files).password


def test_what_it_notices_and_what_it_costs(server: Files) -> None:
    assert sync(login(server)).ok
    before = as_superuser(server, "SELECT pg_current_wal_flush_lsn()")
    answer = look(server)
    assert (answer.ok, answer.reason) == (True, "")
    assert answer.facts["version"] == as_superuser(server, "SHOW server_version").split()[0]
    grown = as_superuser(server, f"SELECT pg_current_wal_flush_lsn() - '{before}'")
    assert 0 < grown < MOST_WAL_BYTES, "a commit reached the disk, and a small one"

    # Paused means observed only.
    as_superuser(server, "CHECKPOINT")
    before = as_superuser(server, "SELECT pg_current_wal_insert_lsn()")
    assert look(server, provision=False).ok
    assert as_superuser(server, f"SELECT pg_current_wal_insert_lsn() - '{before}'") == 0

    # One that may not write has nothing to flush, and one where nobody may emit a message goes without.
    revoke = "REVOKE EXECUTE ON FUNCTION pg_logical_emit_message(boolean, text, text) FROM PUBLIC"
    as_superuser(server, revoke)
    assert look(server).ok

    as_superuser(server, "ALTER DATABASE ada OWNER TO kindling")
    assert (look(server).ok, look(server).reason) == (False, "LoginFailed")
    as_superuser(server, "DROP DATABASE ada")
    assert (look(server).ok, look(server).reason) == (False, "LoginFailed")
    assert sync(login(server)).ok
    assert look(server).ok
    as_superuser(server, "ALTER ROLE ada PASSWORD 'another'")
    assert (look(server).ok, look(server).reason) == (False, "LoginFailed")
    assert "another" not in look(server).message
    as_superuser(server, "DROP DATABASE ada")
    as_superuser(server, "DROP ROLE ada")
    assert (look(server).ok, look(server).reason) == (False, "LoginFailed")
    assert sync(login(server)).ok
    assert look(server).ok


def processes(server: Files) -> list[int]:
    """The server's, its parent first."""
    parent = server.server()
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [parent, *map(int, children)]


def test_a_frozen_server_is_found_out_and_found_well_again(server: Files) -> None:
    """The kernel goes on to take its connections; what is asked gets no answer."""
    assert sync(login(server)).ok
    frozen = processes(server)
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        answer = look(server)
        took = time.monotonic() - began
    finally:
        for pid in frozen:
            with suppress(ProcessLookupError):  # one that was about to end
                os.kill(pid, signal.SIGCONT)
    assert (answer.ok, answer.reason) == (False, "NotResponding")
    assert "kubectl describe pod db-0 -n ns" in answer.message
    assert took < CONNECT_SECONDS + 1
    assert look(server).ok


@contextmanager
def connections(server: Files, count: int, *, user: str, password: str, database: str) -> Iterator[None]:
    with ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(
                psycopg.connect(
                    host="127.0.0.1",
                    port=server.port,
                    user=user,
                    password=password,
                    dbname=database,
                    sslmode="disable",
                    autocommit=True,
                )
            )
        yield


def test_a_server_at_max_connections_serves_and_is_reported_so(files: Files) -> None:
    files.configure({"max_connections": str(FREE + RESERVED)})
    with files.running():
        asked = login(files, parameters={"max_connections": str(FREE + RESERVED)})
        assert sync(asked).ok
        ada = {"user": "ada", "password": asked.password, "database": "ada"}
        kindling = {"user": "kindling", "password": SUPERUSER_PASSWORD, "database": "template1"}
        with connections(files, FREE, **ada):
            answer = look(files)
            assert (answer.ok, answer.reason, answer.facts["login"]) == (True, "TooManyConnections", True)
            assert "spec.parameters.max_connections" in answer.message
            # The superuser's reserve is there to make sure of the role, and a new password with it.
            answer = sync(login(files, password="rotated", parameters=asked.parameters))
            assert (answer.ok, answer.reason) == (True, "TooManyConnections")
            assert answer.facts["version"]
            looked = login(files, password="rotated", provision=False, parameters=asked.parameters)
            paused = sync(looked)
            assert (paused.ok, paused.reason, paused.facts["login"]) == (False, "TooManyConnections", True)
            with connections(files, RESERVED, **kindling):
                answer = sync(login(files, password="again", parameters=asked.parameters))
                assert (answer.ok, answer.reason) == (False, "TooManyConnections")
                assert answer.facts["login"] is True
        time.sleep(0.2)
        assert look(files, password="rotated").reason == ""


def test_a_roles_own_limit_is_reported_the_same_way(server: Files) -> None:
    asked = login(server)
    assert sync(asked).ok
    as_superuser(server, "ALTER ROLE ada CONNECTION LIMIT 1")
    with connections(server, 1, user="ada", password=asked.password, database="ada"):
        assert (look(server).ok, look(server).reason) == (True, "TooManyConnections")
