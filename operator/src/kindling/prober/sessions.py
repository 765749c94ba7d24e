"""Connections to a PostgreSQL server by libpq, which answers SCRAM-SHA-256 and nothing else.

Apart from those who use them (`postgres`, `parameters`), so that SQL stands there and the wire here.
"""

from __future__ import annotations

import ctypes
import re
import select
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import psycopg
from psycopg import errors, pq
from psycopg.conninfo import make_conninfo

from kindling.prober import tls
from kindling.prober.tls import Trust

CONNECT_SECONDS = 5.0
NOT_ADMITTED = "28000"
NO_PASSWORD = "no password supplied"
"""libpq's own words, once the server has asked for one."""
LONGEST = 500
"""Characters of an error that are passed on."""

Session: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"
Address: TypeAlias = tuple[str, int]

# A name of an image or a password of its own choosing gives nobody the right to see what a Secret holds:
# a server that asks for the password in clear, or for its MD5, gets neither. Nothing is taken from the
# environment, or from files of a user.
STRICT = {
    "require_auth": "scram-sha-256",
    "gssencmode": "disable",
    "passfile": tls.NONE,
    "client_encoding": "UTF8",
}
# No parameter that is set for everybody may keep us from getting in, and from mending it.
OURS = {
    "search_path": "pg_catalog",
    "default_transaction_read_only": "off",
    "statement_timeout": "0",
    "lock_timeout": "0",
    "exit_on_error": "off",
}
# The superuser's. Even an error of ours must leave no statement in the server's log, nor one of ours its text
# with a library that keeps statements: they have verifiers of passwords in them.
QUIET = {
    "log_statement": "none",
    "log_min_error_statement": "panic",
    "log_min_duration_statement": "-1",
    "log_min_duration_sample": "-1",
    "log_transaction_sample_rate": "0",
    "debug_print_parse": "off",
    "debug_print_rewritten": "off",
    "debug_print_plan": "off",
    "pg_stat_statements.track": "none",
}

_VERBOSE = 2  # PQERRORS_VERBOSE: the SQLSTATE is a part of the message, whatever language the server speaks
_STATE = re.compile(r"(?:FATAL|[^\s:]+):  ([0-9A-Z]{5}): (.*)")
_UNSAFE = re.compile(r"authentication method requirement .* failed")
# libpq's own words, and OpenSSL's; the prober has no other language.
_UNTRUSTED = re.compile(
    r"certificate verify failed|server certificate for .* does not match host name|"
    r"could not get server's host name from server certificate|server does not support SSL|"
    r"channel binding (?:is|was) required"
)


_AT = r"^connection to server at .*? failed: "

LOGIN, PATIENT = b"<", b">"
stage: Callable[[bytes], object] = len
"""In a worker, called with what comes: LOGIN, which is to be quick, or PATIENT, which may take its time."""


APPLICATION = "kindling"
"""What each session of ours calls itself."""
TEMPLATE = "template1"
"""The database in which the operator asks what is of no one database."""
opened = 0
"""In a worker, the sessions that it has had in others."""


class LoginRejected(Exception):
    """The server let nobody in, and said why; `state` is its SQLSTATE. Its text is the server's."""

    def __init__(self, state: str, message: str) -> None:
        super().__init__(message)
        self.state = state


class UnsafeAuthentication(Exception):
    """The server requested something else than SCRAM-SHA-256: no password was sent."""


class UntrustedCertificate(Exception):
    """The server had no certificate that proves it to be the one that was to be there. No password was sent.

    Its text is libpq's.
    """


FAILURES = (OSError, MemoryError, LookupError, TypeError, ValueError, LoginRejected, psycopg.Error)
"""All that a server may lead to, whose answers need not be what was asked for."""
WHOSE = "SELECT system_identifier::text FROM pg_control_system()"
"""Whose data it has."""


@contextmanager
def session(
    address: Address,
    *,
    user: str,
    password: str,
    database: str,
    trust: Trust | None,
    quiet: bool = False,
    given: Mapping[str, str] = OURS,
    patient: bool = False,
) -> Iterator[Session]:
    """A connection in autocommit, closed at the end; with `trust`, by TLS, and with that server alone. It is
    made with the settings `given`; `patient`, or `quiet`, may take its time once it is there.

    :raises LoginRejected, UnsafeAuthentication, UntrustedCertificate: and TimeoutError after CONNECT_SECONDS,
        psycopg.Error.
    """
    stage(LOGIN)
    settings = {**given, **(QUIET if quiet else {})}
    with tls.settings(trust) as encryption:
        connection = psycopg.Connection[tuple[Any, ...]](
            _connect(
                make_conninfo(
                    **STRICT,
                    **encryption,
                    **_place(address, trust),
                    user=user,
                    password=password,
                    dbname=database,
                    application_name=APPLICATION,
                    options=" ".join(f"-c {name}={value}" for name, value in settings.items()),
                )
            )
        )
    global opened
    opened += database != TEMPLATE
    connection.autocommit = True
    connection.prepare_threshold = None
    if quiet or patient:
        stage(PATIENT)
    try:
        yield connection
    finally:
        connection.close()


def admits_plain(address: Address, user: str) -> bool | None:
    """Whether the server lets the user come as far as the password without TLS; none is sent. None: it says
    neither.
    """
    try:
        with session(address, user=user, password="", database=user, trust=None):
            return True
    except LoginRejected as error:
        return False if error.state == NOT_ADMITTED else None
    except (UnsafeAuthentication, TimeoutError):
        return None
    except psycopg.Error as error:
        return True if NO_PASSWORD in str(error) else None


def certificate_of(session: Session) -> dict[str, str] | None:
    """The certificate that the server showed; None without TLS."""
    pgconn: Any = session.pgconn
    return tls.certificate_of(_libpq(), pgconn.pgconn_ptr)


def _place(address: Address, trust: Trust | None) -> dict[str, Any]:
    """The certificate is for the server's own name, also where another address leads there."""
    host, port = address
    if trust is None or trust.host == host:
        return {"host": host, "port": port}
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return {"host": trust.host, "hostaddr": found[0][4][0], "port": port}


def fetch(session: Session, query: str, *values: str) -> list[tuple[Any, ...]]:
    return session.execute(query.encode(), values or None).fetchall()


def fetchval(session: Session, query: str, *values: str) -> Any:
    """The first column of the first row, None where there is none."""
    row = session.execute(query.encode(), values or None).fetchone()
    return row[0] if row else None


def execute(session: Session, statement: str) -> None:
    session.execute(statement.encode())


def _connect(conninfo: str) -> Any:
    """psycopg's own way to connect loses the SQLSTATE of a refusal: libpq has it in the message alone."""
    deadline = time.monotonic() + CONNECT_SECONDS
    connection: Any = pq.PGconn.connect_start(conninfo.encode())
    _libpq().PQsetErrorVerbosity(ctypes.c_void_p(connection.pgconn_ptr), _VERBOSE)
    try:
        status: int | None = pq.PollingStatus.WRITING if connection.status != pq.ConnStatus.BAD else None
        while status not in (None, pq.PollingStatus.OK, pq.PollingStatus.FAILED):
            waiting = select.poll()
            reads = status == pq.PollingStatus.READING
            waiting.register(connection.socket, select.POLLIN if reads else select.POLLOUT)
            if not waiting.poll(max(0.0, deadline - time.monotonic()) * 1000):
                raise TimeoutError
            status = connection.connect_poll()
        if status != pq.PollingStatus.OK:
            raise _failure(connection.get_error_message())
    except BaseException:
        connection.finish()
        raise
    connection.nonblocking = 1
    return connection


def _failure(message: str) -> Exception:
    line = " ".join(message.split("\n")[0].split("\t"))
    if _UNSAFE.search(line):
        return UnsafeAuthentication()
    if _UNTRUSTED.search(line):
        return UntrustedCertificate(re.sub(_AT, "", line)[:LONGEST])
    if found := _STATE.search(line):
        return LoginRejected(found[1], found[2][:LONGEST])
    return errors.OperationalError(line)


@cache
def _libpq() -> ctypes.CDLL:
    """The very library that psycopg has loaded."""
    maps = Path("/proc/self/maps").read_text().splitlines()
    loaded = next(path for line in maps if "/libpq" in (path := line.split(maxsplit=5)[-1]))
    return ctypes.CDLL(loaded)


def identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal(value: str) -> str:
    """A string for SQL that reads the same whatever standard_conforming_strings is."""
    quoted = "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
    return f" E{quoted}" if "\\" in value else quoted


def hint(error: psycopg.Error) -> str:
    return (error.diag.message_hint or "")[:LONGEST]


def summary(error: BaseException) -> str:
    """One line of an error, without the statement it came from; one for all that means the same."""
    primary = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    text = (primary or str(error)).strip() or type(error).__name__
    if "could not translate host name" in text:
        return "the Service's name cannot be resolved"
    # libpq names the address before the cause, and that is named anyway.
    return re.sub(_AT, "", text.splitlines()[0])[:LONGEST].rstrip(".")
