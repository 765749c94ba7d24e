"""The login to a running PostgreSQL, and what makes it possible: the role, its password, its database.

The only SQL of the operator. A port: the engine is given `ask`, and tests give it another one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from kindling.kinds.contract import Answer
from kindling.kinds.postgresql.login import Login
from kindling.ports.scram import verifier

CONNECT_SECONDS = 5.0
COMMAND_SECONDS = 30.0  # a database is made from a copy, on whatever disk there is
# Even an error of ours must leave no statement in the server's log.
QUIET = {
    "application_name": "kindling",
    "log_statement": "none",
    "log_min_error_statement": "panic",
    "log_min_duration_statement": "-1",
}
OWNS = "SELECT pg_get_userbyid(datdba) = current_user FROM pg_database WHERE datname = current_database()"
# No such role or wrong password, not admitted, no such database: what provisioning can mend.
MENDABLE = (
    asyncpg.InvalidPasswordError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.InsufficientPrivilegeError,
)


class _CannotEnter(Exception):
    """The superuser's login was refused."""


async def ask(login: Login) -> Answer:
    """Log in as the user; where that fails, make role and database as they should be and log in again.

    Never raises for what a server may answer: it comes back as an Answer.
    """
    try:
        async with asyncio.timeout(2 * COMMAND_SECONDS):
            if not await _enters(login):
                await _provision(login)
                if not await _enters(login):
                    return Answer(
                        ok=False,
                        reason="LoginFailed",
                        message=f"The server does not let {login.user!r} in though its role was just set: "
                        f"check what else changes roles or pg_hba.conf on {login.host}.",
                    )
    except _CannotEnter:
        return Answer(
            ok=False,
            reason="SuperuserLoginFailed",
            message=f"The data was made with another password for role {login.superuser!r} than the one in "
            f"its Secret. In the Pod, run `psql -U {login.superuser} postgres`, and set the Secret's "
            "password with \\password.",
        )
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        return Answer(
            ok=False,
            reason="LoginFailed",
            message=f"No login through {login.host}:{login.port} yet: {_told(error)}. It is tried again; "
            "see the Pod's log if this lasts.",
        )
    return Answer(ok=True)


async def _enters(login: Login) -> bool:
    try:
        async with _connection(
            login, user=login.user, password=login.password, database=login.user
        ) as connection:
            return bool(await connection.fetchval(OWNS))
    except MENDABLE:
        return False


async def _provision(login: Login) -> None:
    if login.superuser_password is None:
        raise _CannotEnter
    try:
        async with _connection(
            login,
            user=login.superuser,
            password=login.superuser_password,
            database="template1",
            settings=QUIET,
        ) as connection:
            role, secret = _quoted(login.user), verifier(login.password)
            exists = await connection.fetchval("SELECT 1 FROM pg_roles WHERE rolname = $1", login.user)
            verb = "ALTER" if exists else "CREATE"
            await connection.execute(f"{verb} ROLE {role} LOGIN PASSWORD '{secret}' VALID UNTIL 'infinity'")
            exists = await connection.fetchval("SELECT 1 FROM pg_database WHERE datname = $1", login.user)
            await connection.execute(
                f"ALTER DATABASE {role} OWNER TO {role}" if exists else f"CREATE DATABASE {role} OWNER {role}"
            )
    except (asyncpg.InvalidPasswordError, asyncpg.InvalidAuthorizationSpecificationError) as error:
        raise _CannotEnter from error


@asynccontextmanager
async def _connection(
    login: Login, *, user: str, password: str, database: str, settings: dict[str, str] | None = None
) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    connection = await asyncpg.connect(
        host=login.host,
        port=login.port,
        user=user,
        password=password,
        database=database,
        ssl=False,
        timeout=CONNECT_SECONDS,
        command_timeout=COMMAND_SECONDS,
        server_settings=settings or {"application_name": "kindling"},
    )
    try:
        yield connection
    finally:
        await connection.close(timeout=CONNECT_SECONDS)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _told(error: BaseException) -> str:
    """One line of an error, without the statement it came from."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0].rstrip(".")
