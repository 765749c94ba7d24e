"""spec.initSQL on a real PostgreSQL: once, all or nothing, by the owner, and named where it fails."""

from __future__ import annotations

import re
from typing import Any

import pytest
from kindling.kinds.base import ExternalResult
from kindling.kinds.postgresql import hba
from kindling.kinds.postgresql.init_sql import FACT, TEMPORARY
from kindling.prober import init_sql, jobs, postgres

from tests.unit.operator.conftest import Files
from tests.unit.operator.test_postgres_port import as_superuser, login, sql

WHERE = "spec.initSQL[0] (ConfigMap 'first', key 'a.sql')"
SCHEMA = """\
CREATE TABLE orders (id integer PRIMARY KEY, note text);
INSERT INTO orders VALUES (1, 'é;''$$');
DO $do$ BEGIN INSERT INTO orders VALUES (2, current_user); END $do$;
"""
DATABASES = "SELECT count(*) FROM pg_database WHERE datname = 'ada' OR datname LIKE 'kindling%'"


def ask(server: Files, *scripts: str, secret: bool = False, **changes: Any) -> ExternalResult:
    given = tuple((WHERE.replace("[0]", f"[{n}]"), text, secret) for n, text in enumerate(scripts))
    job = jobs.Job(request=login(server, init_sql=given, **changes), host="127.0.0.1", port=server.port)
    request = jobs.job(job.line()).request  # as the prober gets it
    answer = postgres.sync(("127.0.0.1", server.port), request)  # type: ignore[arg-type]
    assert jobs.read(jobs.written(answer)) == answer
    return answer


def in_database(server: Files, query: str) -> Any:
    return sql(server, query, user="ada", password="lovelace-1815", database="ada")


def test_it_is_run_once_by_the_owner_in_order(server: Files) -> None:
    answer = ask(server, SCHEMA, "ALTER TABLE orders ADD COLUMN extra integer DEFAULT 7; SELECT 1")
    assert answer.ok, answer
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", answer.facts[FACT])
    owner = "SELECT tableowner || ' ' || schemaname FROM pg_tables WHERE tablename = 'orders'"
    assert in_database(server, owner) == "ada public"
    assert in_database(server, "SELECT string_agg(note, ' ' ORDER BY id) FROM orders") == "é;'$$ ada"
    in_database(server, "INSERT INTO orders VALUES (3, 'kept')")
    # Asked again, with other SQL, it is as it was; what is missing by then does not matter.
    again = ask(server, "DROP TABLE orders")
    assert (again.ok, again.facts[FACT]) == (True, answer.facts[FACT])
    assert ask(server, init_problem="gone").facts[FACT] == answer.facts[FACT]
    assert in_database(server, "SELECT count(*) FROM orders") == 3
    assert as_superuser(server, DATABASES) == 1


def test_of_a_plan_nothing_is_run_and_nothing_is_said(server: Files) -> None:
    answer = ask(server, SCHEMA, provision=False, paused_by="spec.mode")
    assert (answer.ok, answer.reason, FACT in answer.facts) == (False, "Paused", False), answer
    assert as_superuser(server, DATABASES) == 0


def test_a_database_that_was_there_is_left_as_it_is(server: Files) -> None:
    assert postgres.sync(("127.0.0.1", server.port), login(server)).ok
    answer = ask(server, SCHEMA)
    assert (answer.ok, answer.facts[FACT]) == (True, "")
    assert in_database(server, "SELECT to_regclass('orders')") is None


FAILING: list[tuple[tuple[str, ...], list[str]]] = [
    ((SCHEMA, "\n\nSELECT é FROM orders"), [WHERE.replace("[0]", "[1]"), "line 3", 'column "é"', "42703"]),
    ((SCHEMA + "INSERT INTO orders VALUES (1)",), [WHERE, "statement 4", "duplicate key", "23505"]),
    (("SELECT 1;\nCREATE TABL x ()",), [WHERE, "line 2", "syntax error", "42601"]),
    (("CREATE ROLE other",), ["statement 1", "permission denied", "42501"]),
    (("SELECT pg_read_file('/etc/passwd')",), ["permission denied", "42501"]),
    (("RESET SESSION AUTHORIZATION; ALTER ROLE ada SUPERUSER",), ["statement 2", "42501"]),
    ((SCHEMA + "COMMIT",), ["ends the transaction", "leave out COMMIT and ROLLBACK"]),
    ((SCHEMA + "COPY orders FROM stdin;\n9\tx\n\\.\n",), ["42601"]),
    (("CREATE TABLE t (a int)", "COPY t FROM stdin"), ["statement 1", "COPY", "use INSERT"]),
    (("\\connect postgres",), ["line 1", "syntax error"]),
    (
        ("CREATE TABLE t (a int UNIQUE DEFERRABLE INITIALLY DEFERRED); INSERT INTO t VALUES (1), (1)",),
        ["cannot be committed", "23505"],
    ),
]


def test_what_fails_is_named_and_nothing_is_left_until_it_is_cured(server: Files) -> None:
    for scripts, words in FAILING:
        answer = ask(server, *scripts)
        assert (answer.ok, answer.reason, answer.facts.get("login")) == (False, "InitSQLFailed", None), answer
        assert [word for word in (*words, "Nothing of it is kept") if word not in answer.message] == []
        assert as_superuser(server, DATABASES) == 0
    assert_no_word_of_a_secret(server)
    assert_nothing_is_made_without_a_script(server)
    cured = ask(server, SCHEMA)
    assert cured.ok, cured
    assert in_database(server, "SELECT count(*) FROM orders") == 2


def assert_no_word_of_a_secret(server: Files) -> None:
    answer = ask(server, "\nSELECT 'canary'::integer", secret=True)
    assert "line 2: SQLSTATE 22P02" in answer.message
    assert "canary" not in answer.message


def assert_nothing_is_made_without_a_script(server: Files) -> None:
    answer = ask(server, init_problem="spec.initSQL[0]: create it.")
    assert (answer.reason, "spec.initSQL[0]: create it." in answer.message) == ("InitSQLFailed", True)
    assert as_superuser(server, DATABASES) == 0


def test_it_ends_after_its_time(server: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(init_sql, "SECONDS", 1)
    answer = ask(server, "SELECT pg_sleep(0.6)", "SELECT pg_sleep(0.6); SELECT pg_sleep(60)")
    assert answer.reason == "InitSQLFailed"
    assert "longer than 1 s" in answer.message
    assert as_superuser(server, DATABASES) == 0


def test_cut_off_before_the_name_it_is_begun_again_and_a_full_megabyte_is_taken(server: Files) -> None:
    """Whatever a killed attempt has left: the database has its name only once all is in it."""
    assert ask(server, "SELECT 1/0").reason == "InitSQLFailed"  # the role is there by then
    as_superuser(server, f'CREATE DATABASE "{TEMPORARY}" OWNER ada')
    left = {"user": "ada", "password": "lovelace-1815", "database": TEMPORARY}
    sql(server, "CREATE TABLE orders (half text)", **left)
    padding = "-- é\n" * (2**20 // 6 - 100)
    answer = ask(server, padding + SCHEMA)
    assert answer.ok, answer
    assert in_database(server, "SELECT count(*) FROM orders") == 2
    assert as_superuser(server, DATABASES) == 1


def test_lines_of_hba_do_not_keep_it_out(server: Files) -> None:
    text = hba.file(tls_required=False, lines=["host all all all reject"], users=["ada"], init=True)
    (server.root / "config" / "pg_hba.conf").write_text(text)
    as_superuser(server, "SELECT pg_reload_conf()")
    as_superuser(server, "SELECT pg_sleep(0.5)")
    answer = ask(server, SCHEMA)
    assert answer.ok, answer
