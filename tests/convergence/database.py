"""One real PostgreSQL server for all the Postgresql resources of a sweep, each with a user of its own.

Every resource has another generated password for the operator's own role, and another certificate;
`ForwardTarget` sets those that are needed now. It archives its log from its start, by its command line, which
no resource changes, and into a store that takes everything: one server cannot archive for some and not for
others.
"""

from __future__ import annotations

import getpass
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
from kindling.kinds import certificates
from kindling.kinds.certificates import Pair
from kindling.kinds.postgresql import tls
from kindling.kinds.postgresql.spec import SUPERUSER
from psycopg import sql

from tests.unit.operator.conftest import USER, Files, files_of_a_pod

ARCHIVING = ("archive_mode=on", "archive_command=true", "archive_timeout=15s")
# The rules of login are the operator's own. The tests come in by the socket, as the server's own user does.
IDENT = f"kindling {getpass.getuser()} {SUPERUSER}\n"
HOST = "localhost"
SERVED_SECONDS = 5.0


@contextmanager
def database() -> Iterator[Files]:
    with files_of_a_pod() as files:
        with (files.root / "config" / "pg_ident.conf").open("a") as ident:
            ident.write(IDENT)
        _write(files, *_first())
        with files.running(*ARCHIVING, *files.words(tls.SETTINGS[1::2])):
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


def set_certificate(files: Files, pair: Pair, authority: str) -> None:
    """From now on the server serves this one."""
    if (files.root / "tls" / tls.CERTIFICATE).read_text() == pair.certificate:
        return
    _write(files, pair, authority)
    _execute(files, "SELECT pg_reload_conf()")
    deadline = time.monotonic() + SERVED_SECONDS
    while not _serves(files) and time.monotonic() < deadline:
        time.sleep(0.01)


def _first() -> tuple[Pair, str]:
    """What is served before any resource has a server."""
    now = datetime.now(UTC)
    made = certificates.make_authority(b"first", name="first", now=now)
    life = timedelta(days=1)
    pair = certificates.make_server(b"first", authority=made, name=HOST, hosts=[HOST], now=now, life=life)
    return pair, made.certificate


def _write(files: Files, pair: Pair, authority: str) -> None:
    texts = {tls.CERTIFICATE: pair.certificate, tls.KEY: pair.key, tls.AUTHORITY: authority}
    for name, text in texts.items():
        path = files.root / "tls" / name
        path.write_text(text)
        path.chmod(0o600)
        if os.geteuid() == 0:
            shutil.chown(path, USER)


def _serves(files: Files) -> bool:
    """Whether it serves one by the present authority: no earlier does it ask for a password."""
    try:
        psycopg.connect(
            host="127.0.0.1", port=files.port, user="nobody-of-this-name", password="x", dbname="template1",
            sslmode="verify-ca", sslrootcert=str(files.root / "tls" / tls.AUTHORITY),
        ).close()  # fmt: skip
    except psycopg.OperationalError as error:
        return "password authentication failed" in str(error)
    return True


def _execute(
    files: Files, statement: str, user: str = SUPERUSER, *, password: str = "", database: str = "template1"
) -> None:
    with _connection(files, user, password=password, database=database) as connection:
        connection.execute(statement.encode())


def _fetchval(files: Files, query: str) -> object:
    with _connection(files, SUPERUSER, password="", database="template1") as connection:
        row = connection.execute(query.encode()).fetchone()
        return row[0] if row else None


def _connection(
    files: Files, user: str, *, password: str, database: str
) -> psycopg.Connection[tuple[Any, ...]]:
    return psycopg.connect(
        host="127.0.0.1" if password else str(files.root / "sockets"),
        port=files.port,
        user=user,
        password=password,
        dbname=database,
        sslmode="disable",
        autocommit=True,
    )
