"""What is asked of a restored server besides that it starts. Each raises `Failed`, or was really done."""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from pathlib import Path

import psycopg
from psycopg import sql

from postgres_backup import programs
from postgres_backup.outcome import CHECKSUM_FAILED, QUERY_FAILED, RESTORE_FAILED, Failed
from postgres_backup.request import SUPERUSER, Query
from postgres_backup.server import SOCKETS, Server

_BAD = re.compile(r"Bad checksums:\s+(\d+)")
_SCANNED = re.compile(r"Blocks scanned:\s+(\d+)")
_RESTORE_OLDER = (
    "restore an older backup beside, and compare; replace the server's volume if it is the server's own data"
)


def pages(directory: Path, deadline: programs.Deadline) -> None:
    """Read every page of the stopped server and compare its checksum."""
    done = programs.run(["pg_checksums", "--check", "--pgdata", str(directory)], seconds=deadline.left())
    if done.status == 0 and _SCANNED.search(done.out):
        return
    programs.note(f"pg_checksums: {done.error} {done.out}", secrets=())
    if found := _BAD.search(done.out):
        raise Failed(CHECKSUM_FAILED, f"{found[1]} pages have a wrong checksum: {_RESTORE_OLDER}")
    if "not enabled" in done.error:
        raise Failed(
            CHECKSUM_FAILED,
            "the database has no page checksums, so its pages cannot be proven: `pg_checksums --enable`",
        )
    raise Failed(CHECKSUM_FAILED, "the page checksums could not be read: see the Pod's log")


def amcheck(deadline: programs.Deadline, *, heap: bool) -> None:
    """Tables and B-tree indexes of every database; with `heap`, each row is looked up in its indexes too."""
    args = ["--all", "--install-missing", "--jobs=2", "--no-password"]
    args += ["--host", str(SOCKETS), "--username", SUPERUSER, "--maintenance-db", "template1"]
    if heap:
        args.append("--heapallindexed")
    done = programs.run(["pg_amcheck", *args], seconds=deadline.left())
    if done.status == 0:
        return
    programs.note(f"pg_amcheck: {done.error} {done.out}", secrets=())
    if done.status == 2:
        raise Failed(
            CHECKSUM_FAILED,
            f"pg_amcheck found damaged tables or indexes, see the Pod's log: {_RESTORE_OLDER}",
        )
    raise Failed(RESTORE_FAILED, "pg_amcheck could not be carried out: see the Pod's log")


def queries(server: Server, asked: Sequence[Query], *, seconds: int) -> None:
    """Ask as a role that may read everything and nothing else: a superuser could run programs by COPY."""
    reader = f"kindling_verify_{secrets.token_hex(4)}"
    with server.connect() as connection:
        connection.execute(
            sql.SQL("CREATE ROLE {} LOGIN BYPASSRLS IN ROLE pg_read_all_data").format(sql.Identifier(reader))
        )
    for number, query in enumerate(asked):
        where = f"queries[{number}] in the database {query.database}"
        options = f"-c default_transaction_read_only=on -c statement_timeout={seconds}s"
        try:
            with server.connect(user=reader, database=query.database, options=options) as connection:
                cursor = connection.execute(query.sql.encode())
                while cursor.nextset():
                    pass
                result = cursor.pgresult
                value = (
                    result.get_value(0, 0)
                    if result is not None and result.ntuples and result.nfields
                    else None
                )
                rows = result.ntuples if result is not None else 0
        except psycopg.errors.QueryCanceled:
            raise Failed(
                QUERY_FAILED, f"{where} took longer than {seconds} seconds: make it cheaper"
            ) from None
        except psycopg.Error as error:
            state = error.sqlstate or "no connection"
            raise Failed(
                QUERY_FAILED, f"{where} failed with SQLSTATE {state}: try it on the server itself"
            ) from None
        judge(where, query.expect, rows=rows, value=value)


def judge(where: str, expect: str | None, *, rows: int, value: bytes | None) -> None:
    """The first column of the first row, as PostgreSQL writes it; without `expect`, that there is a row.

    What it was stays unsaid: a status is read by more than the database is.
    """
    if rows == 0:
        raise Failed(QUERY_FAILED, f"{where} gave no row")
    if expect is not None and (value is None or value.decode(errors="replace").strip() != expect.strip()):
        raise Failed(QUERY_FAILED, f"{where} gave another value than expected: try it on the server itself")
