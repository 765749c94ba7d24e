"""Databases and tables of a backup, loaded into the server that lost them: real server, engine and store."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.apiserver.support.audit import wait_until
from tests.cluster.backup_images import (
    DATA,
    INCREMENTAL,
    READER,
    READER_SECRET,
    S3,
    SUPERUSER_PASSWORD,
    Ended,
    Pod,
    new_pod,
    s3,
)

FILES = "/etc/kindling/backup"
HBA = """\
local all all trust
hostnossl all all 127.0.0.1/32 trust
hostssl all all all scram-sha-256
"""
"""A run comes in with TLS and its password alone."""
TLS = {
    "ssl": "on",
    "ssl_cert_file": f"{FILES}/tls.crt",
    "ssl_key_file": f"{FILES}/tls.key",
    "hba_file": f"{FILES}/pg_hba.conf",
}
SHOP = (
    "CREATE SCHEMA sales AUTHORIZATION app",
    "CREATE TYPE sales.mood AS ENUM ('good', 'bad')",
    "CREATE TABLE sales.customer (id int PRIMARY KEY, name text)",
    "CREATE TABLE sales.orders (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, mood sales.mood,"
    " customer int REFERENCES sales.customer)",
    "CREATE TABLE sales.item (id int) PARTITION BY RANGE (id)",
    "CREATE TABLE sales.item_1 PARTITION OF sales.item FOR VALUES FROM (0) TO (10)",
    "CREATE VIEW sales.named AS SELECT name, mood FROM sales.orders, sales.customer"
    " WHERE orders.customer = customer.id",
    "ALTER TABLE sales.customer OWNER TO app",
    "ALTER TABLE sales.orders OWNER TO app",
    "GRANT SELECT ON sales.orders TO reader",
    "INSERT INTO sales.customer SELECT n, md5(n::text) FROM generate_series(1, 500) AS n",
    "INSERT INTO sales.orders (mood, customer) SELECT 'good', n FROM generate_series(1, 500) AS n",
    "INSERT INTO sales.item VALUES (1)",
    "SELECT lo_from_bytea(0, 'large')",
    # While a setting says so, whoever loads this waits.
    "CREATE FUNCTION public.waits(int) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN"
    " PERFORM pg_sleep(coalesce(current_setting('try.seconds', true), '0')::float8); RETURN true; END $$",
    "CREATE TABLE public.slow (id int CHECK (public.waits(id)))",
    "INSERT INTO public.slow VALUES (1)",
)
ALL = (
    "SELECT md5(string_agg(name || mood, ',' ORDER BY name)) FROM sales.named",
    "SELECT array_agg(concat_ws(' ', relname, pg_get_userbyid(relowner), relacl) ORDER BY relname)"
    " FROM pg_class WHERE relnamespace = 'sales'::regnamespace",
    "SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = current_database()",
    "SHOW search_path",
    "SELECT count(*) FROM pg_largeobject_metadata",
)
ENDS = """
import shutil, sys
from pathlib import Path
from postgres_backup import dropped, programs, wal
name, at = sys.argv[1], wal.lsn(sys.argv[2])
segment, deadline = wal.Segment.of(name), programs.Deadline(60)
dropped._FOLDER.mkdir(parents=True)
shutil.copy(Path("/var/lib/postgresql/data/pgdata/pg_wal", name), dropped._FOLDER)
for since in (segment.begin, at):
    print(len(dropped._ends(segment, since=since, until=at, deadline=deadline)) > 0)
"""
"""Whether a transaction ended since the segment's begin, and since where the log ends, which is no record."""
NAMES = "SELECT array_agg(datname ORDER BY datname) FROM pg_database WHERE datname !~ '^(template|postgres)'"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    with s3(tmp_path_factory.mktemp("store")) as made:
        yield made


@pytest.fixture(scope="module")
def pod(store: S3, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pod]:
    """A server with the database shop, whose first backup is made before it has rows."""
    made = new_pod(store, tmp_path_factory.mktemp("pod"))
    try:
        made.create()
        made.put("archive", {"pg_hba.conf": HBA})
        made.start(more=TLS)
        made.sql(f"ALTER ROLE kindling PASSWORD '{SUPERUSER_PASSWORD}'")
        for role in ("app", "reader"):
            made.sql(f"CREATE ROLE {role}")
        assert made.run("backup", INCREMENTAL).reason == "Succeeded"
        made.sql("CREATE DATABASE shop OWNER app")
        made.sql("ALTER DATABASE shop SET search_path = 'sales', 'public'")
        for each in SHOP:
            made.sql(each, database="shop")
        yield made
    finally:
        made.destroy()


@pytest.fixture(scope="module")
def had(pod: Pod) -> dict[str, Any]:
    """The place in the log at which shop is as it was made, what it has there, and that it is gone since."""
    found = {"moment": pod.sql("SELECT pg_current_wal_lsn()::text"), "all": contents(pod, "shop")}
    pod.sql("DROP DATABASE shop")
    pod.switch()
    return found


def contents(pod: Pod, database: str) -> list[Any]:
    return [pod.sql(query, database=database) for query in ALL]


def load(pod: Pod, had: dict[str, Any], *databases: dict[str, Any], uid: str = "", **more: Any) -> Ended:
    request = {
        "target": {"lsn": had["moment"]},
        "uid": uid or secrets.token_hex(8),
        "databases": databases,
        "into": {"host": "localhost", "port": pod.port},
        **more,
    }
    return pod.run(
        "load",
        request,
        config={"repo1-s3-key": READER, "repo1-s3-key-secret": READER_SECRET},
        store={"accessKeyId": READER, "secretAccessKey": READER_SECRET},
        target={"password": SUPERUSER_PASSWORD, "ca.crt": (pod.tls / "tls.crt").read_text()},
    )


def names(pod: Pod) -> list[str]:
    return list(pod.sql(NAMES) or ())


def test_a_database_that_was_dropped_is_there_again_under_its_own_name_and_another(
    pod: Pod, had: dict[str, Any]
) -> None:
    done = load(pod, had, {"name": "shop"}, uid="first")
    assert (done.status, done.reason) == (0, "Succeeded"), done.log
    assert names(pod) == ["shop"]
    assert contents(pod, "shop") == had["all"]
    assert set(done.said["seconds"]) == {"download", "replay", "load", "total"}
    # One whose result was lost says that it is done, and does nothing.
    pod.sql("DELETE FROM sales.orders", database="shop")
    again = load(pod, had, {"name": "shop"}, uid="first")
    assert again.reason == "Succeeded", again.log
    assert pod.sql("SELECT count(*) FROM sales.orders", database="shop") == 0
    # What is there is never replaced, and is looked for before anything is downloaded.
    refused = load(pod, had, {"name": "postgres", "as": "other"}, {"name": "shop"})
    assert (refused.status, refused.reason) == (1, "TargetExists"), refused.log
    assert '"phase"' not in refused.log
    assert names(pod) == ["shop"]
    beside = load(pod, had, {"name": "shop", "as": "Before"}, {"name": "postgres", "as": "other"})
    assert beside.reason == "Succeeded", beside.log
    assert names(pod) == ["Before", "other", "shop"]
    assert contents(pod, "Before") == had["all"]
    for each in names(pod):
        pod.sql(f'DROP DATABASE "{each}"')


def test_single_tables_come_with_what_they_need(pod: Pod, had: dict[str, Any]) -> None:
    asked = {"name": "shop", "as": "few", "tables": ["sales.orders", "sales.item"]}
    done = load(pod, had, asked)
    assert (done.status, done.reason) == (0, "Succeeded"), done.log
    tables = "SELECT array_agg(relname::text ORDER BY relname) FROM pg_class WHERE relkind IN ('r', 'p', 'v')"
    tables += " AND relnamespace IN ('sales'::regnamespace, 'public'::regnamespace)"
    assert pod.sql(tables, database="few") == ["item", "item_1", "orders"]
    assert pod.sql("SELECT count(*) FROM orders WHERE mood = 'good'", database="few") == 500
    assert pod.sql("SELECT has_table_privilege('reader', 'sales.orders', 'SELECT')", database="few")
    pod.sql("DROP DATABASE few")
    for table in ("sales.nothing", "sales.item_1"):
        refused = load(pod, had, {**asked, "tables": ["sales.orders", table]})
        assert (refused.status, refused.reason) == (1, "NotInBackup"), refused.log
        assert names(pod) == []


def test_the_moment_before_a_drop_has_the_database_though_nothing_was_committed_between(
    pod: Pod, had: dict[str, Any]
) -> None:
    """PostgreSQL stops at commits alone, and by that of DROP DATABASE the files are gone already."""
    pod.sql("CREATE DATABASE quiet OWNER app")
    pod.sql("CREATE TABLE kept AS SELECT 7 AS number", database="quiet")
    moment = pod.sql("SELECT to_char(clock_timestamp(), 'YYYY-MM-DD\"T\"HH24:MI:SS.USOF')")
    time.sleep(0.05)
    # The last commit lies some segments before the end of the recovery.
    pod.sql("SELECT pg_logical_emit_message(false, 'none', repeat('-', 1000000)) FROM generate_series(1, 40)")
    pod.sql("DROP DATABASE quiet")
    pod.switch()
    done = load(pod, had, {"name": "quiet"}, target={"time": moment})
    assert (done.status, done.reason) == (0, "Succeeded"), done.log
    assert "recovering again, to the lsn" in done.log
    assert pod.sql("SELECT number FROM kept", database="quiet") == 7
    pod.sql("DROP DATABASE quiet")
    # A whole server, too, ends at the last commit before the moment.
    whole = pod.run("restore", {"target": {"time": moment}, "uid": "whole"}, volume="whole")
    assert (whole.status, whole.reason) == (0, "Succeeded"), whole.log
    with pod.serving("whole") as port:
        assert pod.sql("SELECT number FROM kept", port=port, database="quiet") == 7


def test_a_log_without_a_record_has_the_end_of_no_transaction(pod: Pod) -> None:
    """As where the last record that was replayed began in the segment before."""
    pod.sql("CREATE ROLE passing")
    pod.sql("DROP ROLE passing")
    end = "pg_walfile_name(pg_current_wal_lsn()) || ' ' || pg_current_wal_lsn()"
    words = ["run", "--rm", "--volume", f"{pod.name}-data:{DATA}:ro", pod.runner, "python3", "-c", ENDS]
    said = pod.engine.run(*words, *str(pod.sql(f"SELECT {end}")).split())
    assert said.split() == ["True", "False"]


@pytest.mark.thorough
def test_what_cannot_be_loaded_leaves_nothing(pod: Pod, had: dict[str, Any]) -> None:
    gone = load(pod, had, {"name": "postgres", "as": "other"}, {"name": "never-made"})
    assert (gone.reason, names(pod)) == ("NotInBackup", []), gone.log
    pod.sql("DROP ROLE reader")
    try:
        lacking = load(pod, had, {"name": "postgres", "as": "other"}, {"name": "shop"})
    finally:
        pod.sql("CREATE ROLE reader")
    assert (lacking.reason, names(pod)) == ("RoleNotFound", []), lacking.log
    assert "there: reader." in lacking.said["message"]
    wrong = {"host": "127.0.0.1", "port": pod.port}
    unproven = load(pod, had, {"name": "shop"}, into=wrong)
    assert (unproven.reason, names(pod)) == ("DatabaseUnreachable", []), unproven.log
    assert "certificate" in unproven.said["message"]


@pytest.mark.parametrize("how", ["KILL", "TERM"])
def test_one_that_is_ended_in_the_middle_leaves_nothing_under_the_name(
    pod: Pod, had: dict[str, Any], how: str
) -> None:
    uid = f"ended-by-{how.lower()}"
    pod.sql("ALTER ROLE kindling SET try.seconds = '100'")
    try:
        with ThreadPoolExecutor(max_workers=1) as pool:
            run = pool.submit(load, pod, had, {"name": "postgres", "as": "other"}, {"name": "shop"}, uid=uid)
            asleep = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
            wait_until(lambda: pod.sql(asleep) == 1, seconds=100, what=lambda: f"no load: {names(pod)}")
            (container,) = (
                each
                for each in pod.engine.run("ps", "--format", "{{.Names}}").split()
                if each.startswith(f"{pod.name}-run-")
            )
            pod.engine.run("kill", f"--signal={how}", container)
            error = run.exception(timeout=60)
    finally:
        pod.sql("ALTER ROLE kindling RESET try.seconds")
    left = names(pod)
    if how == "TERM":
        assert error is None
        assert (run.result().reason, left) == ("Interrupted", [])
        return
    assert isinstance(error, AssertionError), "it has no last word"
    assert len(left) == 2
    assert {each.partition("_")[0] for each in left} == {"kindling"}, left
    done = load(pod, had, {"name": "postgres", "as": "other"}, {"name": "shop"}, uid=uid)
    assert done.reason == "Succeeded", done.log
    assert names(pod) == ["other", "shop"]
    assert contents(pod, "shop") == had["all"]
    for each in names(pod):
        pod.sql(f'DROP DATABASE "{each}"')
