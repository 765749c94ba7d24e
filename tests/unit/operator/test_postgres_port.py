"""The login port against a real PostgreSQL: any admitted role, any password, every half-done state."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest
from kindling.kinds.postgresql.login import Login
from kindling.ports.postgres import ask

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
        "memo": None,
    }
    return Login(**{**values, **changes})


def sql(server: Files, query: str, *, user: str, password: str, database: str) -> Any:
    async def run() -> Any:
        connection = await asyncpg.connect(
            host="127.0.0.1",
            port=server.port,
            user=user,
            password=password,
            database=database,
            ssl=False,
            server_settings={"statement_timeout": "0"},
        )
        try:
            return await connection.fetchval(query)
        finally:
            await connection.close()

    return asyncio.run(run())


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
        assert asyncio.run(ask(login(server, user=user, password=password))).ok, user
        assert sql(server, OWNER, user=user, password=password, database=user) == user
    assert as_superuser(server, "SELECT rolsuper FROM pg_roles WHERE rolname = 'postgres'") is False

    # A changed password, and the old one no longer.
    assert asyncio.run(ask(login(server, password="second"))).ok
    with pytest.raises(asyncpg.InvalidPasswordError):
        sql(server, "SELECT 1", user="ada", password="lovelace-1815", database="ada")

    # Cut off between role and database; a database of another's; a role that may not log in.
    as_superuser(server, "DROP DATABASE ada")
    assert asyncio.run(ask(login(server))).ok
    as_superuser(server, "ALTER DATABASE ada OWNER TO kindling")
    assert asyncio.run(ask(login(server))).ok
    assert sql(server, OWNER, user="ada", password="lovelace-1815", database="ada") == "ada"
    as_superuser(server, "ALTER ROLE ada NOLOGIN VALID UNTIL '2000-01-01'")
    assert asyncio.run(ask(login(server))).ok

    # With the login good already, the superuser is not needed at all.
    assert asyncio.run(ask(login(server, superuser_password=None))).ok

    # A volume made under another superuser's password says so.
    answer = asyncio.run(ask(login(server, password="third", superuser_password="wrong")))
    assert (answer.ok, answer.reason) == (False, "SuperuserLoginFailed")
    assert "third" not in answer.message

    log = (server.root / "server.log").read_text()
    for word in (SUPERUSER_PASSWORD, "lovelace", "Password123", "second", "third", "SCRAM-SHA-256$"):
        assert word not in log
    assert "CREATE ROLE" not in log


def test_no_server_is_an_answer(files: Files) -> None:
    answer = asyncio.run(ask(login(files)))
    assert (answer.ok, answer.reason) == (False, "LoginFailed")
    assert str(files.port) in answer.message
