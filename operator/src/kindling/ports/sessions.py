"""Connections to a PostgreSQL server, wherever its address is had from.

Apart from those who use them (`postgres`, `parameters`), so that SQL stands there and the wire here.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeAlias

import asyncpg

from kindling.kinds.postgresql.login import Login

CONNECT_SECONDS = 5.0
COMMAND_SECONDS = 30.0  # a database is made from a copy, on whatever disk there is

Session: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
Address: TypeAlias = tuple[str, int]
Dial: TypeAlias = Callable[[Login], AbstractAsyncContextManager[Address]]
"""Gives an address that leads to the server, for as long as the context lasts."""

# No parameter that is set for everybody may keep us from getting in, and from mending it.
OURS = {
    "application_name": "kindling",
    "search_path": "pg_catalog",
    "default_transaction_read_only": "off",
    "statement_timeout": "0",
    "lock_timeout": "0",
    "exit_on_error": "off",
}
# The superuser's. Even an error of ours must leave no statement in the server's log.
QUIET = {
    "log_statement": "none",
    "log_min_error_statement": "panic",
    "log_min_duration_statement": "-1",
    "log_min_duration_sample": "-1",
    "log_transaction_sample_rate": "0",
    "debug_print_parse": "off",
    "debug_print_rewritten": "off",
    "debug_print_plan": "off",
}


@asynccontextmanager
async def direct(login: Login) -> AsyncIterator[Address]:
    """The Service's own address, which leads there from anywhere in the cluster."""
    yield login.host, login.port


@asynccontextmanager
async def session(
    address: Address, *, user: str, password: str, database: str, quiet: bool = False
) -> AsyncIterator[Session]:
    """:raises asyncpg.PostgresError: and OSError, TimeoutError, asyncpg.InterfaceError."""
    host, port = address
    connection = await asyncpg.connect(
        host=host,
        port=port,
        user=user,
        password=password,
        database=database,
        ssl=False,
        timeout=CONNECT_SECONDS,
        command_timeout=COMMAND_SECONDS,
        server_settings={**OURS, **(QUIET if quiet else {})},
    )
    try:
        yield connection
    finally:
        await connection.close(timeout=CONNECT_SECONDS)


def identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal(value: str) -> str:
    """A string for SQL that reads the same whatever standard_conforming_strings is."""
    quoted = "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
    return f" E{quoted}" if "\\" in value else quoted


def told(error: BaseException) -> str:
    """One line of an error, without the statement it came from; one for all that means the same."""
    if isinstance(error, socket.gaierror):
        return "the Service's name cannot be resolved"
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0].rstrip(".")
