"""The login port against a real PostgreSQL: any admitted role, any password, every half-done state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest
from kindling.kinds.base import ExternalResult
from kindling.kinds.postgresql.login import Login
from kindling.prober import postgres

from tests.unit.operator import hostile
from tests.unit.operator.conftest import SUPERUSER_PASSWORD, Files


def login(server: Files, **changes: Any) -> Login:
    values: dict[str, Any] = {
        "host": "127.0.0.1",
        "port": server.port,
        "namespace": "ns",
        "pod": "db-0",
        "user": "ada",
        "password": "lovelace-1815",
        "superuser": "kindling",
        "superuser_password": SUPERUSER_PASSWORD,
        "cache_key": None,
    }
    return Login(**{**values, **changes})


def sync(login: Login) -> ExternalResult:
    return postgres.sync((login.host, login.port), login)


def sql(server: Files, query: str, *, user: str, password: str, database: str) -> Any:
    with psycopg.connect(
        host="127.0.0.1",
        port=server.port,
        user=user,
        password=password,
        dbname=database,
        sslmode="disable",
        options="-c statement_timeout=0",
        autocommit=True,
    ) as connection:
        done = connection.execute(query.encode())
        row = done.fetchone() if done.description else None
        return row[0] if row else None


def as_superuser(server: Files, query: str) -> Any:
    return sql(server, query, user="kindling", password=SUPERUSER_PASSWORD, database="template1")


OWNER = "SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = current_database()"


def test_roles_passwords_and_every_half_done_state(server: Files) -> None:
    """One server, since starting it is what takes the time."""
    for user, password in [
        ("ada", "lovelace-1815"),
        ("postgres", "Password123!"),
        ("Select", 'it\'s "quoted" \\ $1'),
        ("a.b-c", "пароль é ﬁ \u00a0x"),
        ("_x", "\u0627\u0031"),  # SASLprep forbids it, so it goes as it is
        ("u" * 63, "p" * 1024),
    ]:
        assert sync(login(server, user=user, password=password)).ok, user
        assert sql(server, OWNER, user=user, password=password, database=user) == user
    assert as_superuser(server, "SELECT rolsuper FROM pg_roles WHERE rolname = 'postgres'") is False

    # From here on it is known. A changed password, and the old one no longer.
    known = {"identifier": sync(login(server)).facts["system_identifier"]}
    assert sync(login(server, password="second", **known)).ok
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        sql(server, "SELECT 1", user="ada", password="lovelace-1815", database="ada")

    # Cut off between role and database; a database of another's; a role that may not log in.
    as_superuser(server, "DROP DATABASE ada")
    assert sync(login(server, **known)).ok
    as_superuser(server, "ALTER DATABASE ada OWNER TO kindling")
    assert sync(login(server, **known)).ok
    assert sql(server, OWNER, user="ada", password="lovelace-1815", database="ada") == "ada"
    as_superuser(server, "ALTER ROLE ada NOLOGIN VALID UNTIL '2000-01-01'")
    assert sync(login(server, **known)).ok

    # With the login good already, the superuser is not needed at all.
    assert sync(login(server, superuser_password=None)).ok
    assert sync(login(server, superuser_password="wrong")).ok

    # A volume made under another superuser's password says so.
    for more in ({}, known):
        answer = sync(login(server, password="third", superuser_password="wrong", **more))
        assert (answer.ok, answer.reason) == (False, "SuperuserLoginFailed")
        assert "third" not in answer.message

    log = (server.root / "server.log").read_text()
    for word in (SUPERUSER_PASSWORD, "lovelace", "Password123", "second", "third", "SCRAM-SHA-256$"):
        assert word not in log
    assert "CREATE ROLE" not in log


def test_a_new_server_has_no_failed_login_in_its_log(server: Files) -> None:
    """The log is the first thing that its owner reads."""
    assert sync(login(server)).ok
    log = (server.root / "server.log").read_text()
    # While it starts, it says FATAL of whoever asks whether it has.
    assert "authentication failed" not in log
    assert "does not exist" not in log


def test_other_data_is_left_as_it_is(server: Files) -> None:
    """Compared by whoever comes in first: the user, or who would make the user."""
    mine = as_superuser(server, "SELECT system_identifier::text FROM pg_control_system()")
    roles = "SELECT count(*) FROM pg_roles"
    before = as_superuser(server, roles)
    answer = sync(login(server, identifier="7"))
    assert (answer.ok, answer.reason, answer.facts) == (False, "DataLost", {"system_identifier": mine})
    assert as_superuser(server, roles) == before
    for identifier in (None, mine):
        answer = sync(login(server, identifier=identifier))
        assert (answer.ok, answer.facts["system_identifier"]) == (True, mine)
    assert sync(login(server, identifier="7")).reason == "DataLost"
    as_superuser(server, "REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
    assert sync(login(server, identifier=mine)).ok
    # A right is each database's own: this one's, and that of the user.
    revoke = "REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC"
    sql(server, revoke, user="kindling", password=SUPERUSER_PASSWORD, database="ada")
    assert sync(login(server, identifier=mine)).ok
    assert sync(login(server, identifier="7")).reason == "DataLost"


def test_no_server_is_an_answer(files: Files) -> None:
    answer = sync(login(files))
    assert (answer.ok, answer.reason) == (False, "LoginFailed")
    assert str(files.port) in answer.message


def test_the_version_is_what_the_server_itself_says(server: Files) -> None:
    said = as_superuser(server, "SHOW server_version")
    answer = sync(login(server))
    assert answer.facts["version"] == said.split()[0]
    assert "." in answer.facts["version"]


@pytest.mark.parametrize("sort", ["cleartext", "md5", "trust"])
def test_nothing_but_scram_is_ever_answered(sort: str) -> None:
    """Whoever may name an image must not get a Secret sent to the server in it."""
    with hostile.hostile(sort) as there:
        answer = sync(login(Files(Path(), there.port)))
    assert (answer.ok, answer.reason) == (False, "UnsafeAuthentication"), answer
    assert there.last_result == []
    assert "SCRAM-SHA-256" in answer.message


@pytest.mark.parametrize("sort", ["flood", "flood_of_errors", "garbage", "odd_version"])
def test_whatever_a_server_says_is_an_answer(sort: str) -> None:
    with hostile.hostile(sort) as there:
        answer = sync(login(Files(Path(), there.port)))
    assert (answer.ok, answer.reason) == (False, "LoginFailed")
    assert "version" not in answer.facts
    assert len(answer.message) < 1000
