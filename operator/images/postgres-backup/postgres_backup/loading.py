"""Databases or tables of a backup, loaded into a Postgresql that is there: restored aside, dumped, loaded.

The restored server is a throwaway. So a database gets its temporary name there, and the dump has all of it,
owner, privileges and settings too; and tables that are not wanted are dropped there, so that types, functions
and privileges of the others come along.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import sql

from postgres_backup import dropped, load_words, programs, recovery, store
from postgres_backup.destination import Destination, temporary
from postgres_backup.engine import Engine
from postgres_backup.outcome import INVALID_REQUEST, NOT_IN_BACKUP, RESTORE_FAILED, Failed
from postgres_backup.pgbackrest import PgBackRest
from postgres_backup.request import CONFIG, SUPERUSER, Database, EngineConfig, Request, load_store
from postgres_backup.server import SOCKETS, THROWAWAY, Server

_ROLES = """
SELECT DISTINCT rolname FROM pg_roles JOIN (
    SELECT refobjid FROM pg_shdepend WHERE refclassid = 'pg_authid'::regclass
        AND (dbid = %(oid)s OR (classid = 'pg_database'::regclass AND objid = %(oid)s))
    UNION SELECT setrole FROM pg_db_role_setting WHERE setdatabase = %(oid)s
) AS used ON used.refobjid = pg_roles.oid
"""
"""Owners, those who have or gave privileges, whom policies name, and who have settings in the database.
PostgreSQL's own roles are in every server, and not among them.
"""

_WANTED = """
SELECT pg_class.oid, nspname, relname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
JOIN unnest(%s::text[], %s::text[]) AS wanted (schema, name) ON nspname = schema AND relname = name
WHERE relkind IN ('r', 'p')
"""

_KEPT = """
WITH RECURSIVE kept (oid) AS (
    SELECT unnest(%s::oid[]) UNION SELECT inhrelid FROM pg_inherits JOIN kept ON inhparent = kept.oid
)
SELECT oid FROM kept
"""
"""These tables, with their partitions and what inherits from them."""

_OTHERS = """
SELECT nspname, relname, relkind FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE relkind IN ('r', 'p', 'f') AND pg_class.oid <> ALL (%s::oid[])
    AND nspname <> 'information_schema' AND nspname !~ '^pg_'
    AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_class'::regclass
        AND objid = pg_class.oid AND deptype = 'e')
ORDER BY nspname, relname
"""

_COLUMNS = "SELECT count(*) FROM pg_attribute WHERE attrelid = ANY (%s::oid[]) AND NOT attisdropped"


def load(request: Request) -> dict[str, Any]:
    """Load `request.databases` into `request.into`; all of them are there in the end, or none."""
    if request.into is None or not request.databases or not request.uid:
        raise Failed(INVALID_REQUEST, "databases, into and uid are needed: the operator makes them")
    deadline, begun = programs.Deadline(request.seconds), time.monotonic()
    names = [each.alias for each in request.databases]
    destination = Destination(request.into, uid=request.uid)
    server = Server(recovery.PARTIAL, deadline)
    try:
        if destination.done():
            return {"message": _message(names)}
        destination.clean()
        destination.check(names)
        engine: Engine = PgBackRest(deadline)
        store.preflight(load_store(), engine, write=False)
        recovered = recovery.recover(
            engine, server, request, settings=THROWAWAY, database=EngineConfig.load(CONFIG).database
        )
        loading = time.monotonic()
        programs.progress("load")
        try:
            _prepare(server, request, destination)
            for number in range(len(names)):
                _copy(destination, temporary(request.uid, number), deadline)
            destination.publish(names)
        except BaseException:
            # What cannot be dropped now, the next run drops.
            with suppress(Failed):
                destination.clean()
            raise
    finally:
        server.kill()
        destination.close()
    return {
        "message": _message(names),
        **recovery.facts(recovered),
        "seconds": recovery.seconds(recovered, begun, load=time.monotonic() - loading),
    }


def _message(names: list[str]) -> str:
    return f"{'databases' if len(names) > 1 else 'database'} {', '.join(names)} loaded"


def _prepare(server: Server, request: Request, destination: Destination) -> None:
    """Have on the restored server what is to be dumped, under the names that it is loaded by."""
    try:
        roles = []
        for number, each in enumerate(request.databases):
            roles += _prepared(server, each, name=temporary(request.uid, number))
    except psycopg.Error as error:
        programs.note(f"restored server: {type(error).__name__} {error.sqlstate}", secrets=())
        raise Failed(
            RESTORE_FAILED,
            f"the restored server refused to prepare the databases with SQLSTATE {error.sqlstate}: see the "
            "Pod's log",
        ) from None
    destination.check_roles(roles)


def _prepared(server: Server, wanted: Database, *, name: str) -> list[str]:
    """Returns the roles that it takes."""
    with server.connect() as connection:
        row = connection.execute("SELECT oid FROM pg_database WHERE datname = %s", (wanted.name,)).fetchone()
        if row is None:
            raise Failed(
                NOT_IN_BACKUP,
                f"the backup has no database {wanted.name} at that moment: ask for another moment, or for "
                "another name",
            )
    if wanted.name in dropped.names(server):
        raise Failed(
            NOT_IN_BACKUP,
            f"database {wanted.name} had been dropped in part at that moment: ask for an earlier one",
        )
    if wanted.tables:
        with server.connect(database=wanted.name) as connection:
            _drop_others(connection, wanted)
    with server.connect() as connection:
        connection.execute(
            sql.SQL("ALTER DATABASE {} RENAME TO {}").format(
                sql.Identifier(wanted.name), sql.Identifier(name)
            )
        )
        return [role for (role,) in connection.execute(_ROLES, {"oid": row[0]})]


def _drop_others(connection: psycopg.Connection[tuple[Any, ...]], wanted: Database) -> None:
    """All tables but these, with what needs them: foreign keys and views."""
    schemas, tables = zip(*wanted.tables, strict=True)
    found = {
        (schema, table): oid
        for oid, schema, table in connection.execute(_WANTED, ([*schemas], [*tables])).fetchall()
    }
    if missing := [".".join(pair) for pair in wanted.tables if pair not in found]:
        raise Failed(
            NOT_IN_BACKUP,
            f"database {wanted.name} of the backup has no table {', '.join(missing)} at that moment: write "
            "each as SCHEMA.TABLE, or ask for another moment",
        )
    kept = [oid for (oid,) in connection.execute(_KEPT, ([*found.values()],))]
    before = connection.execute(_COLUMNS, (kept,)).fetchone()
    for schema, table, kind in connection.execute(_OTHERS, (kept,)).fetchall():
        what = sql.SQL("FOREIGN TABLE" if kind == "f" else "TABLE")
        drop = sql.SQL("DROP {} IF EXISTS {} CASCADE").format(what, sql.Identifier(schema, table))
        connection.execute(drop)
    if connection.execute(_COLUMNS, (kept,)).fetchone() != before:
        raise Failed(
            NOT_IN_BACKUP,
            f"tables of database {wanted.name} need others that are not asked for, since they are parts of "
            "them or have columns of their types: add those to tables",
        )


def _copy(destination: Destination, name: str, deadline: programs.Deadline) -> None:
    """From server to server, through a pipe: nothing of it lies on a disk."""
    dump = ["pg_dump", "--format=custom", "--compress=0", "--create", "--no-tablespaces", "--no-password"]
    dump += [f"--host={SOCKETS}", f"--username={SUPERUSER}", f"--dbname={name}"]
    load = ["pg_restore", "--create", "--exit-on-error", "--no-tablespaces", "--no-password"]
    load += [f"--dbname={destination.login('postgres')}"]
    dumped, loaded = programs.pipe(dump, load, seconds=deadline.left())
    if dumped.status == loaded.status == 0:
        return
    for program, done in (("pg_dump", dumped), ("pg_restore", loaded)):
        if done.status != 0:
            programs.note(f"{program}: {load_words.first_error(done.error)}", secrets=())
    failed = [None if done.status == 0 else done.error for done in (dumped, loaded)]
    raise Failed(*load_words.of_load(*failed))
