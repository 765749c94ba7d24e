"""What a PostgreSQL server's data takes: one login, one question, with no more rights than it needs."""

from __future__ import annotations

from kindling.kinds import reasons
from kindling.kinds.base import ExternalResult
from kindling.kinds.postgresql.usage import CRASHED, MOST, USED, UsageRequest
from kindling.prober.sessions import (
    FAILURES,
    Address,
    UnsafeAuthentication,
    UntrustedCertificate,
    execute,
    fetchval,
)
from kindling.prober.superuser import superuser

STATEMENT_MILLISECONDS = 4000
"""Less than the worker has, so that the server does not go on for nobody."""
# pg_database_size of others' databases takes pg_read_all_stats, and the two lists of files EXECUTE, which
# pg_monitor has: the role is left for that one, and what is asked can change nothing.
ROLE = "pg_monitor"
QUERY = """
SELECT (SELECT coalesce(sum(pg_database_size(oid)), 0) FROM pg_database)
     + coalesce(pg_tablespace_size('pg_global'), 0)
     + (SELECT coalesce(sum(size), 0) FROM pg_ls_waldir())
     + (SELECT coalesce(sum(size), 0) FROM pg_ls_tmpdir())
"""
# Where a process fails, the server ends the others and starts them again, and goes on itself. Before
# PostgreSQL 15 this one is also started late where a log is replayed, which says nothing.
CRASH = """
SELECT coalesce((SELECT to_char(backend_start AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
    FROM pg_stat_activity WHERE backend_type = 'checkpointer'
    AND backend_start > pg_postmaster_start_time() + interval '5 s'
    AND current_setting('server_version_num')::integer >= 150000), '')
"""


def ask(address: Address, request: UsageRequest) -> ExternalResult:
    """Never raises for what a server may answer; what is no figure is no answer."""
    try:
        with superuser(address, request) as connection:
            execute(
                connection,
                f"SET statement_timeout = {STATEMENT_MILLISECONDS}; SET lock_timeout = 1000; "
                f"SET default_transaction_read_only = on; SET ROLE {ROLE}",
            )
            used, crashed = int(fetchval(connection, QUERY)), str(fetchval(connection, CRASH))
    except (UnsafeAuthentication, UntrustedCertificate, TimeoutError, ArithmeticError, *FAILURES) as error:
        return ExternalResult(ok=False, reason=reasons.NOT_RESPONDING, message=type(error).__name__)
    if not 0 <= used <= MOST:
        return ExternalResult(ok=False, reason=reasons.NOT_RESPONDING, message="an odd answer")
    return ExternalResult(ok=True, facts={USED: used, CRASHED: crashed})
