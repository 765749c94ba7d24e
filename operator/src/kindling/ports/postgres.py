"""The login to a running PostgreSQL, and what makes it possible: the role, its password, its database.

A port: the engine is given `ask`, and tests give it another one. The rest of the operator's SQL is in
`parameters`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from kindling.kinds.contract import Answer
from kindling.kinds.postgresql.login import Login
from kindling.ports import parameters
from kindling.ports.scram import verifier
from kindling.ports.sessions import (
    COMMAND_SECONDS,
    Address,
    Dial,
    Session,
    direct,
    identifier,
    session,
    told,
)

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


class Postgres:
    """Asks servers that `dial` leads to."""

    def __init__(self, dial: Dial = direct) -> None:
        self._dial = dial

    async def ask(self, login: Login) -> Answer:
        """Log in as the user; where that fails, make role and database as they should be and log in again.

        Then bring the parameters. Where the login says not to provision, it is only looked at.
        Never raises for what a server may answer: it comes back as an Answer, whose facts are `login`
        (whether the user gets in), `version` and `pending_restart`.
        """
        facts: dict[str, Any] = {}
        try:
            async with asyncio.timeout(2 * COMMAND_SECONDS), self._dial(login) as address:
                problem = await _logged_in(address, login, facts)
                return problem or await _parameters(address, login, facts)
        except _CannotEnter:
            return Answer(
                ok=False,
                reason="SuperuserLoginFailed",
                message=f"The data was made with another password for role {login.superuser!r} than the one "
                f"in its Secret. In the Pod, run `psql -U {login.superuser} postgres`, and set the Secret's "
                "password with \\password.",
                facts=facts,
            )
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            return Answer(
                ok=False,
                reason="LoginFailed",
                message=f"No login through {login.host}:{login.port} yet: {told(error)}. It is tried again; "
                "see the Pod's log if this lasts.",
                facts=facts,
            )


ask = Postgres().ask
"""Through the Service, as the operator does in the cluster."""


async def _logged_in(address: Address, login: Login, facts: dict[str, Any]) -> Answer | None:
    """None once the user gets in, and then `facts` say so."""
    if not await _enters(address, login, facts):
        if not login.provision:
            return Answer(
                ok=False,
                reason="LoginFailed",
                message=f"The server does not let {login.user!r} in, and spec.paused keeps that from being "
                "mended: set spec.paused to false.",
            )
        await _provision(address, login)
        if not await _enters(address, login, facts):
            return Answer(
                ok=False,
                reason="LoginFailed",
                message=f"The server does not let {login.user!r} in though its role was just set: "
                f"check what else changes roles or pg_hba.conf on {login.host}.",
            )
    return None


async def _enters(address: Address, login: Login, facts: dict[str, Any]) -> bool:
    try:
        async with session(
            address, user=login.user, password=login.password, database=login.user
        ) as connection:
            owns = bool(await connection.fetchval(OWNS))
            said = connection.get_server_version()
            facts.update({"login": owns, "version": f"{said.major}.{said.minor}"})
            return owns
    except MENDABLE:
        return False


async def _provision(address: Address, login: Login) -> None:
    async with _superuser(address, login) as connection:
        role, secret = identifier(login.user), verifier(login.password)
        exists = await connection.fetchval("SELECT 1 FROM pg_roles WHERE rolname = $1", login.user)
        verb = "ALTER" if exists else "CREATE"
        await connection.execute(f"{verb} ROLE {role} LOGIN PASSWORD '{secret}' VALID UNTIL 'infinity'")
        exists = await connection.fetchval("SELECT 1 FROM pg_database WHERE datname = $1", login.user)
        await connection.execute(
            f"ALTER DATABASE {role} OWNER TO {role}" if exists else f"CREATE DATABASE {role} OWNER {role}"
        )


async def _parameters(address: Address, login: Login, facts: dict[str, Any]) -> Answer:
    try:
        async with _superuser(address, login) as connection:
            if login.provision:
                waiting = await parameters.bring(connection, login.parameters)
            elif names := await parameters.difference(connection, login.parameters):
                message = (
                    f"The server runs with other parameters than the spec ({', '.join(sorted(names))}), and "
                    "spec.paused keeps it so: set spec.paused to false."
                )
                return Answer(ok=False, reason="Paused", message=message, facts=facts)
            else:
                waiting = await parameters.pending(connection)
    except parameters.Invalid as error:
        message = (
            f"{error}. None of the parameters was changed; mend or remove it "
            f"(`kubectl logs {login.pod} -c initdb -n {login.namespace}` tells of a start that failed)."
        )
        return Answer(ok=False, reason="InvalidParameter", message=message, facts=facts)
    except _CannotEnter:
        if login.parameters:
            raise
        return Answer(ok=True, facts=facts)  # nothing is asked that would need it
    if waiting:
        message = f"A restart puts {', '.join(waiting)} into force; it follows by itself."
        return Answer(
            ok=False, reason="RestartPending", message=message, facts={**facts, "pending_restart": waiting}
        )
    return Answer(ok=True, facts=facts)


@asynccontextmanager
async def _superuser(address: Address, login: Login) -> AsyncIterator[Session]:
    """:raises _CannotEnter: when the superuser is refused."""
    if login.superuser_password is None:
        raise _CannotEnter
    try:
        async with session(
            address,
            user=login.superuser,
            password=login.superuser_password,
            database="template1",
            quiet=True,
        ) as connection:
            yield connection
    except (asyncpg.InvalidPasswordError, asyncpg.InvalidAuthorizationSpecificationError) as error:
        raise _CannotEnter from error
