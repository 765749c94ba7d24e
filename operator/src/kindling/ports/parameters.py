"""A running server's parameters: seen, put into force by ALTER SYSTEM and a reload, or all left as they were.

Desired is what the spec says, observed is the server's own postgresql.auto.conf; what is in there and
not desired is taken out again, by whose hand it came. Which parameters need a restart, and what a
value may be, PostgreSQL says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import asyncpg

from kindling.kinds.postgresql import parameters
from kindling.kinds.postgresql.initdb import REFUSED
from kindling.ports.sessions import Session, identifier, literal, told

RELOAD_SECONDS = 5.0
LONGEST = 1000

_SET = """SELECT lower(name), setting FROM pg_file_settings
    WHERE sourcefile LIKE '%/postgresql.auto.conf' ORDER BY seqno"""
_PENDING = "SELECT name FROM pg_settings WHERE pending_restart ORDER BY name"
# Set, but the server was not told: we were cut off in between.
_UNTOLD = "SELECT (pg_stat_file('postgresql.auto.conf')).modification > pg_conf_load_time()"


class Invalid(Exception):
    """The server will not have them; nothing was changed. Its text is for the user."""


async def difference(session: Session, wanted: Mapping[str, str]) -> dict[str, str | None]:
    """What is to be set, and what to be taken out (None), for the server to have just these."""
    present = await _present(session)
    changes: dict[str, str | None] = {name: None for name in present if name not in wanted}
    for name, value in wanted.items():
        if name not in present or not _same(name, value, present[name]):
            changes[name] = value
    return changes


async def pending(session: Session) -> list[str]:
    """The parameters whose values in the file wait for a restart."""
    return [str(row[0]) for row in await session.fetch(_PENDING)]


async def bring(session: Session, wanted: Mapping[str, str]) -> list[str]:
    """Make it so, and say what needs a restart: then nothing was changed, for all of them come with it.

    :raises Invalid: when the server refuses one of them, or did not start with them.
    """
    changes = await difference(session, wanted)
    if changes:
        await _not_refused(session, wanted)
        present = await _present(session)
        await _load(session, changes)
        await _set(session, changes, present)
    if changes or await session.fetchval(_UNTOLD):
        await _reload(session)
    waiting = await pending(session)
    if waiting and changes:
        # Each value is right by itself; whether a server starts with all of them is tried at the start.
        await _set(session, {name: present.get(name) for name in changes}, {})
        await _reload(session)
    return waiting


async def _present(session: Session) -> dict[str, str]:
    return {row[0]: row[1] for row in await session.fetch(_SET)}


def _same(name: str, value: str, other: str) -> bool:
    return parameters.elements(name, value) == parameters.elements(name, other)


async def _not_refused(session: Session, wanted: Mapping[str, str]) -> None:
    refused = await session.fetchval("SELECT pg_read_file($1, 0, 1000000, true)", REFUSED)
    if refused == parameters.conf(wanted):
        raise Invalid("PostgreSQL does not start with spec.parameters as they are together")


async def _load(session: Session, changes: Mapping[str, str | None]) -> None:
    """Every library that a session or the server would load: a missing one keeps everybody out."""
    for name in parameters.LIBRARIES:
        value = changes.get(name)
        for library in parameters.elements(name, value) or () if value is not None else ():
            try:
                await session.execute(f"LOAD {literal(library)}")
            except asyncpg.PostgresError as error:
                # Some only work when the server loads them at its start, and say so.
                if "preload" not in f"{error} {error.hint or ''}":
                    raise _invalid(name, str(value), error) from error


async def _set(
    session: Session, changes: Mapping[str, str | None], previous: Mapping[str, str | None]
) -> None:
    """All of the changes, or none."""
    done: list[str] = []
    for name, value in changes.items():
        try:
            await session.execute(_statement(name, value))
        except asyncpg.PostgresError as error:
            for other in reversed(done):
                await session.execute(_statement(other, previous.get(other)))
            raise _invalid(name, value, error) from error
        done.append(name)


def _statement(name: str, value: str | None) -> str:
    which = ".".join(identifier(part) for part in name.split("."))
    if value is None:
        return f"ALTER SYSTEM RESET {which}"
    parts = parameters.elements(name, value) or ("",)
    return f"ALTER SYSTEM SET {which} = {', '.join(map(literal, parts))}"


def _invalid(name: str, value: str | None, error: asyncpg.PostgresError) -> Invalid:
    hint = f" ({error.hint.rstrip('.')})" if error.hint else ""
    what = f"spec.parameters.{name}" + (f" {value!r}" if value is not None else " can not be taken out")
    return Invalid(f"{what}: {told(error)}{hint}"[:LONGEST])


async def _reload(session: Session) -> None:
    """Have the files read again, and wait until this session has seen it.

    :raises TimeoutError: when that does not come.
    """
    before = await session.fetchval("SELECT pg_conf_load_time()")
    await session.execute("SELECT pg_reload_conf()")
    async with asyncio.timeout(RELOAD_SECONDS):
        while await session.fetchval("SELECT pg_conf_load_time()") == before:
            await asyncio.sleep(0.02)
