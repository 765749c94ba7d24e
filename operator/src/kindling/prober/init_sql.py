"""The first SQL of a new database, run by its owner in one transaction before the database has its name."""

from __future__ import annotations

import select
import time
from typing import Any

import psycopg
from psycopg import pq

from kindling.kinds.postgresql.init_sql import NOTE, SECONDS, TEMPORARY, Script
from kindling.kinds.postgresql.login import Login
from kindling.prober.sessions import (
    LONGEST,
    OURS,
    Address,
    Session,
    execute,
    fetchval,
    identifier,
    literal,
    session,
)
from kindling.prober.tls import trust_of

_NOTED = """SELECT coalesce((SELECT substr(setting, length(%s) + 2) FROM pg_db_role_setting
        CROSS JOIN unnest(setconfig) AS setting
        WHERE setdatabase = d.oid AND setrole = 0 AND starts_with(setting, %s || '=')), '')
    FROM pg_database d WHERE datname = %s"""
_NOW = """SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')"""
_STATEMENT = (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK, pq.ExecStatus.EMPTY_QUERY)
_COPY = (pq.ExecStatus.COPY_IN, pq.ExecStatus.COPY_OUT, pq.ExecStatus.COPY_BOTH)
# The role is nobody's superuser, so these are defaults that the SQL may change for itself.
_SETTINGS = {
    **{name: value for name, value in OURS.items() if name != "search_path"},
    "statement_timeout": f"{SECONDS}s",
    "idle_in_transaction_session_timeout": f"{SECONDS}s",
}


class InitSQLFailed(Exception):
    """The database is not there, and nothing of it is left. Its text is for the user."""


def prepare(connection: Session, login: Login) -> None:
    """An empty database of the default user under its first name; what an earlier attempt left is dropped.

    :raises InitSQLFailed: where there is no SQL to run in it.
    """
    drop(connection)
    if login.init_problem:
        raise InitSQLFailed(login.init_problem)
    execute(connection, f"CREATE DATABASE {identifier(TEMPORARY)} OWNER {identifier(login.database)}")


def run(address: Address, login: Login) -> None:
    """All scripts in one transaction, as whom applications will log in.

    :raises InitSQLFailed: for what the server, or the time that it took, has against it.
    """
    deadline = time.monotonic() + SECONDS
    with session(
        address,
        user=login.user,
        password=login.password,
        database=TEMPORARY,
        trust=trust_of(login),
        given=_SETTINGS,
        patient=True,
    ) as connection:
        execute(connection, "BEGIN")
        for where, text, secret in login.init_sql or ():
            _run(connection, Script(where, text, secret), deadline)
            if connection.pgconn.transaction_status != pq.TransactionStatus.INTRANS:
                raise InitSQLFailed(
                    f"{where} ends the transaction that all of it is run in: leave out COMMIT and ROLLBACK."
                )
        try:
            execute(connection, "COMMIT")
        except psycopg.Error as error:  # of a constraint that was deferred
            if error.sqlstate is None:
                raise
            raise InitSQLFailed(f"spec.initSQL cannot be committed: {error.sqlstate}.") from error


def finish(connection: Session, login: Login) -> None:
    """The database gets its name, and a note of when, at once."""
    made, name = identifier(TEMPORARY), ".".join(map(identifier, NOTE.split(".")))
    now = str(fetchval(connection, _NOW))
    execute(
        connection,
        f"BEGIN; ALTER DATABASE {made} SET {name} = {literal(now)}; "
        f"ALTER DATABASE {made} RENAME TO {identifier(login.database)}; COMMIT",
    )


def drop(connection: Session) -> None:
    execute(connection, f"DROP DATABASE IF EXISTS {identifier(TEMPORARY)} WITH (FORCE)")


def noted(connection: Session, login: Login) -> str | None:
    """When it was run; empty for a database without the note, None for none."""
    found = fetchval(connection, _NOTED, NOTE, NOTE, login.database)
    return None if found is None else str(found)


def _run(connection: Session, script: Script, deadline: float) -> None:
    """By libpq itself, which has a result for each statement: so the one that fails is known."""
    pgconn: Any = connection.pgconn
    pgconn.send_query(script.text.encode())
    number, failure, stopped = 1, None, False
    while (result := _result(pgconn, script, deadline)) is not None:
        if result.status in _STATEMENT:
            number += 1
        elif result.status in _COPY:
            stopped = True
            break
        elif failure is None:
            failure = result
    if stopped:
        raise InitSQLFailed(
            f"{script.where}, statement {number}: COPY has no client to read from: use INSERT."
        )
    if failure is not None:
        raise InitSQLFailed(_words(script, failure, number))


def _result(pgconn: Any, script: Script, deadline: float) -> Any:
    """The next result; None after the last one."""
    unsent = pgconn.flush()
    while unsent or pgconn.is_busy():
        waiting = select.poll()
        waiting.register(pgconn.socket, select.POLLIN | (select.POLLOUT if unsent else 0))
        left = deadline - time.monotonic()
        if left <= 0 or not (events := waiting.poll(left * 1000)):
            raise InitSQLFailed(
                f"{script.where}: all of spec.initSQL took longer than {SECONDS} s: do less in it, and the "
                "rest by a migration of the application's own."
            )
        if events[0][1] & ~select.POLLOUT:
            pgconn.consume_input()
        unsent = pgconn.flush()
    return pgconn.get_result()


def _words(script: Script, failure: Any, number: int) -> str:
    def field(name: pq.DiagnosticField) -> str:
        return (failure.error_field(name) or b"").decode(errors="replace")

    state, position = field(pq.DiagnosticField.SQLSTATE), field(pq.DiagnosticField.STATEMENT_POSITION)
    where = f"statement {number}"
    if position.isdecimal():
        where = f"line {script.text[: int(position) - 1].count(chr(10)) + 1}"
    said = field(pq.DiagnosticField.MESSAGE_PRIMARY)[:LONGEST]
    # What a Secret holds is in no message, and the server's words may have any of it.
    return f"{script.where}, {where}: {'SQLSTATE ' + state if script.secret else f'{said} ({state})'}."
