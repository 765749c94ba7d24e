"""Whether anybody but the operator has used a server lately, from what its health checks count.

A look at the sessions that are open, every few seconds, does not see one that opens and closes in between.
The server counts them all (`pg_stat_database.sessions`), the operator's own among them; so those are counted
here too, and what is more was of others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import orjson
from psycopg.errors import UndefinedColumn

from kindling.kinds.base import ExternalResult
from kindling.kinds.conditions import rfc3339
from kindling.kinds.postgresql import roles
from kindling.kinds.postgresql.idle import FACT, QUIET_SECONDS
from kindling.kinds.postgresql.login import Login
from kindling.kinds.postgresql.postgres_exporter import DATABASE
from kindling.prober.jobs import Job
from kindling.prober.sessions import APPLICATION, TEMPLATE, Session, fetch

COUNTED = "opened"
"""Of a worker's answer, beside the result: how many sessions it has had in databases of users."""
LOOKED = "looked"
"""A fact of a worker's health check, which goes no further: how many others are connected, and how many
sessions there have ever been in databases of users, its own included.
"""
MOST = 2**63
MOST_SERVERS = 4096
"""Those that are remembered; the one that was asked longest ago is forgotten, and counts as used."""
_LOOK = """
SELECT (SELECT count(*) FROM pg_stat_replication)
     + (SELECT count(*) FROM pg_stat_activity
        WHERE datname IS NOT NULL AND usesysid IS NOT NULL AND pid <> pg_backend_pid()
          AND NOT (usename = %s AND application_name = %s) AND usename <> %s),
       (SELECT sum(sessions) FROM pg_stat_database WHERE datname NOT IN (%s, %s))
"""


def look(connection: Session, login: Login) -> list[int]:
    """LOOKED, of a session that has run a statement, so that the server has counted it; empty before
    PostgreSQL 14, which counts none.
    """
    # The exporter is in the database postgres, which is not asked about where no user has it.
    shared = TEMPLATE if login.database == DATABASE else DATABASE
    try:
        [row] = fetch(connection, _LOOK, login.superuser, APPLICATION, roles.EXPORTER, TEMPLATE, shared)
    except UndefinedColumn:
        return []
    return [int(number) for number in row]


@dataclass(frozen=True, kw_only=True)
class _Server:
    """How many sessions it had counted, how many of ours have come since, and when it was last used."""

    sessions: int
    ours: int
    used: float


class ActivityLog:
    """By namespace and name of the server; it forgets with the process, after which all count as used."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._servers: dict[tuple[str, str], _Server] = {}

    def note(self, job: Job, line: bytes, result: ExternalResult | None) -> ExternalResult | None:
        """The result; of a health check that is to look, with since when the server has not been used."""
        known = self._servers.get(job.server)
        if not (isinstance(job.request, Login) and job.request.check and job.request.looks):
            if known is not None:  # Of most servers nobody wants to know, and no line is read twice.
                self._add(
                    job, known, _beside(line).get(COUNTED) if result is not None and result.ok else None
                )
            return result
        found = _looked(_beside(line)) if result is not None and result.ok else None
        self._servers.pop(job.server, None)
        if result is None:
            return None
        if found is None:  # A server that takes no more sessions, say.
            return replace(result, facts={**result.facts, FACT: ""})
        now = self._clock()
        connected, sessions = found
        # Fewer than before, this one included: the server counts from zero again, and nobody knows from when.
        others = connected > 0 or known is None or not 1 <= sessions - known.sessions <= known.ours + 1
        used = now if others or known is None else known.used
        while len(self._servers) >= MOST_SERVERS:
            self._servers.pop(next(iter(self._servers)))
        self._servers[job.server] = _Server(sessions=sessions, ours=0, used=used)
        since = rfc3339(datetime.fromtimestamp(used, UTC)) if now - used >= QUIET_SECONDS else ""
        return replace(result, facts={**result.facts, FACT: since})

    def _add(self, job: Job, known: _Server, count: Any) -> None:
        """What other questions had the server count; forgotten where it is not known how many that were."""
        if type(count) is int and 0 <= count < MOST:
            self._servers[job.server] = replace(known, ours=known.ours + count)
        else:
            del self._servers[job.server]


def _beside(line: bytes) -> Mapping[str, Any]:
    try:
        found: Any = orjson.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _looked(answer: Mapping[str, Any]) -> tuple[int, int] | None:
    facts = answer.get("facts")
    found = facts.get(LOOKED) if isinstance(facts, dict) else None
    if not isinstance(found, list) or len(found) != 2:
        return None
    good = all(type(number) is int and 0 <= number < MOST for number in found)
    return (found[0], found[1]) if good else None
