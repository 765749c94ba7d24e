"""One real PostgreSQL server for all the Postgresql resources of a sweep, each with a user of its own.

Every resource has another generated password for the operator's own role; `ForwardTarget` sets the one
that is needed now. It archives its log from its start, by its command line, which no resource changes, and
into a store that takes everything: one server cannot archive for some and not for others.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from kindling.kinds.postgresql import config
from kindling.kinds.postgresql.spec import SUPERUSER
from psycopg import sql

from tests.unit.operator.conftest import SUPERUSER_PASSWORD, Files, files_of_a_pod

# A superuser of the tests' own, which comes in without a password.
TESTER = "tester"
ARCHIVING = ("archive_mode=on", "archive_command=true", "archive_timeout=15s")
RULES = f"host all {TESTER} 127.0.0.1/32 trust\n{config.HBA}"


@contextmanager
def database() -> Iterator[Files]:
    with files_of_a_pod() as files:
        (files.root / "config" / "pg_hba.conf").write_text(RULES)
        with files.running(*ARCHIVING):
            _execute(files, f"CREATE ROLE {TESTER} LOGIN SUPERUSER", SUPERUSER, password=SUPERUSER_PASSWORD)
            _RUNNING.append(files)
            yield files
            _RUNNING.remove(files)


_RUNNING: list[Files] = []


def identifier() -> str:
    """PostgreSQL's system identifier of the server that runs."""
    return str(_fetchval(_RUNNING[0], "SELECT system_identifier::text FROM pg_control_system()"))


def lets_in(files: Files, *, user: str, password: str) -> bool:
    """Whether the user can log in to the database of that name."""
    try:
        _execute(files, "SELECT 1", user, password=password, database=user)
    except psycopg.OperationalError:
        return False
    return True


def drop(files: Files, *users: str) -> None:
    """Drop what the operator created for these users, because each database takes disk space."""
    for user in users:
        for name in (user, f"{user}.more"):
            _execute(files, f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        _execute(files, f'DROP ROLE IF EXISTS "{user}"')


def set_superuser_password(files: Files, password: str) -> None:
    """From now on the operator's own role has this one."""
    _execute(files, f"ALTER ROLE {SUPERUSER} PASSWORD {sql.quote(password)}")


def _execute(
    files: Files, statement: str, user: str = TESTER, *, password: str = "", database: str = "template1"
) -> None:
    with _connection(files, user, password=password, database=database) as connection:
        connection.execute(statement.encode())


def _fetchval(files: Files, query: str) -> object:
    with _connection(files, TESTER, password="", database="template1") as connection:
        row = connection.execute(query.encode()).fetchone()
        return row[0] if row else None


def _connection(
    files: Files, user: str, *, password: str, database: str
) -> psycopg.Connection[tuple[Any, ...]]:
    return psycopg.connect(
        host="127.0.0.1",
        port=files.port,
        user=user,
        password=password,
        dbname=database,
        sslmode="disable",
        autocommit=True,
    )
