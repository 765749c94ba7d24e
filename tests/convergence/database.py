"""One real PostgreSQL server for all the Postgresql resources of a sweep, each with a user of its own.

Every resource has another generated password for the operator's own role; `ForwardTarget` sets the one
that is needed now.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from kindling.kinds.postgresql import config
from kindling.kinds.postgresql.spec import SUPERUSER
from psycopg import sql

from tests.unit.operator.conftest import SUPERUSER_PASSWORD, Files, files_of_a_pod

# A superuser of the tests' own, which comes in without a password.
TESTER = "tester"
RULES = f"host all {TESTER} 127.0.0.1/32 trust\n{config.HBA}"


@contextmanager
def database() -> Iterator[Files]:
    with files_of_a_pod() as files:
        (files.root / "config" / "pg_hba.conf").write_text(RULES)
        with files.running():
            _execute(files, f"CREATE ROLE {TESTER} LOGIN SUPERUSER", SUPERUSER, password=SUPERUSER_PASSWORD)
            yield files


def lets_in(files: Files, *, user: str, password: str) -> bool:
    """Whether the user can log in to the database of that name."""
    try:
        _execute(files, "SELECT 1", user, password=password, database=user)
    except psycopg.OperationalError:
        return False
    return True


def drop(files: Files, *users: str) -> None:
    """What the operator made for these users; a database takes its room."""
    for user in users:
        _execute(files, f'DROP DATABASE IF EXISTS "{user}" WITH (FORCE)')
        _execute(files, f'DROP ROLE IF EXISTS "{user}"')


def set_superuser_password(files: Files, password: str) -> None:
    """From now on the operator's own role has this one."""
    _execute(files, f"ALTER ROLE {SUPERUSER} PASSWORD {sql.quote(password)}")


def _execute(
    files: Files, statement: str, user: str = TESTER, *, password: str = "", database: str = "template1"
) -> None:
    with psycopg.connect(
        host="127.0.0.1",
        port=files.port,
        user=user,
        password=password,
        dbname=database,
        sslmode="disable",
        autocommit=True,
    ) as connection:
        connection.execute(statement.encode())
