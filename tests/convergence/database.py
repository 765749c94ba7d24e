"""One real PostgreSQL server for all the Postgresql resources of a sweep, each with a user of its own.

The operator's own role comes in without a password, since every resource has made another for it; the
users do not, so that what a resource says of its login was really tried.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg
from kindling.kinds.postgresql import config
from kindling.kinds.postgresql.spec import SUPERUSER

from tests.unit.operator.conftest import Files, files_of_a_pod

RULES = f"host all {SUPERUSER} all trust\n{config.HBA}"


@contextmanager
def database() -> Iterator[Files]:
    with files_of_a_pod() as files:
        (files.root / "config" / "pg_hba.conf").write_text(RULES)
        with files.running():
            yield files


def lets_in(files: Files, *, user: str, password: str) -> bool:
    """Whether the user can log in to the database of that name."""

    async def enter() -> None:
        connection = await asyncpg.connect(
            host="127.0.0.1", port=files.port, user=user, password=password, database=user, ssl=False
        )
        await connection.close()

    try:
        asyncio.run(enter())
    except asyncpg.PostgresError:
        return False
    return True


def drop(files: Files, *users: str) -> None:
    """What the operator made for these users; a database takes its room."""

    async def away() -> None:
        connection = await asyncpg.connect(
            host="127.0.0.1", port=files.port, user=SUPERUSER, database="template1", ssl=False
        )
        for user in users:
            await connection.execute(f'DROP DATABASE IF EXISTS "{user}" WITH (FORCE)')
            await connection.execute(f'DROP ROLE IF EXISTS "{user}"')
        await connection.close()

    asyncio.run(away())
