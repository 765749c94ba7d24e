"""Backups in a second S3 server, `rclone serve s3`: made, proven, restored equal, refused, deleted.

All other tests with S3 have VersityGW: what is right with that one alone would not be seen there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from infra.bootstrap.toolchain import build
from infra.bootstrap.toolchain.golang import Go
from infra.bootstrap.toolchain.tools import Tool
from tests.cluster.backup_images import (
    ACCESS,
    BUCKET,
    INCREMENTAL,
    S3,
    SECRET,
    Gateway,
    Pod,
    certificate,
    running_pod,
)
from tests.cluster.test_backup_images_churn import dump
from tests.ports import free_port

pytestmark = pytest.mark.thorough
VERSION = "1.76.0"
FOLDER = Path(__file__).parent / "rclone"


@contextmanager
def rclone(folder: Path) -> Iterator[S3]:
    """rclone over a folder, whose folders are its buckets."""
    tool = Tool(name="rclone", version=VERSION, folder=str(FOLDER), package=".", seconds=60)
    program = build.build(tool, Go.ensure())
    certificate(folder, "store")
    (folder / "data" / BUCKET).mkdir(parents=True)
    port = free_port()
    words: list[str | Path] = [program, "serve", "s3", "--addr", f"127.0.0.1:{port}"]
    words += ["--cert", folder / "tls.crt", "--key", folder / "tls.key", "--auth-key", f"{ACCESS},{SECRET}"]
    words += ["--config", "", "--cache-dir", folder / "cache", folder / "data"]
    gateway = Gateway(words, port, folder / "log")
    gateway.start()
    try:
        yield S3(port, folder / "data" / BUCKET, folder / "tls.crt", gateway)
    finally:
        gateway.stop()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    with rclone(tmp_path_factory.mktemp("store")) as made:
        yield made


@pytest.fixture
def pod(store: S3, tmp_path: Path) -> Iterator[Pod]:
    with running_pod(store, tmp_path) as made:
        yield made


def test_what_is_backed_up_and_archived_is_proven_and_restored_equal(pod: Pod, store: S3) -> None:
    pod.sql("CREATE TABLE filling AS SELECT n, md5(n::text) AS text FROM generate_series(1, 200000) AS n")
    pod.sql("CREATE INDEX by_text ON filling (text)")
    first = pod.run("backup", INCREMENTAL)
    assert (first.status, first.reason, first.said["type"]) == (0, "Succeeded", "full"), first.log
    pod.sql("UPDATE filling SET text = md5(text) WHERE n <= 2000")
    second = pod.run("backup", {**INCREMENTAL, "fullEverySeconds": 604800})
    assert (second.reason, second.said["type"]) == ("Succeeded", "incremental"), second.log
    assert second.said["storedBytes"] < first.said["storedBytes"] / 2
    pod.sql("CREATE DATABASE other")
    pod.sql("INSERT INTO filling VALUES (0, 'after both')")
    last = pod.switch()

    proof = pod.run("verify", {"amcheck": "Heap"})
    assert (proof.reason, proof.said["checks"]) == ("Succeeded", ["pages", "amcheck"]), proof.log
    assert pod.sql(f"SELECT pg_walfile_name('{proof.said['archivedLSN']}'::pg_lsn - 1)") == last
    done = pod.run("restore", {"target": None}, volume="copy")
    assert (done.status, done.reason) == (0, "Succeeded"), done.log
    with pod.serving("copy") as port:
        assert dump(pod, port=port) == dump(pod)
    refuses(pod)

    with store.gateway.gone():
        pod.sql("INSERT INTO filling VALUES (-1, 'meanwhile')")
        pod.sql("SELECT pg_switch_wal()")
        away = pod.run("backup", INCREMENTAL)
        assert (away.status, away.reason) == (1, "StoreUnreachable"), away.log
    pod.archived()
    query = {"database": "postgres", "sql": "SELECT text FROM filling WHERE n = -1", "expect": "meanwhile"}
    assert pod.run("verify", {"queries": [query]}).reason == "Succeeded"

    pod.stop()
    assert pod.run("delete", {}).reason == "Succeeded"
    assert [each for each in (store.folder / pod.path[1:]).rglob("*") if each.is_file()] == []


def refuses(pod: Pod) -> None:
    """What is wrong is the reason that it has with any other store."""
    for stored, reason in (
        ({"secretAccessKey": "wrong"}, "AccessDenied"),
        ({"accessKeyId": "nobody"}, "AccessDenied"),
        ({"url": "s3://not-there/prefix"}, "BucketNotFound"),
    ):
        refused = pod.run("verify", {}, store=stored)
        assert (refused.status, refused.reason) == (1, reason), refused.log
