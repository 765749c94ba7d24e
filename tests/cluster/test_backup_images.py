"""Backups made, proven and restored by the images alone: real server, engine, store, and what breaks of them.

One database for the file: what a test breaks it fixes, and what it adds stays.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from postgres_backup import wal

from tests.cluster.backup_images import (
    BUCKET,
    DATA,
    READER,
    READER_SECRET,
    S3,
    Ended,
    Pod,
    client,
    flip,
    running_pod,
    s3,
)
from tests.ports import free_port

FULL = {"type": "full", "uid": "11111111-2222-3333-4444-555555555555", "target": "ns/db"}
READ_ONLY = {"accessKeyId": READER, "secretAccessKey": READER_SECRET}
READ_ONLY_CONFIG = {"repo1-s3-key": READER, "repo1-s3-key-secret": READER_SECRET}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    with s3(tmp_path_factory.mktemp("store")) as made:
        yield made


@pytest.fixture(scope="module")
def pod(store: S3, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pod]:
    """A server with rows, whose first full backup is made."""
    with running_pod(store, tmp_path_factory.mktemp("pod")) as made:
        made.sql("CREATE TABLE note (id int PRIMARY KEY, at timestamptz DEFAULT clock_timestamp())")
        made.sql("CREATE TABLE filling AS SELECT n, md5(n::text) AS text FROM generate_series(1, 50000) AS n")
        yield made


@pytest.fixture(scope="module")
def first(pod: Pod) -> Ended:
    return pod.run("backup", {**FULL, "type": "incremental"})


def verify(pod: Pod, **request: Any) -> Ended:
    return pod.run("verify", request, config=READ_ONLY_CONFIG, store=READ_ONLY)


def test_the_first_is_full_and_the_next_is_what_was_asked_for(pod: Pod, first: Ended) -> None:
    assert (first.status, first.reason) == (0, "Succeeded"), first.log
    said = first.said
    assert (said["type"], said["databaseErrors"], said["backups"]) == ("full", False, 1)
    assert said["systemIdentifier"] == pod.sql("SELECT system_identifier::text FROM pg_control_system()")
    size = pod.sql("SELECT sum(pg_database_size(oid))::bigint FROM pg_database")
    assert 0.9 * size < said["databaseBytes"] < 1.2 * size
    assert 0 < said["storedBytes"] < said["databaseBytes"]
    assert said["first"] <= said["stoppedAt"]

    pod.sql("INSERT INTO note VALUES (1)")
    second = pod.run("backup", {**FULL, "type": "incremental", "fullEverySeconds": 604800})
    assert (second.reason, second.said["type"], second.said["backups"]) == ("Succeeded", "incremental", 2)
    assert second.said["storedBytes"] < said["storedBytes"] / 4
    assert second.said["first"] == said["first"]
    # Old enough for a new full one.
    due = pod.run("backup", {**FULL, "type": "incremental", "fullEverySeconds": 1})
    assert due.said["type"] == "full"


def test_a_verify_proves_the_end_of_what_is_archived_with_rights_to_read_alone(
    pod: Pod, first: Ended
) -> None:
    pod.sql("INSERT INTO note VALUES (2)")
    last = pod.switch()
    asked = {"database": "postgres", "sql": "SELECT count(*) FROM note WHERE id = 2", "expect": "1"}
    done = verify(pod, amcheck="Heap", queries=[asked], settings={"max_connections": "100"})
    assert (done.status, done.reason) == (0, "Succeeded"), done.log
    assert done.said["checks"] == ["pages", "amcheck", "queries"]
    assert pod.sql(f"SELECT pg_walfile_name('{done.said['archivedLSN']}'::pg_lsn - 1)") == last
    assert pod.sql(
        f"SELECT '{done.said['reachedLSN']}'::pg_lsn > '{done.said['archivedLSN']}'::pg_lsn - 16777216"
    )
    committed = pod.sql("SELECT at FROM note WHERE id = 2")
    reached = datetime.fromisoformat(done.said["reachedTime"])
    assert abs((committed - reached).total_seconds()) < 2
    assert set(done.said["seconds"]) == {"download", "replay", "check", "total"}


def test_the_store_alone_is_proven_and_nothing_is_written_there(pod: Pod, store: S3, first: Ended) -> None:
    """Without anything of the server, whose parameters are larger than those of a new one."""
    other = Pod(pod.engine, pod.postgres, pod.runner, store, pod.scratch)
    alone: dict[str, Any] = {"target": None, "set": None, "settings": {}, "timeline": None, "amcheck": "Heap"}
    query = {"database": "postgres", "sql": "SELECT max(n) FROM item", "expect": "2"}

    def stored() -> dict[Path, tuple[int, int]]:
        files = (each for each in (store.folder / other.path[1:]).rglob("*") if each.is_file())
        return {each: (each.stat().st_size, each.stat().st_mtime_ns) for each in files}

    try:
        other.create()
        other.start(more={"max_connections": "300", "max_prepared_transactions": "20"})
        other.sql("CREATE TABLE item AS SELECT 1 AS n")
        assert other.run("backup", FULL).reason == "Succeeded"
        other.sql("INSERT INTO item VALUES (2)")
        last = other.switch()
        # Nothing follows by itself.
        other.stop()
        before = stored()
        done = verify(other, **alone, queries=[query])
        assert (done.status, done.reason) == (0, "Succeeded"), done.log
        assert done.said["checks"] == ["pages", "amcheck", "queries"]
        assert wal.lsn(done.said["archivedLSN"]) >= wal.Segment.of(last).end
        words = {**READ_ONLY_CONFIG, "repo1-cipher-pass": "another"}
        locked = other.run("verify", alone, config=words, store=READ_ONLY)
        assert (locked.status, locked.reason) == (1, "WrongPassphrase"), locked.log
        assert stored() == before
    finally:
        other.destroy()


def test_an_older_moment_is_proven_as_it_was(pod: Pod, first: Ended) -> None:
    pod.sql("INSERT INTO note VALUES (7)")
    lsn, moment = (
        pod.sql("SELECT pg_current_wal_lsn()::text"),
        pod.sql("SELECT clock_timestamp()").isoformat(),
    )
    time.sleep(0.05)
    pod.sql("INSERT INTO note VALUES (8)")
    segment = pod.segment(pod.switch())
    assert segment is not None
    sql = "SELECT max(id) FROM note WHERE id IN (7, 8)"
    query = {"database": "postgres", "sql": sql, "expect": "7"}
    for target in ({"time": moment}, {"lsn": lsn}):
        done = verify(pod, target=target, amcheck="Heap", queries=[query])
        assert (done.status, done.reason) == (0, "Succeeded"), done.log
        assert done.said["checks"] == ["pages", "amcheck", "queries"]
        assert f"up to the {next(iter(target))}" in done.said["message"]
        committed = pod.sql("SELECT at FROM note WHERE id = 7")
        reached = datetime.fromisoformat(done.said["reachedTime"])
        assert abs((committed - reached).total_seconds()) < 2
        assert set(done.said["seconds"]) == {"download", "replay", "check", "total"}
    newest = verify(pod, queries=[query])
    assert (newest.status, newest.reason) == (1, "QueryFailed"), newest.log
    assert "queries[0]" in newest.said["message"]
    flip(segment)
    try:
        damaged = verify(pod, target={"time": moment}, queries=[query])
    finally:
        flip(segment)
    assert (damaged.status, damaged.reason) == (1, "ChecksumFailed"), damaged.log


def test_two_commits_50_ms_apart_are_distinguished(pod: Pod, first: Ended) -> None:
    ids = (11, 12, 13)
    marks = []
    for each in ids:
        pod.sql(f"INSERT INTO note VALUES ({each})")
        marks.append((pod.sql("SELECT pg_current_wal_lsn()::text"), pod.sql("SELECT clock_timestamp()")))
        time.sleep(0.05)
    pod.switch()
    lsn, moment = marks[1]
    for target, volume in (({"time": moment.isoformat()}, "by-time"), ({"lsn": lsn}, "by-lsn")):
        done = pod.run("restore", {"target": target}, config=READ_ONLY_CONFIG, store=READ_ONLY, volume=volume)
        assert (done.status, done.reason) == (0, "Succeeded"), done.log
        assert "pgdata.partial" not in pod.listing(volume)
        with pod.serving(volume) as port:
            rows = pod.sql("SELECT array_agg(id ORDER BY id) FROM note WHERE id > 10", port=port)
            assert rows == [11, 12]
            assert (
                pod.sql("SELECT timeline_id FROM pg_control_checkpoint()", port=port) == done.said["timeline"]
            )
            assert pod.sql("SHOW archive_mode", port=port) == "off"
        # A run whose message was lost says the same again.
        again = pod.run("restore", {"target": target}, volume=volume)
        assert {**again.said, "startedAt": 0, "stoppedAt": 0} == {**done.said, "startedAt": 0, "stoppedAt": 0}
        other = pod.run("restore", {"target": None}, volume=volume)
        assert other.reason == "InvalidRequest"


@pytest.mark.thorough
def test_targets_that_cannot_be_reached_leave_no_data_directory(pod: Pod, first: Ended) -> None:
    pod.sql("INSERT INTO note VALUES (21)")
    pod.switch()
    limit = pod.sql("SELECT at FROM note WHERE id = 21").isoformat()[:19]
    for target, reason, said in (
        ({"time": "2099-01-01T00:00:00Z"}, "TargetNotReached", limit),
        ({"name": "never-made"}, "TargetNotReached", limit),
        ({"time": "2001-01-01T00:00:00Z"}, "TargetTooEarly", first.said["endLSN"]),
        ({"lsn": "0/28"}, "TargetTooEarly", first.said["endLSN"]),
    ):
        done = pod.run("restore", {"target": target}, volume="refused")
        assert (done.status, done.reason) == (1, reason), done.log
        assert said in done.said["message"]
        assert "pgdata" not in pod.listing("refused")


def test_a_run_says_how_far_it_is(pod: Pod, first: Ended) -> None:
    port, over = free_port(), threading.Event()
    said: list[dict[str, Any]] = []

    def ask() -> None:
        while not over.wait(0.02):
            with suppress(OSError, ValueError), urlopen(f"http://127.0.0.1:{port}/progress") as answer:
                said.append(json.load(answer))

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        done = pod.run("restore", {"target": None}, volume="watched", progress_port=port)
    finally:
        over.set()
        thread.join()
    assert done.reason == "Succeeded", done.log
    phases = {each["phase"]: each for each in said if each}
    assert list(phases) == ["download", "replay"], said
    assert phases["download"]["of"] == done.said["bytes"]
    segments = phases["replay"]["of"] / wal.SEGMENT_BYTES
    assert segments == int(segments) >= 1
    for each in phases.values():
        assert 0 <= each["bytes"] <= each["of"]
        assert 0 <= each["seconds"] <= done.said["seconds"]["total"] + 1


@pytest.mark.thorough
def test_a_restore_that_was_killed_is_healed_by_the_next(pod: Pod, first: Ended) -> None:
    pod.engine.run(
        "run", "--rm", "--volume", f"{pod.name}-killed:{DATA}", pod.runner, "install", "-D", "/etc/hostname",
        f"{DATA}/pgdata.partial/global/pg_control",
    )  # fmt: skip
    done = pod.run("restore", {"target": None}, volume="killed")
    assert done.reason == "Succeeded", done.log
    with pod.serving("killed") as port:
        assert pod.sql("SELECT count(*) FROM filling", port=port) == 50000


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("stored", "config", "reason"),
    [
        ({"secretAccessKey": "wrong"}, {}, "AccessDenied"),
        ({"accessKeyId": "nobody"}, {}, "AccessDenied"),
        ({"url": "s3://not-there/prefix"}, {}, "BucketNotFound"),
        ({"ca": False}, {}, "UntrustedCertificate"),
        ({"endpoint": "https://localhost:1"}, {}, "StoreUnreachable"),
        (READ_ONLY, {}, "AccessDenied"),
        # Seen by the engine alone.
        ({}, {"repo1-cipher-pass": "another"}, "WrongPassphrase"),
        ({}, {"repo1-s3-key-secret": "wrong"}, "AccessDenied"),
        ({}, {"repo1-s3-bucket": "not-there"}, "BucketNotFound"),
    ],
)
def test_what_is_wrong_with_the_store_is_one_reason(
    pod: Pod, first: Ended, stored: dict[str, Any], config: dict[str, str], reason: str
) -> None:
    began = time.monotonic()
    done = pod.run("backup", FULL, store=stored, config=config)
    assert (done.status, done.reason) == (1, reason), done.log
    assert time.monotonic() - began < 60


@pytest.mark.thorough
def test_a_bucket_that_is_gone_and_one_that_comes_back(pod: Pod, store: S3, first: Ended) -> None:
    aside = store.folder.with_name("aside")
    store.folder.rename(aside)
    try:
        assert verify(pod).reason == "BucketNotFound"
    finally:
        aside.rename(store.folder)
    assert client(store).list_objects_v2(Bucket=BUCKET, MaxKeys=1)["KeyCount"] == 1
    assert verify(pod).reason == "Succeeded"


@pytest.mark.thorough
def test_a_flipped_byte_fails_the_proof_until_it_is_fixed(pod: Pod, store: S3, first: Ended) -> None:
    made = pod.run("backup", FULL)
    bundles = store.folder.glob(f"{pod.path[1:]}/backup/main/{made.said['label']}/**/*")
    largest = max((each for each in bundles if each.is_file()), key=lambda each: each.stat().st_size)
    flip(largest)
    done = verify(pod)
    assert (done.status, done.reason) == (1, "ChecksumFailed"), done.log
    flip(largest)
    assert verify(pod).reason == "Succeeded"


@pytest.mark.thorough
def test_wal_that_is_missing_or_damaged_fails_the_proof(pod: Pod, first: Ended) -> None:
    """In the middle PostgreSQL would end the recovery in silence, and the server look well."""
    made = pod.run("backup", FULL)
    names = []
    for each in (31, 32, 33):
        pod.sql(f"INSERT INTO note VALUES ({each})")
        names.append(pod.switch())
    for name in (names[1], made.said["endWal"]):
        file = pod.segment(name)
        assert file is not None
        aside = file.with_name("aside")
        file.rename(aside)
        done = verify(pod)
        aside.rename(file)
        assert (done.status, done.reason) == (1, "WalGap"), done.log
        assert name in done.said["message"]
    file = pod.segment(names[1])
    assert file is not None
    flip(file)
    done = verify(pod)
    flip(file)
    assert (done.status, done.reason) == (1, "ChecksumFailed"), done.log
    assert names[1] in done.said["message"]
    assert verify(pod).reason == "Succeeded"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("sql", "expect"),
    [
        ("SELECT count(*) FROM note WHERE id < 0", "1"),
        ("SELECT id FROM note WHERE id < 0", None),
        ("SELECT nothing", None),
        ("SET default_transaction_read_only = off; DROP TABLE note", None),
        ("COPY note TO PROGRAM 'true'", None),
    ],
)
def test_queries_that_do_not_give_what_was_expected(
    sql: str, expect: str | None, pod: Pod, first: Ended
) -> None:
    done = verify(pod, queries=[{"database": "postgres", "sql": sql, "expect": expect}])
    assert (done.status, done.reason) == (1, "QueryFailed"), done.log
    assert "queries[0]" in done.said["message"]


def test_the_archiver_of_a_server_that_the_run_has_started_is_waited_for(pod: Pod, first: Ended) -> None:
    """Its Service leads to it a moment after that of the server."""
    archiver = f"{pod.name}-archiver"
    pod.engine.run("stop", "--time", "5", archiver)
    try:
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(pod.run, "backup", {**FULL, "type": "incremental", "wake": "127.0.0.1"})
            time.sleep(8)
            assert not running.done(), running.result().log
            pod.engine.run("start", archiver)
            done = running.result(timeout=120)
    finally:
        pod.engine.run("start", archiver)
    assert done.status == 0, done.log


@pytest.mark.thorough
def test_the_path_of_another_database_is_refused(pod: Pod, store: S3, first: Ended) -> None:
    other = Pod(pod.engine, pod.postgres, pod.runner, store, pod.scratch)
    try:
        other.create()
        other.start()
        done = other.run("backup", FULL, config={"repo1-path": pod.path})
        assert (done.status, done.reason) == (1, "RepositoryOfAnotherDatabase"), done.log
        # One that does not archive has no backup that can be restored.
        other.stop()
        other.start(archive=False)
        assert other.run("backup", FULL).reason == "ArchivingBehind"
        other.stop()
        done = other.run("backup", FULL)
        assert (done.status, done.reason) == (1, "DatabaseUnreachable"), done.log
        assert other.run("verify", {}).reason == "BackupNotFound"
    finally:
        other.destroy()


@pytest.mark.thorough
def test_a_damaged_page_of_the_server_is_reported_with_the_backup(pod: Pod, store: S3, first: Ended) -> None:
    """The engine takes it for a warning."""
    other = Pod(pod.engine, pod.postgres, pod.runner, store, pod.scratch)
    try:
        other.create()
        other.start()
        other.sql("CREATE TABLE damaged AS SELECT generate_series(1, 10000) AS n")
        file = other.sql("SELECT pg_relation_filepath('damaged')")
        other.stop()
        words = [
            "dd",
            "if=/dev/urandom",
            f"of={DATA}/pgdata/{file}",
            "bs=1",
            "oseek=9000",
            "count=8",
            "conv=notrunc",
        ]
        other.engine.run("run", "--rm", "--volume", f"{other.name}-data:{DATA}", other.runner, *words)
        other.start()
        done = other.run("backup", FULL)
        assert (done.status, done.reason, done.said["databaseErrors"]) == (1, "ChecksumFailed", True), (
            done.log
        )
        done = other.run("verify", {})
        assert (done.status, done.reason) == (1, "ChecksumFailed"), done.log
    finally:
        other.destroy()


def test_deleting_leaves_nothing_of_this_database_alone(pod: Pod, store: S3, first: Ended) -> None:
    other = Pod(pod.engine, pod.postgres, pod.runner, store, pod.scratch)
    folder, kept = store.folder / other.path[1:], store.folder / pod.path[1:]
    try:
        other.create()
        other.start()
        assert other.run("backup", FULL).reason == "Succeeded"
        other.stop()
        assert files(folder)
        before = files(kept)
        refused = other.run("delete", {}, config=READ_ONLY_CONFIG, store=READ_ONLY)
        assert (refused.status, refused.reason) == (1, "AccessDenied"), refused.log
        assert files(folder)
        for _ in range(2):
            done = other.run("delete", {})
            assert (done.status, done.reason) == (0, "Succeeded"), done.log
            assert files(folder) == []
        # The server that is still there goes on archiving meanwhile.
        assert set(files(kept)) >= set(before)
    finally:
        other.destroy()


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_both_images_have_the_same_engine_and_server(pod: Pod) -> None:
    """The two ends of a connection must."""
    for words in (["pgbackrest", "version"], ["postgres", "--version"]):
        said = [pod.engine.run("run", "--rm", image, *words) for image in (pod.postgres, pod.runner)]
        assert said[0] == said[1]
