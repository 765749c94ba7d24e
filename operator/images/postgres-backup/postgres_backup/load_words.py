"""What PostgreSQL and its programs say while databases are loaded, put into words of ours.

Raw it goes no further: an error can have rows in it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from postgres_backup.outcome import DATABASE_UNREACHABLE, LOAD_FAILED, RESTORE_FAILED, ROLE_NOT_FOUND, Failed

_GONE = (
    "server closed the connection",
    "connection to server",
    "could not receive data from server",
    "could not send data to server",
    "terminating connection",
    "database system is",
    "no connection to the server",
)
_ACCESS = ("password authentication failed", "no pg_hba.conf entry", "pg_hba.conf rejects")
_CLASSES_OF_CONNECTIONS = ("08", "28", "57P")
"""Of SQLSTATE: connections, logins, a server that stops."""
_EXTENSION = re.compile(r'extension "([A-Za-z0-9_.-]{1,63})" is not available')
_ROLE = re.compile(r'role "([A-Za-z0-9_.-]{1,63})" does not exist')
_ENDED_EARLY = ("unexpected end of file", "could not read from input file", "input file is too short")
"""Of a dump that ended before its end."""
_ERROR = re.compile(r"^.*\berror: .*$", re.MULTILINE)


def of_destination(state: str | None, said: str) -> tuple[str, str]:
    """Of a question to the Postgresql that is loaded into, by its SQLSTATE; None: there is no connection."""
    if state is None or state.startswith(_CLASSES_OF_CONNECTIONS):
        if "certificate" in said.lower():
            return (
                DATABASE_UNREACHABLE,
                "the Postgresql did not prove who it is by its certificate: wait until it is Ready; the next "
                "run tries again",
            )
        if (state or "").startswith("28") or any(each in said for each in _ACCESS):
            return (
                DATABASE_UNREACHABLE,
                "the Postgresql does not let the superuser in: wait until it is Ready; the next run tries "
                "again",
            )
        return _UNREACHABLE
    if state == "53100":
        return _FULL
    return LOAD_FAILED, f"the Postgresql refused it with SQLSTATE {state}: {_NOTHING}"


def of_load(dump: str | None, load: str | None) -> tuple[str, str]:
    """By what pg_dump and pg_restore wrote of their errors; None for one that succeeded."""
    first = first_error(load or "")
    if load is not None and (dump is None or not any(each in first for each in _ENDED_EARLY)):
        if found := _EXTENSION.search(first):
            return (
                LOAD_FAILED,
                f"the image of the Postgresql does not have the extension {found[1]}: {_NOTHING}; use one "
                "that has it",
            )
        if found := _ROLE.search(first):
            return ROLE_NOT_FOUND, _no_role([found[1]])
        if "No space left on device" in first:
            return _FULL
        if any(each in first for each in _GONE):
            return _UNREACHABLE
        return LOAD_FAILED, f"pg_restore failed: see the Pod's log; {_NOTHING}"
    return RESTORE_FAILED, "the restored server could not be dumped: see the Pod's log"


def first_error(said: str) -> str:
    """The line of a program's first error, without details: they may be rows."""
    found = _ERROR.search(said)
    return found[0] if found else "ended without an error"


def check_roles(missing: Sequence[str]) -> None:
    """:raises Failed: where there are any."""
    if missing:
        raise Failed(ROLE_NOT_FOUND, _no_role(missing))


def _no_role(names: Sequence[str]) -> str:
    some = ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
    return (
        f"the Postgresql does not have the roles that own something or have privileges there: {some}. "
        f"{_NOTHING.capitalize()}; make them (spec.roles), then create another Restore"
    )


_NOTHING = "nothing was loaded"
_UNREACHABLE = (
    DATABASE_UNREACHABLE,
    "the Postgresql does not answer, or stopped meanwhile: wait until it is Ready; the next run tries again",
)
_FULL = (
    LOAD_FAILED,
    f"the volume of the Postgresql is full: {_NOTHING}; raise its spec.storage.size, then create another "
    "Restore",
)
