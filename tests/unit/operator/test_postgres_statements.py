"""Slow queries by pg_stat_statements, with what a spec has for it: parameters, an extension, a role."""

from __future__ import annotations

from typing import Any

from tests.unit.operator.conftest import Files
from tests.unit.operator.test_postgres_objects import PASSWORD, apply, database, role
from tests.unit.operator.test_postgres_port import as_superuser, login, sql, sync

PARAMETERS = {
    "shared_preload_libraries": "pg_stat_statements",
    "track_io_timing": "on",
    "pg_stat_statements.track": "all",
}
SLOWEST = """SELECT query FROM pg_stat_statements s JOIN pg_roles r ON r.oid = s.userid
    WHERE rolname = 'ada' AND calls > 0 AND total_exec_time > 0 AND query LIKE '%generate_series%'"""


def test_a_role_of_the_spec_reads_what_all_have_executed_and_no_password(files: Files) -> None:
    files.configure(PARAMETERS)
    with files.running():
        assert sync(login(files, parameters=PARAMETERS)).ok
        made = apply(
            files,
            roles=(role("ops", member_of=["pg_read_all_stats"]),),
            databases=(database("ada", extensions=[{"name": "pg_stat_statements"}]),),
        )
        assert made.ok, made
        ada: dict[str, Any] = {"user": "ada", "password": "lovelace-1815", "database": "ada"}
        ops: dict[str, Any] = {"user": "ops", "password": PASSWORD, "database": "ada"}
        sql(files, "SELECT count(*) FROM generate_series(1, 1000)", **ada)
        assert sql(files, SLOWEST, **ops) == "SELECT count(*) FROM generate_series($1, $2)"
        # What others have executed is hidden from those who are no member.
        others = "SELECT count(*) FROM pg_stat_statements WHERE query = '<insufficient privilege>'"
        assert sql(files, others, **ada) > 0
        # The operator's own statements have verifiers of passwords in them, and are not counted.
        assert sync(login(files, parameters=PARAMETERS, password="second")).ok
        own = (
            "SELECT count(*) FROM pg_stat_statements WHERE query ILIKE '%SCRAM%' OR query ILIKE '%PASSWORD%'"
        )
        assert sql(files, own, **ops) == 0
        assert as_superuser(files, "SELECT rolpassword LIKE 'SCRAM%' FROM pg_authid WHERE rolname = 'ops'")
