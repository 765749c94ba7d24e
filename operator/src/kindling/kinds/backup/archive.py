"""How far the server's archive is, by its own word: a question to the server every few seconds.

`kindling.prober.archive` carries it out. What may be lost with the volume is what was written since
the newest segment in the archive was full; how often an upload has failed says nothing of that.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kindling.kinds.base import Observed, Probe
from kindling.kinds.postgresql.login import SuperuserRequest
from kindling.kinds.postgresql.service import PORT
from kindling.kinds.postgresql.spec import SUPERUSER, pod_name
from kindling.kinds.server_tls import AUTHORITY
from kindling.kinds.service_template import host_of
from kindling.kinds.times import moment
from kindling.kube.resources import Object

MEMBER = "archive"
EVERY_SECONDS = 15
OLD_SECONDS = 60.0
"""An answer that is older says nothing any more."""

SETTINGS = (
    "max_connections",
    "max_locks_per_transaction",
    "max_prepared_transactions",
    "max_wal_senders",
    "max_worker_processes",
)
"""The parameters that a copy must not have less of, to replay the log."""

LSN = re.compile(r"[0-9A-F]{1,8}/[0-9A-F]{1,8}")
MOST = 2**63 - 1

BEHIND_SECONDS = 75.0
"""How old the newest moment in the archive may be before that is said; a minute is usual."""

ENDS_SECONDS = 60.0
"""After which a change is in the archive if no segment waits: `archiver.TIMEOUT_SECONDS`, and the upload."""


@dataclass(frozen=True, kw_only=True)
class ArchiveRequest(SuperuserRequest):
    """The facts of a result are under `archive`, as `Facts` reads them."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What the server says. `archived_until`: all that was written before is in the archive; None while
    nothing is. `waiting`: segments that are full and not in the archive. `settings`: of SETTINGS.
    """

    mode: str
    now: datetime
    archived_until: datetime | None
    waiting: int
    lsn: str
    timeline: int
    settings: Mapping[str, str]

    @property
    def behind_seconds(self) -> float | None:
        """How much of the newest changes is not in the archive. A server that nothing is written to archives
        nothing: PostgreSQL ends a segment after `archive_timeout` only if a change is in it.
        """
        if self.archived_until is None:
            return None
        since = max(0.0, (self.now - self.archived_until).total_seconds())
        return since if self.waiting else min(since, ENDS_SECONDS)

    @property
    def is_behind(self) -> bool:
        behind = self.behind_seconds
        return bool(self.waiting) and (behind is None or behind > BEHIND_SECONDS)


def probes(cr: Object, database: Object | None, observed: Observed) -> dict[str, Probe]:
    """None while there is nobody to ask. The request has the superuser's password: it is asked once for each
    time, and not kept.
    """
    if database is None:
        return {}
    meta = database["metadata"]
    password = observed.secret(namespace=meta["namespace"], name=superuser_secret(meta["name"])).get(
        "password"
    )
    ca = None
    if ((database.get("status") or {}).get("tls") or {}).get("active") is True:
        binding = observed.secret(namespace=meta["namespace"], name=binding_secret(meta["name"]))
        ca = binding.get(AUTHORITY) or None
        if ca is None:
            return {}
    if not password:
        return {}
    request = ArchiveRequest(
        namespace=meta["namespace"],
        host=host_of(database),
        port=PORT,
        pod=pod_name(database),
        user=SUPERUSER,
        password=password,
        ca=ca,
    )
    return {MEMBER: Probe(cache_key=_key(cr, database, observed.now), request=request, once=True)}


def superuser_secret(database: str) -> str:
    return f"{database}-superuser"


def binding_secret(database: str) -> str:
    """The Secret with the authorities that verify the server."""
    return f"{database}-binding"


def facts(cr: Object, database: Object | None, observed: Observed) -> Facts | None:
    """What the server said last; None where that is too long ago, or was no answer."""
    known = observed.results.get(MEMBER)
    if known is None or database is None or not known.result.ok:
        return None
    asked = known.cache_key
    if not isinstance(asked, tuple) or asked[:-1] != _key(cr, database, observed.now)[:-1]:
        return None
    if (observed.now - known.at).total_seconds() >= OLD_SECONDS:
        return None
    return read(known.result.facts.get("archive"))


def problem(observed: Observed) -> tuple[str, str] | None:
    """Reason and message of the last answer that was none."""
    known = observed.results.get(MEMBER)
    return None if known is None or known.result.ok else (known.result.reason, known.result.message)


def read(found: Any) -> Facts | None:
    """None for what is none: the server may say anything."""
    if not isinstance(found, Mapping):
        return None
    now, until = moment(found.get("now")), moment(found.get("archived_until"))
    mode, lsn, timeline, waiting = (found.get(name) for name in ("mode", "lsn", "timeline", "waiting"))
    if now is None or mode not in ("on", "off", "always") or not isinstance(lsn, str):
        return None
    if LSN.fullmatch(lsn) is None or not (_is_number(timeline) and _is_number(waiting)):
        return None
    given = found.get("settings")
    given = given if isinstance(given, Mapping) else {}
    settings = {name: str(given[name]) for name in SETTINGS if str(given.get(name, "")).isdecimal()}
    return Facts(
        mode=str(mode),
        now=now,
        archived_until=until,
        waiting=int(waiting or 0),
        lsn=lsn,
        timeline=int(timeline or 0),
        settings={name: value for name, value in settings.items() if len(value) <= 10},
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST


def _key(cr: Object, database: Object, now: datetime) -> tuple[Hashable, ...]:
    turn = int(now.timestamp()) // EVERY_SECONDS
    return cr["metadata"]["uid"], database["metadata"]["name"], database["metadata"].get("uid"), turn
