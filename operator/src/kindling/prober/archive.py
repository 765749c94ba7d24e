"""How far a PostgreSQL server's archive is: one login of the superuser.

Where PostgreSQL would end the segment that is written to minutes late, it is woken.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import psycopg

from kindling.kinds import reasons
from kindling.kinds.backup.archive import SETTINGS, ArchiveRequest
from kindling.kinds.base import ExternalResult
from kindling.prober.sessions import (
    CONNECT_SECONDS,
    FAILURES,
    Address,
    LoginRejected,
    UnsafeAuthentication,
    UntrustedCertificate,
    fetch,
    summary,
)
from kindling.prober.superuser import superuser

# A segment's status file keeps the time at which the segment was full, when `.ready` becomes `.done`. Of a
# segment that is gone by now, its upload was at the latest when the server says.
_STATE = """
WITH status AS (SELECT name, modification FROM pg_ls_archive_statusdir()),
     ready AS (SELECT min(modification) AS oldest, count(*) AS waiting FROM status WHERE name LIKE '%.ready'),
     archiver AS (SELECT last_archived_wal AS wal, last_archived_time AS at FROM pg_stat_archiver)
SELECT current_setting('archive_mode'), clock_timestamp(), pg_current_wal_lsn()::text,
       (SELECT timeline_id FROM pg_control_checkpoint()),
       (SELECT waiting FROM ready),
       CASE WHEN (SELECT at FROM archiver) IS NULL THEN NULL ELSE least(
           (SELECT at FROM archiver),
           (SELECT modification FROM status, archiver WHERE name = left(wal, 24) || '.done'),
           (SELECT oldest FROM ready)
       ) END
"""
# From PostgreSQL 15 on, the process that ends a segment after `archive_timeout` starts before recovery is
# over, and sleeps until the next checkpoint is due, for minutes. So it is after each start, and after each
# crash of a session. The signal to read the configuration ends that sleep.
_AWAKE = """
SELECT pg_reload_conf() FROM pg_stat_activity
WHERE backend_type = 'checkpointer' AND backend_start >= pg_conf_load_time()
"""
_SETTINGS = "SELECT name, setting FROM pg_settings WHERE name = ANY(string_to_array(%s, ','))"


def ask(address: Address, request: ArchiveRequest) -> ExternalResult:
    """Never raises for what a server may answer."""
    try:
        with superuser(address, request) as connection:
            ((mode, now, lsn, timeline, waiting, until),) = fetch(connection, _STATE)
            settings = dict(fetch(connection, _SETTINGS, ",".join(SETTINGS)))
            if mode != "off":
                fetch(connection, _AWAKE)
    except UnsafeAuthentication:
        return _failed(request, "it requested another authentication than SCRAM-SHA-256")
    except UntrustedCertificate as error:
        why = f"it does not prove to be this server ({error})"
        return _failed(request, why, reason=reasons.CERTIFICATE_REJECTED)
    except TimeoutError:
        return _failed(request, f"no answer within {CONNECT_SECONDS:g} s", reason=reasons.NOT_RESPONDING)
    except FAILURES as error:
        said = (
            summary(error) if isinstance(error, (psycopg.Error, LoginRejected, OSError)) else "an odd answer"
        )
        return _failed(request, said)
    facts = {
        "mode": mode,
        "now": _text(now),
        "lsn": lsn,
        "timeline": timeline,
        "waiting": waiting,
        "archived_until": _text(until),
        "settings": settings,
    }
    return ExternalResult(ok=True, facts={"archive": facts})


def _text(moment: Any) -> str | None:
    return moment.isoformat() if isinstance(moment, datetime) else None


def _failed(request: ArchiveRequest, why: str, *, reason: str = reasons.LOGIN_FAILED) -> ExternalResult:
    return ExternalResult(
        ok=False,
        reason=reason,
        message=f"The server at {request.host}:{request.port} does not say how far its archive is: {why}. It "
        f"is asked again; see `kubectl describe pod {request.pod} -n {request.namespace}`.",
    )
