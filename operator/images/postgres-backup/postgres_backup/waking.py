"""Starting a database that is stopped until somebody connects, before it is backed up."""

from __future__ import annotations

from contextlib import suppress

import psycopg

from postgres_backup.request import SUPERUSER

SECONDS = 300
"""How long the connection waits: as long as what takes it lets it wait."""


def wake(host: str, deadline_seconds: float, *, port: int = 5432) -> None:
    """Connect, and wait until the server itself answers. That it asks for a password is an answer: a run has
    none. Why there is no answer, the engine finds out by itself.
    """
    with suppress(psycopg.OperationalError):
        psycopg.connect(
            host=host,
            port=port,
            user=SUPERUSER,
            dbname="template1",
            application_name="kindling",
            connect_timeout=max(1, int(min(SECONDS, deadline_seconds))),
            passfile="/dev/null",
        ).close()
