"""The two logins of a default user on a real server: they become it, and go when nobody uses them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from kindling.kinds.base import ExternalResult
from kindling.kinds.postgresql.logins import LoginsRequest
from kindling.prober import jobs
from kindling.prober import logins as prober
from kindling.prober.postgres import check_health

from tests.unit.operator.conftest import SUPERUSER_PASSWORD, Files
from tests.unit.operator.hostile import hostile
from tests.unit.operator.test_postgres_port import as_superuser, login, sql, sync

FIRST, SECOND = "first-of-two", "second-of-two"
ENABLED = (
    "SELECT string_agg(rolname, ' ' ORDER BY rolname) FROM pg_roles WHERE rolcanlogin AND rolname ~ '^ada'"
)


def rotated(server: Files, name: str, password: str) -> ExternalResult:
    return sync(login(server, user=name, password=password, owner="ada"))


def asked(server: Files, present: str, *disable: str, **changes: Any) -> ExternalResult:
    """The answer as it comes through the prober's lines."""
    values: dict[str, Any] = {
        "namespace": "ns", "host": "127.0.0.1", "port": server.port, "pod": "db-0", "user": "kindling",
        "password": SUPERUSER_PASSWORD, "owner": "ada", "login": present, "logins": ("ada", "ada_a", "ada_b"),
        "disable": disable,
    }  # fmt: skip
    request = LoginsRequest(**{**values, **changes})
    job = jobs.job(jobs.Job(request=request, host="127.0.0.1", port=server.port).line())
    assert isinstance(job.request, LoginsRequest)
    assert job.request == request
    answer = jobs.read(jobs.written(prober.ask((job.host, job.port), job.request)))
    assert answer is not None
    return answer


@contextmanager
def connected(server: Files, user: str, password: str, application: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(
        host="127.0.0.1", port=server.port, user=user, password=password, dbname="ada",
        sslmode="disable", application_name=application, autocommit=True,
    ) as connection:  # fmt: skip
        yield connection


def said(connection: psycopg.Connection, query: str) -> Any:
    row = connection.execute(query.encode()).fetchone()
    return row[0] if row else None


def test_what_a_login_makes_is_the_default_users(server: Files) -> None:
    assert sync(login(server)).ok
    sql(server, "CREATE SCHEMA ada", user="ada", password="lovelace-1815", database="ada")
    assert rotated(server, "ada_a", FIRST).ok
    with connected(server, "ada_a", FIRST, "shop") as session:
        assert said(session, "SELECT current_user || ' ' || session_user") == "ada ada_a"
        session.execute("CREATE TABLE orders (id int)")
        for reset in ("RESET ROLE", "DISCARD ALL", "RESET ALL", "SET SESSION AUTHORIZATION DEFAULT"):
            session.execute(reset.encode())
            assert said(session, "SELECT current_user") == "ada", reset
    assert rotated(server, "ada_b", SECOND).ok
    with connected(server, "ada_b", SECOND, "shop") as session:
        session.execute("ALTER TABLE orders ADD COLUMN price int")
        assert said(
            session, "SELECT tableowner || ' ' || schemaname FROM pg_tables WHERE tablename = 'orders'"
        ) == ("ada ada")
    assert as_superuser(server, ENABLED) == "ada ada_a ada_b", "each stays valid"
    assert check_health(
        ("127.0.0.1", server.port), login(server, user="ada_b", password=SECOND, owner="ada").health_check()
    ).ok


def test_what_is_set_for_the_default_user_is_set_for_its_logins(server: Files) -> None:
    assert sync(login(server)).ok
    for statement in (
        "ALTER ROLE ada CONNECTION LIMIT 7",
        'ALTER ROLE ada SET search_path = sales, "$user", public',
        "ALTER ROLE ada SET statement_timeout = '17s'",
        "ALTER ROLE ada SET my.word = 'it''s \\ so'",
        "ALTER ROLE ada IN DATABASE ada SET work_mem = '7MB'",
        "ALTER ROLE ada IN DATABASE postgres SET work_mem = '9MB'",
    ):
        as_superuser(server, statement)
    for _ in range(2):
        assert rotated(server, "ada_a", FIRST).ok
        with connected(server, "ada_a", FIRST, "shop") as session:
            for name, value in (
                ("search_path", 'sales, "$user", public'),
                ("statement_timeout", "17s"),
                ("my.word", "it's \\ so"),
                ("work_mem", "7MB"),
                ("role", "ada"),
                ("maintenance_work_mem", "64MB"),
            ):
                assert said(session, f"SHOW {name}") == value
        assert as_superuser(server, "SELECT rolconnlimit FROM pg_roles WHERE rolname = 'ada_a'") == 7
        as_superuser(server, "ALTER ROLE ada_a IN DATABASE ada SET maintenance_work_mem = '1MB'")
        as_superuser(server, "ALTER ROLE ada_a NOLOGIN PASSWORD NULL")


def test_without_its_default_user_that_is_made_as_well_and_may_not_log_in(server: Files) -> None:
    """Data that was lost with its Pod, as it may be where it is ephemeral."""
    assert rotated(server, "ada_a", FIRST).ok
    assert as_superuser(server, ENABLED) == "ada_a"
    assert sql(server, "SELECT current_user", user="ada_a", password=FIRST, database="ada") == "ada"


@pytest.mark.parametrize(
    "damage",
    [
        "ALTER ROLE ada_a NOLOGIN PASSWORD NULL",
        "REVOKE ada FROM ada_a",
        "ALTER ROLE ada_a RESET role",
        "ALTER DATABASE ada OWNER TO kindling",
        "ALTER ROLE ada_a VALID UNTIL '2001-01-01'",
    ],
)
def test_a_login_that_somebody_damaged_is_made_good(server: Files, damage: str) -> None:
    assert rotated(server, "ada_a", FIRST).ok
    as_superuser(server, damage)
    health = login(server, user="ada_a", password=FIRST, owner="ada").health_check()
    assert not check_health(("127.0.0.1", server.port), health).ok
    assert rotated(server, "ada_a", FIRST).ok
    assert sql(server, "SELECT current_user", user="ada_a", password=FIRST, database="ada") == "ada"


def test_a_role_that_somebody_made_is_left_as_it_is(server: Files) -> None:
    assert sync(login(server)).ok
    as_superuser(server, "CREATE ROLE ada_a LOGIN PASSWORD 'of somebody'")
    answer = rotated(server, "ada_a", FIRST)
    assert (answer.ok, answer.reason) == (False, "NameConflict")
    assert "role 'ada_a' exists" in answer.message
    assert asked(server, "ada").facts["enabled"] == ["ada"]
    assert asked(server, "ada", "ada_a").ok
    assert sql(server, "SELECT session_user", user="ada_a", password="of somebody", database="ada") == "ada_a"
    # What the message says is what helps.
    as_superuser(server, answer.message.partition("hand it over with ")[2].rstrip("."))
    assert rotated(server, "ada_a", FIRST).ok


def test_who_uses_a_login_keeps_it_and_is_named(server: Files) -> None:
    assert sync(login(server)).ok
    with (
        connected(server, "ada", "lovelace-1815", "shop") as one,
        connected(server, "ada", "lovelace-1815", "shop"),
        connected(server, "ada", "lovelace-1815", "of 'nobody'"),
    ):
        assert rotated(server, "ada_a", FIRST).ok
        with connected(server, "ada_a", FIRST, "new"):
            answer = asked(server, "ada_a", "ada")
        assert sorted(answer.facts["enabled"]) == ["ada", "ada_a"]
        assert answer.facts["sessions"] == [
            {"login": "ada", "address": "127.0.0.1", "application": "shop", "count": 2},
            {"login": "ada", "address": "127.0.0.1", "application": "of 'nobody'", "count": 1},
        ]
        assert said(one, "SELECT 1") == 1
    # A session's end is seen by the server a moment after its client.
    as_superuser(server, "SELECT pg_sleep(0.5)")
    assert asked(server, "ada_a").facts == {"enabled": ["ada", "ada_a"], "sessions": []}
    assert asked(server, "ada_a", "ada").facts == {"enabled": ["ada_a"], "sessions": []}
    with pytest.raises(
        psycopg.OperationalError, match=r"not permitted to log in|password authentication failed"
    ):
        sql(server, "SELECT 1", user="ada", password="lovelace-1815", database="ada")
    assert as_superuser(server, "SELECT rolpassword FROM pg_authid WHERE rolname = 'ada'") is None


def test_other_data_is_left_as_it_is(server: Files) -> None:
    assert sync(login(server)).ok
    assert rotated(server, "ada_a", FIRST).ok
    answer = asked(server, "ada_a", "ada", identifier="7000000000000000001")
    assert not answer.ok
    assert as_superuser(server, ENABLED) == "ada ada_a"


@pytest.mark.parametrize("name", ["trust", "cleartext", "hang"])
def test_a_hostile_server_gives_no_answer(name: str) -> None:
    with hostile(name) as server:
        request = LoginsRequest(
            namespace="ns", host="127.0.0.1", port=server.port, pod="db-0", user="kindling",
            password="lovelace-1815", owner="ada", login="ada_a", logins=("ada", "ada_a", "ada_b"),
        )  # fmt: skip
        assert not prober.ask(("127.0.0.1", server.port), request).ok
