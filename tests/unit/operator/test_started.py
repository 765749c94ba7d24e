"""The first answer of a real server that has started: from then on the Secret's password counts."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from tests.unit.operator.conftest import IS_READY, SUPERUSER_PASSWORD, Files, page
from tests.unit.operator.test_postgres_life import container, until
from tests.unit.operator.test_postgres_parameters import Database
from tests.unit.operator.test_postgres_port import as_superuser, sql
from tests.unit.operator.test_postgres_ready import contained, said, served
from tests.unit.operator.test_postgres_restart import in_place_of_the_server

ONE = "SELECT 1"
PROBE_SECONDS = 5


def has_started(files: Files) -> int:
    """What the readiness probe is answered within its time limit."""
    probe = container()["readinessProbe"]
    return page(files, probe["httpGet"]["path"], seconds=probe["timeoutSeconds"])


def takes_logins(files: Files) -> bool:
    return files.run(IS_READY) == 0


def keep(files: Files, password: str) -> None:
    """What the Secret says, as the kubelet brings it into the Pod."""
    (files.root / "superuser" / "password").write_text(password)


def logs_in(files: Files, password: str, *, database: str = "template1") -> bool:
    return bool(sql(files, ONE, user="kindling", password=password, database=database) == 1)


@pytest.mark.parametrize("password", ["rotated", 'it\'s "quoted" \\ $1 $do$ %L', "пароль é", "p" * 1024])
def test_a_password_that_was_edited_or_lost_counts_from_the_next_start(files: Files, password: str) -> None:
    with files.running():
        assert logs_in(files, SUPERUSER_PASSWORD)
    files.configure({"default_transaction_read_only": "on"})
    keep(files, password)
    with files.running():
        assert logs_in(files, password)
        with pytest.raises(Exception, match="password authentication failed"):
            logs_in(files, SUPERUSER_PASSWORD)
    log = (files.root / "server.log").read_text()
    assert password not in log
    assert "ALTER ROLE" not in log
    assert "SCRAM-SHA-256$" not in log


def test_where_it_cannot_be_set_the_server_starts_all_the_same(files: Files) -> None:
    """With the Secret's password gone or empty it keeps its own; without its role it serves the others."""
    with files.running():
        as_superuser(files, "CREATE ROLE ada LOGIN SUPERUSER PASSWORD 'lovelace'")
    keep(files, "")
    with files.running():
        assert logs_in(files, SUPERUSER_PASSWORD)
    (files.root / "superuser" / "password").unlink()
    with files.running():
        assert logs_in(files, SUPERUSER_PASSWORD)
        rename = "ALTER ROLE kindling RENAME TO other"
        sql(files, rename, user="ada", password="lovelace", database="template1")
    with files.running():
        assert sql(files, ONE, user="ada", password="lovelace", database="template1") == 1


def test_a_server_that_takes_no_logins_has_not_started(files: Files) -> None:
    assert has_started(files) == 0
    with in_place_of_the_server(files, "time.sleep(60)"):
        until(lambda: has_started(files) == 503)


def test_it_is_set_once_in_a_containers_life(files: Files) -> None:
    """However often the page is asked for, and whatever restarts the server within its Pod."""
    files.configure({"log_connections": "on"})
    with contained(files), ThreadPoolExecutor(20) as kubelets:
        until(lambda: {200} == set(kubelets.map(lambda _: has_started(files), range(20))))
        assert said(files).count("database=postgres application_name=kindling") == 1
        keep(files, "rotated")
        database = Database(files)
        assert database.ask({"max_connections": "50"}, restart=True).ok
        assert has_started(files) == 200
        assert logs_in(files, SUPERUSER_PASSWORD)
    with served(files):
        assert logs_in(files, "rotated")


def test_a_superuser_that_is_locked_keeps_no_server_from_starting(files: Files) -> None:
    """Nor does the log show the password, which stands in the context of the error."""
    keep(files, "first")
    files.configure({"log_min_messages": "debug1", "log_min_error_statement": "debug1"})
    with contained(files):
        until(lambda: takes_logins(files))
        with psycopg.connect(
            host="127.0.0.1", port=files.port, user="kindling", password="first", dbname="template1"
        ) as transaction:
            transaction.execute("ALTER ROLE kindling CONNECTION LIMIT 90")
            keep(files, "rotated")
            before = time.monotonic()
            assert has_started(files) == 200
            assert 2 < time.monotonic() - before < PROBE_SECONDS
            # Nothing waits for the lock on its behalf.
            sessions = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'kindling'"
            until(lambda: transaction.execute(sessions).fetchone() == (0,))
        assert logs_in(files, "first")
    assert "rotated" not in said(files)


def test_a_server_that_is_frozen_keeps_nobody_waiting_longer_than_the_kubelet_does(files: Files) -> None:
    with contained(files), ThreadPoolExecutor(20) as kubelets:
        until(lambda: takes_logins(files))
        server = files.server()
        os.kill(server, signal.SIGSTOP)
        try:
            assert set(kubelets.map(lambda _: has_started(files), range(20))) == {503}
        finally:
            os.kill(server, signal.SIGCONT)
        assert has_started(files) == 200
