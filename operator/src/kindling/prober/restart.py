"""A server that is restarted within its Pod for its parameters: it writes the request itself, for the program
beside it (`postgres-init serve`), which ends it and starts it again.
"""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

import psycopg

from kindling.kinds.postgresql.parameters import conf
from kindling.kinds.postgresql.serve import FILE
from kindling.prober import parameters
from kindling.prober.sessions import LoginRejected, Session, execute, fetchval, literal

SECONDS = 40.0
"""How long the outcome is waited for: with the login before it, less than a job has."""
ASK_SECONDS, LOGIN_SECONDS = 0.1, 0.25

_LOCK = "SELECT pg_read_file('postmaster.pid')"
_SOCKETS = "SELECT current_setting('unix_socket_directories')"


def restart(
    session: Session,
    renewed: Callable[[], AbstractContextManager[Session]],
    wanted: Mapping[str, str],
    derived: Mapping[str, str],
) -> bool:
    """Ask for it, and wait until another server answers to a session of `renewed`; False if none has yet.

    Repeated, it does nothing more: the request names the server that it ends.

    :raises InvalidParameters: where it would not start with them, or has not; then it runs as before.
    """
    before = _server(session)
    request = f"{' '.join(before)} {b64encode(conf({**derived, **wanted}).encode()).decode()}"
    path = f"{fetchval(session, _SOCKETS)}/{FILE}"
    execute(session, f"COPY (SELECT {literal(request)}) TO {literal(path)}")
    deadline = time.monotonic() + SECONDS
    try:
        while time.monotonic() < deadline:
            parameters.check_rejected(session, wanted, derived)
            time.sleep(ASK_SECONDS)
        return False
    except psycopg.OperationalError:
        pass  # it ends
    while time.monotonic() < deadline:
        try:
            with renewed() as connection:
                return _server(connection) != before
        except (LoginRejected, OSError, psycopg.OperationalError):
            time.sleep(LOGIN_SECONDS)
    return False


def _server(session: Session) -> tuple[str, str]:
    """Which process it is, and the second of its start."""
    lines = str(fetchval(session, _LOCK)).split("\n")
    return lines[0].strip(), lines[2].strip()
