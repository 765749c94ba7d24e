"""A store that is away: under load, while the server stops, while it starts. No transaction notices.

By the images alone, with a store that is gone, and with one that takes connections and says nothing.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from kindling.kinds.postgresql.spec import LEAST_SHUTDOWN_SECONDS

from tests.apiserver.support.audit import wait_until
from tests.cluster.backup_images import INCREMENTAL, PGDATA, S3, SOCKETS, Pod, running_pod, s3

CLIENTS = 4
INSERT = "\\set n :n + 1\nINSERT INTO ledger (client, n) VALUES (:client_id, :n);\n"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    with s3(tmp_path_factory.mktemp("store")) as made:
        yield made


@pytest.fixture
def pod(store: S3, tmp_path: Path) -> Iterator[Pod]:
    with running_pod(store, tmp_path) as made:
        try:
            made.sql("CREATE TABLE ledger (client int, n int, PRIMARY KEY (client, n))")
            assert made.run("backup", INCREMENTAL).reason == "Succeeded"
            yield made
        finally:
            print(made.logs("server")[-6000:])


def away(store: S3, how: str) -> AbstractContextManager[None]:
    return store.gateway.gone() if how == "gone" else store.gateway.hanging()


def load(pod: Pod, *, seconds: int) -> subprocess.Popen[str]:
    """PostgreSQL's load generator, by the server's socket; a client ends with its first error."""
    (pod.scratch / "insert.sql").write_text(INSERT)
    words = ["run", "--rm", "--network=host", "--volume", f"{pod.scratch / 'insert.sql'}:/insert.sql:ro"]
    words += ["--volume", f"{pod.name}-sockets:{SOCKETS}", pod.postgres]
    words += ["pgbench", "--no-vacuum", f"--client={CLIENTS}", f"--time={seconds}", "--define=n=0"]
    words += ["--file=/insert.sql", f"host={SOCKETS} port={pod.port} user=kindling dbname=postgres"]
    return subprocess.Popen(
        [pod.engine.program, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **pod.engine.env_vars()},
    )


def waiting(pod: Pod) -> int:
    """How many segments are not archived yet."""
    query = f"SELECT count(*) FROM pg_ls_dir('{PGDATA}/pg_wal/archive_status') AS f WHERE f LIKE '%.ready'"
    return int(pod.sql(query))


@pytest.mark.parametrize("how", [pytest.param("gone", marks=pytest.mark.thorough), "hanging"])
def test_no_transaction_fails_while_the_store_is_away_and_it_catches_up(
    pod: Pod, store: S3, how: str, thorough: bool
) -> None:
    seconds = 60 if thorough else 15
    loading = load(pod, seconds=seconds + 6)
    time.sleep(3)
    with away(store, how):
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            pod.sql("SELECT pg_switch_wal()")
            time.sleep(2)
        assert loading.poll() is None, loading.communicate()
        assert waiting(pod) > 1
    said, _ = loading.communicate(timeout=60)
    assert loading.returncode == 0, said
    assert "number of failed transactions: 0 " in said
    wait_until(lambda: waiting(pod) == 0, seconds=60, what=lambda: f"{waiting(pod)} segments wait")
    done = int(pod.sql("SELECT count(*) FROM ledger"))
    assert f"number of transactions actually processed: {done}\n" in said
    pod.switch()
    asked = {"database": "postgres", "sql": "SELECT count(*) FROM ledger", "expect": str(done)}
    proof = pod.run("verify", {"queries": [asked]})
    assert proof.reason == "Succeeded", proof.log


@pytest.mark.parametrize("how", ["gone", pytest.param("hanging", marks=pytest.mark.thorough)])
def test_a_server_stops_and_starts_while_the_store_is_away(pod: Pod, store: S3, how: str) -> None:
    with away(store, how):
        pod.sql("INSERT INTO ledger VALUES (9, 1)")
        pod.sql("SELECT pg_switch_wal()")
        pod.sql("INSERT INTO ledger VALUES (9, 2)")
        began = time.monotonic()
        pod.engine.run("stop", "--time", str(LEAST_SHUTDOWN_SECONDS), f"{pod.name}-server")
        took = time.monotonic() - began
        mounts = ("--volume", f"{pod.name}-data:/data:ro")
        state = pod.engine.run("run", "--rm", *mounts, pod.postgres, "pg_controldata", "/data/pgdata")
        assert "shut down\n" in state, state
        assert took < LEAST_SHUTDOWN_SECONDS, f"it took {took:.0f} s to stop"
        pod.stop()
        pod.start()
        assert pod.sql("SELECT count(*) FROM ledger") == 2
        pod.sql("INSERT INTO ledger VALUES (9, 3)")
    wait_until(lambda: waiting(pod) == 0, seconds=60, what=lambda: f"{waiting(pod)} segments wait")
    pod.switch()
    asked = {"database": "postgres", "sql": "SELECT count(*) FROM ledger", "expect": "3"}
    proof = pod.run("verify", {"queries": [asked]})
    assert proof.reason == "Succeeded", proof.log
