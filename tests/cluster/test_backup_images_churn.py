"""Rows, files, tables and databases come and go between incremental backups, and each restore is equal.

What an incremental copies by parts of files fails here first: files that grow, shrink, are created again
under other names, or are copied without a word in the log of each page.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.backup_images import INCREMENTAL, S3, Pod, running_pod, s3

ROUNDS = 8
REQUEST = {**INCREMENTAL, "fullEverySeconds": 604800}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    with s3(tmp_path_factory.mktemp("store")) as made:
        yield made


@pytest.fixture
def pod(store: S3, tmp_path: Path) -> Iterator[Pod]:
    with running_pod(store, tmp_path) as made:
        for name in ("deleted", "updated", "truncated", "rewritten"):
            made.sql(
                f"CREATE TABLE {name} AS SELECT n, repeat(md5(n::text), 4) AS text "
                "FROM generate_series(1, 30000) AS n"
            )
        made.sql("CREATE INDEX by_text ON updated (text)")
        yield made


def churn(pod: Pod, number: int) -> None:
    """One round: what changes files in each way that there is."""
    pod.sql(f"DELETE FROM deleted WHERE n > {30000 - number * 3000}")
    pod.sql("VACUUM (TRUNCATE, FREEZE) deleted")
    pod.sql(f"UPDATE updated SET text = md5(text || '{number}') WHERE n % 7 = {number % 7}")
    pod.sql("REINDEX INDEX by_text")
    pod.sql("TRUNCATE truncated")
    pod.sql(f"INSERT INTO truncated SELECT n, 'round {number}' FROM generate_series(1, {number * 500}) AS n")
    pod.sql("VACUUM FULL rewritten")
    pod.sql(f"CREATE TABLE made_{number} AS SELECT n FROM generate_series(1, 20000) AS n")
    # Its pages are copied past the log.
    pod.sql(f"CREATE DATABASE copy_{number} TEMPLATE template1 STRATEGY file_copy")
    if number > 1:
        pod.sql(f"DROP TABLE made_{number - 1}")
        pod.sql(f"DROP DATABASE copy_{number - 1}")
    pod.sql(f"SELECT setval('rounds', {number})" if number > 1 else "CREATE SEQUENCE rounds")


def dump(pod: Pod, *, port: int = 0) -> str:
    """All databases of the server, as statements. The mark against statements in rows differs each time."""
    words = ["pg_dumpall", "--host=127.0.0.1", f"--port={port or pod.port}", "--username=kindling"]
    said = pod.engine.run("run", "--rm", "--network=host", pod.postgres, *words)
    return "\n".join(line for line in said.splitlines() if "restrict" not in line)


@pytest.mark.thorough
def test_each_restore_is_equal_to_what_was_backed_up(pod: Pod) -> None:
    for number in range(1, ROUNDS + 1):
        churn(pod, number)
        made = pod.run("backup", REQUEST)
        assert made.reason == "Succeeded", made.log
        assert made.said["type"] == ("full" if number == 1 else "incremental")
        pod.sql(f"INSERT INTO truncated VALUES (0, 'after backup {number}')")
        pod.switch()
        done = pod.run("restore", {"target": None}, volume=f"round-{number}")
        assert done.reason == "Succeeded", done.log
        with pod.serving(f"round-{number}") as port:
            assert dump(pod, port=port) == dump(pod)
    proof = pod.run("verify", {"amcheck": "Heap"})
    assert (proof.reason, proof.said["checks"]) == ("Succeeded", ["pages", "amcheck"]), proof.log
