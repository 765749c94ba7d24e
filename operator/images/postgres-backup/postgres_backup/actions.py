"""The actions. Each returns what a successful run says, and raises `Failed` for any other."""

from __future__ import annotations

import hashlib
import json
import time
from contextlib import suppress
from typing import Any

from psycopg import sql

from postgres_backup import checks, in_place, programs, recovery, store, timelines, waking, wal
from postgres_backup.engine import BackupSet, Engine, Repository
from postgres_backup.files import PGDATA, RESULT, sync, write
from postgres_backup.loading import load
from postgres_backup.outcome import (
    CHECKSUM_FAILED,
    DATABASE_UNREACHABLE,
    ENGINE_FAILED,
    INVALID_REQUEST,
    Failed,
    rfc3339,
)
from postgres_backup.pgbackrest import PgBackRest
from postgres_backup.request import (
    CONFIG,
    SUPERUSER,
    SUPERUSER_PASSWORD,
    EngineConfig,
    Folder,
    Request,
    load_store,
)
from postgres_backup.server import THROWAWAY, Server

END_OF_WAL = "the end of its WAL"
ARCHIVER_SECONDS = 60.0
"""How long the archiver of a server that a run has started may be out of reach."""


def full_is_due(repository: Repository | None, *, every: int | None, now: float) -> bool:
    """Whether an incremental backup is to be a full one: there is none yet, or the newest is too old.

    Runs of a schedule begin a little early or late: a twentieth of the time, or an hour, is not waited for.
    """
    fulls = [each for each in repository.sets if each.full] if repository else []
    if not fulls:
        return True
    return every is not None and now - fulls[-1].started >= every - min(every / 20, 3600)


def _prepare(engine: Engine, *, waits: bool) -> None:
    """Make the place ready. The archiver of a server that has just started has a Service of its own, which
    may lead to it a moment after that of the server.
    """
    until = time.monotonic() + (ARCHIVER_SECONDS if waits else 0.0)
    while True:
        try:
            return engine.prepare()
        except Failed as failed:
            if failed.reason != DATABASE_UNREACHABLE or time.monotonic() >= until:
                raise
        time.sleep(1)


def backup(request: Request) -> dict[str, Any]:
    """Ask the store, make the place ready and, unless it was asked for that alone, make a backup and let
    retention delete.
    """
    deadline = programs.Deadline(request.seconds)
    engine: Engine = PgBackRest(deadline)
    store.preflight(load_store(), engine, write=True)
    if request.wake:
        programs.progress("wake")
        waking.wake(request.wake, deadline.left())
    programs.progress("backup")
    _prepare(engine, waits=bool(request.wake))
    if request.prepares:
        return {"message": "the store is ready for backups and the log", "type": "none"}
    full = request.full or full_is_due(engine.info(), every=request.full_every, now=time.time())
    engine.backup(full=full, uid=request.uid)
    try:
        engine.expire()
        expired = True
    except Failed:
        expired = False
    repository = engine.info()
    if not repository.sets:
        raise Failed(
            ENGINE_FAILED, "the backup was made and is not there: see whether something deletes in the store"
        )
    made = repository.sets[-1]
    facts = {**backup_facts(made, repository), "expired": expired}
    if made.page_errors:
        raise Failed(
            CHECKSUM_FAILED,
            f"the backup {made.label} has pages with a wrong checksum: the server's volume is damaged; "
            "restore an older backup beside, and compare",
            facts=facts,
        )
    return {"message": f"the {facts['type']} backup {made.label} is stored", **facts}


def backup_facts(made: BackupSet, repository: Repository) -> dict[str, Any]:
    """What is said of a backup, and of what is kept with it."""
    fulls = [each for each in repository.sets if each.full]
    return {
        "type": "full" if made.full else "incremental",
        "label": made.label,
        "beginLSN": wal.text(made.begin_lsn),
        "endLSN": wal.text(made.end_lsn),
        "beginWal": made.begin_wal,
        "endWal": made.end_wal,
        "databaseBytes": made.database_bytes,
        "storedBytes": made.stored_bytes,
        "databaseErrors": made.page_errors,
        "first": rfc3339((fulls or [made])[0].stopped),
        "backups": len(repository.sets),
        "timeline": made.timeline,
        "systemIdentifier": repository.system_identifier,
    }


def verify(request: Request) -> dict[str, Any]:
    """Restore up to the target, or with all WAL and compare how far it came, and check what there is."""
    deadline, begun = programs.Deadline(request.seconds), time.monotonic()
    engine: Engine = PgBackRest(deadline)
    store.preflight(load_store(), engine, write=False)
    server = Server(recovery.PARTIAL, deadline)
    done: list[str] = []
    try:
        recovered = recovery.recover(
            engine, server, request, settings=THROWAWAY, database=EngineConfig.load(CONFIG).database
        )
        checking = time.monotonic()
        programs.progress("check")
        facts = recovery.facts(recovered)
        try:
            if request.amcheck != "Off":
                checks.amcheck(deadline, heap=request.amcheck == "Heap")
                done.append("amcheck")
            if request.queries:
                checks.queries(server, request.queries, seconds=request.query_seconds)
                done.append("queries")
            server.stop()
            checks.pages(recovery.PARTIAL, deadline)
            done.insert(0, "pages")
        except Failed as failed:
            raise Failed(failed.reason, failed.message, facts={**facts, "checks": done}) from None
    finally:
        server.kill()
    return {
        "message": f"the backup {recovered.chosen.label} was restored, up to {request.target or END_OF_WAL}, "
        "and checked",
        **facts,
        "archivedLSN": wal.text(recovered.archived.end),
        "checks": done,
        "seconds": recovery.seconds(recovered, begun, check=time.monotonic() - checking),
    }


def restore(request: Request) -> dict[str, Any]:
    """Beside, then renamed: under `PGDATA` there is never anything but a whole database."""
    if request.in_place:
        return in_place.restore(request, lambda: _recovered(request))
    digest = hashlib.sha256(repr((request.target, request.label, request.timeline)).encode()).hexdigest()
    if PGDATA.exists():
        return _done_before(digest)
    said = _recovered(request)
    timelines.hand_over(recovery.PARTIAL)
    write(RESULT, json.dumps({"request": digest, "said": said}))
    recovery.PARTIAL.rename(PGDATA)
    sync(recovery.VOLUME)
    return said


def _recovered(request: Request) -> dict[str, Any]:
    """Recover into `PARTIAL`, stop the server, and return what is said of it."""
    deadline, begun = programs.Deadline(request.seconds), time.monotonic()
    engine: Engine = PgBackRest(deadline)
    store.preflight(load_store(), engine, write=False)
    server = Server(recovery.PARTIAL, deadline)
    try:
        recovered = recovery.recover(
            engine,
            server,
            request,
            settings={},
            database=EngineConfig.load(CONFIG).database,
            before_download=in_place.check_space if request.in_place else None,
        )
        _set_password(server)
        server.stop()
    finally:
        server.kill()
    return {
        "message": f"the backup {recovered.chosen.label} was restored, up to {request.target or END_OF_WAL}",
        **recovery.facts(recovered),
        "systemIdentifier": recovered.reached.identifier,
        "timeline": recovered.reached.timeline,
        "seconds": recovery.seconds(recovered, begun),
    }


def delete(request: Request) -> dict[str, Any]:
    """Delete all that is stored of the database. Run again, it deletes what is left."""
    deadline, place = programs.Deadline(request.seconds), load_store()
    engine: Engine = PgBackRest(deadline)
    # A volume that is full is written to no more, and emptied all the same.
    store.preflight(place, engine, write=not isinstance(place, Folder))
    programs.progress("delete")
    engine.delete()
    if left := store.some_keys(place, engine):
        raise Failed(
            ENGINE_FAILED,
            f"something is left in the store ({left[0]}): see whether something writes there, and whether "
            "these keys may delete it",
        )
    return {"message": "nothing of the database is stored any more"}


def _done_before(digest: str) -> dict[str, Any]:
    """A run that was ended after its last step, and before its result was read."""
    with suppress(OSError, ValueError, KeyError):
        kept = json.loads(RESULT.read_text())
        if kept["request"] == digest:
            said: dict[str, Any] = kept["said"]
            return said
    raise Failed(INVALID_REQUEST, "the volume has a database already: restore into a new one")


def _set_password(server: Server) -> None:
    """That of the Postgresql which takes this over. The server gets a verifier, never the password."""
    if not SUPERUSER_PASSWORD.exists():
        return
    password = SUPERUSER_PASSWORD.read_bytes()
    with server.connect() as connection:
        verifier = connection.pgconn.encrypt_password(password, SUPERUSER.encode(), b"scram-sha-256").decode()
        connection.execute(
            sql.SQL("ALTER ROLE {} PASSWORD {}").format(sql.Identifier(SUPERUSER), sql.Literal(verifier))
        )


ACTIONS = {
    "backup": backup,
    "verify": verify,
    "restore": restore,
    "undo": in_place.undo,
    "load": load,
    "delete": delete,
}
