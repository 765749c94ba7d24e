"""Whether anybody uses a real server: who is connected, and who was, between two health checks."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import psycopg
import pytest
from kindling.kinds.base import ExternalResult
from kindling.kinds.postgresql.idle import FACT, QUIET_SECONDS
from kindling.kinds.postgresql.login import Login
from kindling.prober import activity, jobs, sessions, workers
from kindling.prober.activity import LOOKED, MOST_SERVERS, ActivityLog

from tests.unit.operator.conftest import SUPERUSER_PASSWORD, Files, page
from tests.unit.operator.test_postgres_port import as_superuser, login, sql, sync
from tests.unit.operator.test_postgres_usage import request as usage_request

SECONDS = 5.0
"""Between two health checks."""


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def log(clock: Clock) -> ActivityLog:
    return ActivityLog(clock=clock)


def ask(log: ActivityLog, request: jobs.AnyRequest, server: Files) -> ExternalResult:
    """As the pool asks it: a worker has one job, and its line is read and noted."""
    sessions.opened = 0
    job = jobs.Job(request=request, host="127.0.0.1", port=server.port)
    line = workers._line(workers._result(job))
    result = log.note(job, line, jobs.read(line))
    assert result is not None
    return result


def look(log: ActivityLog, clock: Clock, server: Files) -> bool:
    """Whether the server is idle, by the next health check."""
    clock.now += SECONDS
    result = ask(log, login(server, looks=True).health_check(), server)
    assert result.ok, result.message
    assert LOOKED not in result.facts
    since = result.facts[FACT]
    assert not since or datetime.fromisoformat(since).timestamp() <= clock.now - QUIET_SECONDS
    return bool(since)


def is_idle_after(log: ActivityLog, clock: Clock, server: Files) -> float:
    """How long nobody is there until the server is said to be idle."""
    began = clock.now
    while not look(log, clock, server):
        assert clock.now - began < 2 * QUIET_SECONDS
    return clock.now - began


def test_a_server_is_idle_once_nobody_was_there_for_a_minute(
    server: Files, log: ActivityLog, clock: Clock
) -> None:
    assert sync(login(server)).ok
    assert QUIET_SECONDS <= is_idle_after(log, clock, server) <= QUIET_SECONDS + SECONDS

    # One that is gone before the next health check.
    sql(server, "SELECT 1", user="ada", password="lovelace-1815", database="ada")
    assert look(log, clock, server) is False
    assert QUIET_SECONDS - SECONDS <= is_idle_after(log, clock, server) <= QUIET_SECONDS

    # One that lasts, and does nothing.
    with psycopg.connect(
        host="127.0.0.1", port=server.port, user="ada", password="lovelace-1815", dbname="ada"
    ) as connection:
        for _ in range(20):
            assert look(log, clock, server) is False
        connection.execute(b"SELECT 1")
    assert is_idle_after(log, clock, server) <= QUIET_SECONDS + SECONDS

    # In the maintenance database, while it lasts.
    with psycopg.connect(
        host="127.0.0.1", port=server.port, user="kindling", password=SUPERUSER_PASSWORD, dbname="postgres"
    ):
        assert look(log, clock, server) is False


def test_the_operator_itself_is_nobody(server: Files, log: ActivityLog, clock: Clock) -> None:
    assert sync(login(server)).ok
    is_idle_after(log, clock, server)
    assert ask(log, usage_request(server), server).ok
    assert look(log, clock, server) is True
    # It makes the role and the database as they should be, by sessions of the user too.
    assert ask(log, login(server, parameters={"work_mem": "5MB"}), server).ok
    assert sessions.opened > 0
    assert look(log, clock, server) is True
    assert ask(log, login(server).health_check(), server).facts.get(FACT) is None
    assert look(log, clock, server) is True, "a check that does not look is counted all the same"


def test_the_kubelet_is_nobody_and_keeps_nobody_from_making_a_database(
    server: Files, log: ActivityLog, clock: Clock
) -> None:
    """Where the default user has the database that everybody has."""

    def check() -> bool:
        clock.now += SECONDS
        request = login(server, user="postgres", looks=True).health_check()
        return bool(ask(log, request, server).facts[FACT])

    assert sync(login(server, user="postgres")).ok
    began = clock.now
    while not check():  # what has set the superuser's password may be counted a moment later
        assert page(server) == 200
        assert clock.now - began < 2 * QUIET_SECONDS
    assert page(server) == 200
    assert check() is True
    sql(server, "SELECT 1", user="postgres", password="lovelace-1815", database="postgres")
    assert check() is False
    with ThreadPoolExecutor(1) as kubelet:
        done = threading.Event()
        asked = kubelet.submit(lambda: [page(server) for _ in iter(done.is_set, True)])
        try:
            for number in range(10):
                as_superuser(server, f"CREATE DATABASE made_{number}")
        finally:
            done.set()
        assert set(asked.result(30)) == {200}


def test_what_is_not_known_counts_as_used(server: Files, log: ActivityLog, clock: Clock) -> None:
    assert sync(login(server)).ok
    is_idle_after(log, clock, server)
    # A question that failed: nobody knows how many sessions it had.
    assert not ask(log, login(server, password="wrong").health_check(), server).ok
    assert look(log, clock, server) is False
    assert is_idle_after(log, clock, server) >= QUIET_SECONDS
    # a prober that starts again.
    assert look(ActivityLog(clock=clock), clock, server) is False
    # A server that does not count.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(activity, "_LOOK", activity._LOOK.replace("sum(sessions)", "sum(sessions_of_13)"))
        assert [look(log, clock, server) for _ in range(15)] == [False] * 15
    is_idle_after(log, clock, server)
    # A server that counts from zero again.
    sql(server, "SELECT pg_stat_reset()", user="kindling", password=SUPERUSER_PASSWORD, database="ada")
    assert look(log, clock, server) is False
    is_idle_after(log, clock, server)


@pytest.mark.parametrize(
    "line",
    [b"", b"[]", b"{}", b'{"facts": 1}', b'{"facts": {"looked": ["", 1]}}'],
)
def test_an_answer_that_is_none_says_nothing_of_who_is_there(
    files: Files, log: ActivityLog, line: bytes
) -> None:
    job = jobs.Job(request=login(files, looks=True).health_check(), host="127.0.0.1", port=1)
    good = ExternalResult(ok=True)
    found = log.note(job, line, good)
    assert found == ExternalResult(ok=True, facts={FACT: ""}), "what was said before holds no longer"
    assert log.note(job, line, None) is None


def test_the_server_asked_longest_ago_is_forgotten(files: Files, log: ActivityLog, clock: Clock) -> None:
    asked: Login = login(files, looks=True).health_check()
    line = b'{"facts": {"looked": [0, 1]}}'
    for number in range(MOST_SERVERS + 10):
        job = jobs.Job(request=asked, host="127.0.0.1", port=1)
        object.__setattr__(asked, "host", f"db-{number}")
        assert log.note(job, line, ExternalResult(ok=True)) is not None
    assert len(log._servers) == MOST_SERVERS
