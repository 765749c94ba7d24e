"""A running server's parameters: seen, put into force by ALTER SYSTEM and a reload, or all left as they were.

Desired is what the spec says and what follows by default, observed is the server's own
postgresql.auto.conf; what is in there and not desired is taken out again, by whose hand it came. Which
parameters need a restart, and what a value may be, PostgreSQL says. For a default nothing is restarted.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping

import psycopg

from kindling.kinds.postgresql import defaults, parameters
from kindling.kinds.postgresql.initdb import REFUSED
from kindling.prober.sessions import Session, execute, fetch, fetchval, hint, identifier, literal, summary

DISK_FULL = "53100"
"""The SQLSTATE of a full disk."""
RELOAD_SECONDS = 5.0
LONGEST = 1000

_SET = """SELECT lower(name), setting FROM pg_file_settings
    WHERE sourcefile LIKE '%/postgresql.auto.conf' ORDER BY seqno"""
_LOADED = "SELECT pg_conf_load_time()::text"
_AT_START = "SELECT lower(name) FROM pg_settings WHERE context = 'postmaster'"
_PENDING = "SELECT name FROM pg_settings WHERE pending_restart ORDER BY name"
# Set, but the server did not reload: we were cut off in between.
_RELOAD_PENDING = "SELECT (pg_stat_file('postgresql.auto.conf')).modification > pg_conf_load_time()"


class InvalidParameters(Exception):
    """The server will not have them; nothing was changed. Its text is for the user."""


def difference(
    session: Session, wanted: Mapping[str, str], derived: Mapping[str, str]
) -> dict[str, str | None]:
    """What is to be set, and what to be taken out (None), for the server to have just these.

    `wanted` says the spec, `derived` follows by default (`kinds.postgresql.defaults`) and holds nothing of
    `wanted`. What of it only a start takes up is left to the next one, or as it is if that has been.
    """
    present = _current(session)
    now = {
        name: value
        for name, value in derived.items()
        if name not in defaults.AT_START or present.get(name) == value
    }
    desired = {**now, **wanted}
    changes: dict[str, str | None] = {name: None for name in present if name not in desired}
    for name, value in desired.items():
        if name not in present or not _same(name, value, present[name]):
            changes[name] = value
    return changes


def costs(session: Session, names: Iterable[str]) -> dict[str, bool]:
    """Whether each of them needs a restart, as the server says; one that it does not know needs none."""
    at_start = {str(row[0]) for row in fetch(session, _AT_START)}
    return {name: name in at_start for name in names}


def pending(session: Session) -> list[str]:
    """The parameters whose values in the file wait for a restart."""
    return [str(row[0]) for row in fetch(session, _PENDING)]


def sync(session: Session, wanted: Mapping[str, str], derived: Mapping[str, str]) -> list[str]:
    """Make it so, and say what needs a restart: then nothing was changed, for all of them come with it.

    :raises Invalid: when the server refuses one of them, or did not start with them.
    """
    changes = difference(session, wanted, derived)
    if changes:
        present = _current(session)
        _load(session, changes)
        _set(session, changes, present, derived=derived)
        try:
            # After each by itself: a name that there is not is what is wrong, and is said.
            check_rejected(session, wanted, derived)
        except InvalidParameters:
            _set(session, {name: present.get(name) for name in changes}, {})
            raise
    if changes or fetchval(session, _RELOAD_PENDING):
        reload(session)
    waiting = pending(session)
    if waiting and changes:
        # Each value is right by itself; whether a server starts with all of them is tried at the start.
        _set(session, {name: present.get(name) for name in changes}, {})
        reload(session)
    return waiting


def _current(session: Session) -> dict[str, str]:
    return {row[0]: row[1] for row in fetch(session, _SET)}


def _same(name: str, value: str, other: str) -> bool:
    return parameters.elements(name, value) == parameters.elements(name, other)


def check_rejected(session: Session, wanted: Mapping[str, str], derived: Mapping[str, str]) -> None:
    """:raises InvalidParameters: where a start with just these was tried in vain."""
    refused = fetchval(session, "SELECT pg_read_file(%s, 0, 1000000, true)", REFUSED)
    # Without the defaults, too: so were they written before there were any.
    known = [_settings(parameters.conf(values)) for values in ({**derived, **wanted}, wanted)]
    if refused is not None and _settings(str(refused)) in known:
        raise InvalidParameters(
            "PostgreSQL does not start with spec.parameters as they are together, "
            "though it takes each by itself"
        )


def _settings(conf: str) -> list[str]:
    return [line for line in conf.splitlines() if not line.startswith("#")]


def _load(session: Session, changes: Mapping[str, str | None]) -> None:
    """Every library that a session or the server would load: a missing one keeps everybody out."""
    for name in parameters.LIBRARIES:
        value = changes.get(name)
        for library in parameters.elements(name, value) or () if value is not None else ():
            try:
                execute(session, f"LOAD {literal(library)}")
            except psycopg.Error as error:
                if error.sqlstate is None:
                    raise
                # Some only work when the server loads them at its start, and say so.
                if "preload" not in f"{summary(error)} {hint(error)}":
                    raise _invalid_parameters(name, str(value), error) from error


def _set(
    session: Session,
    changes: Mapping[str, str | None],
    previous: Mapping[str, str | None],
    *,
    derived: Collection[str] = (),
) -> None:
    """All of the changes, or none."""
    done: list[str] = []
    for name, value in changes.items():
        try:
            execute(session, _statement(name, value))
        except psycopg.Error as error:
            if error.sqlstate is None:  # the connection broke, which says nothing of the value
                raise
            for other in reversed(done):
                execute(session, _statement(other, previous.get(other)))
            if error.sqlstate == DISK_FULL:
                raise
            raise _invalid_parameters(name, value, error, derived=derived) from error
        done.append(name)


def _statement(name: str, value: str | None) -> str:
    which = ".".join(identifier(part) for part in name.split("."))
    if value is None:
        return f"ALTER SYSTEM RESET {which}"
    parts = parameters.elements(name, value) or ("",)
    return f"ALTER SYSTEM SET {which} = {', '.join(map(literal, parts))}"


def _invalid_parameters(
    name: str, value: str | None, error: psycopg.Error, *, derived: Collection[str] = ()
) -> InvalidParameters:
    advice = f" ({hint(error).rstrip('.')})" if hint(error) else ""
    what = f"spec.parameters.{name}" + (f" {value!r}" if value is not None else " cannot be removed")
    if value is not None and name in derived:
        what = f"{name} {value!r}, which follows from {defaults.FROM[name]} until spec.parameters has it"
    return InvalidParameters(f"{what}: {summary(error)}{advice}"[:LONGEST])


def reload(session: Session) -> None:
    """Have the files read again, and wait until this session has seen it.

    :raises psycopg.OperationalError: when that does not come.
    """
    deadline = time.monotonic() + RELOAD_SECONDS
    before = fetchval(session, _LOADED)
    execute(session, "SELECT pg_reload_conf()")
    while fetchval(session, _LOADED) == before:
        if time.monotonic() > deadline:
            raise psycopg.OperationalError("the server does not read its files again")
        time.sleep(0.02)
