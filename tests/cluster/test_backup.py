"""Backup and Restore against a real S3 server: backups, any moment restored, proofs, a wrong key."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from kindling.kinds.amounts import rounded

from tests.cluster.backup_images import flip
from tests.cluster.backups import (
    BACKUP,
    BUCKET,
    DATABASE,
    KEY,
    NAME,
    NOW,
    OVER,
    PASSPHRASE,
    RESTORE,
    SECONDS,
    USER,
    Store,
    archived,
    backed_up,
    condition,
    opens,
    own_address,
    ready,
    rescue,
    restore,
    secret,
    store_secrets,
    until,
    until_over,
)
from tests.cluster.backups import store as store
from tests.cluster.claims.backup import results, server
from tests.cluster.node import Node
from tests.cluster.stack import STACK, Environment, within
from tests.cluster.test_claims import hold
from tests.unit.operator.backups import pem

WRONG = "canary-wrong-key"
SIGNING = Ed25519PrivateKey.from_private_bytes(b"canary signing key of 32 bytes !")
DENIED = "denied"
COUNT = "SELECT count(*) FROM kept"
CHECKPOINTER = "SELECT backend_start FROM pg_stat_activity WHERE backend_type = 'checkpointer'"
"""Since when the server has run without dropping all of its processes."""
ARCHIVED = "SELECT archived_count FROM pg_stat_archiver"
PSQL = ("psql", "--no-psqlrc", "-U", "kindling", "-d", "postgres", "-Atc")
SLEEP = "SELECT pg_sleep(900)"
END_SLEEP = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(900)'"


@pytest.fixture(scope="module")
def denied(environment: Environment, store: Store) -> Iterator[Future[None]]:
    """What `wrong_key` comes to: it waits for minutes, so it goes on beside the other tests."""
    store_secrets(environment, store)
    with ThreadPoolExecutor(max_workers=1) as pool:
        yield pool.submit(wrong_key, environment, store)
    environment.kubectl("delete", BACKUP, DENIED, "--ignore-not-found", "--wait=false")
    environment.kubectl("delete", DATABASE, DENIED, "--ignore-not-found", "--wait=false")


@pytest.fixture(scope="module")
def saved(environment: Environment, store: Store, denied: Future[None]) -> Iterator[Store]:
    """A database with rows, and its Backup, proven."""
    queries = [{"database": "postgres", "sql": COUNT, "expect": "1000"}]
    secret(environment, "proof-key", signingKey=pem(SIGNING))
    signed = {"signingKeySecretRef": {"name": "proof-key"}}
    backed_up(environment, store, NAME, keys="store-keys", verify={"queries": queries, **signed})
    yield store
    environment.kubectl("delete", RESTORE, "--all", "--wait=false")
    environment.kubectl("delete", BACKUP, NAME, "--ignore-not-found", "--wait=false")
    # The stack's sample is of this kind too.
    environment.kubectl("delete", DATABASE, NAME, "before", "--ignore-not-found", "--wait=false")


def by_hand(environment: Environment, word: str) -> dict[str, Any]:
    """A run of the schedule's, made now, that succeeds."""
    name = f"{NAME}-{word}"

    def runs() -> dict[str, dict[str, Any]]:
        return {run["name"]: run for run in environment.get(BACKUP, NAME)["status"].get("runs", ())}

    environment.kubectl("create", "job", name, f"--from=cronjob/{NAME}")
    within(SECONDS, lambda: runs().get(name, {}).get("phase", "Running") != "Running")
    assert runs()[name]["phase"] == "Succeeded", runs()
    return runs()[name]


def test_the_first_backup_is_full_and_proven_and_each_claim_holds(
    environment: Environment, saved: Store
) -> None:
    status = environment.get(BACKUP, NAME)["status"]
    (first,) = (run for run in status["runs"] if run["action"] == "backup")
    assert first["type"] == "full"
    assert status["verified"]["checks"]
    # Known once the server was asked again, a few seconds after the run.
    until(environment, BACKUP, NAME, lambda status: status.get("dataLossWindow") in ("1m", "2m"))
    assert list(saved.folder.rglob("backup.info"))
    # Nothing after the backup's end is in the store before the next part of the log is.
    archived(environment)
    hold(environment, BACKUP, NAME)


def test_the_proof_is_on_a_signed_record_that_nobody_can_edit(environment: Environment, saved: Store) -> None:
    status = environment.get(BACKUP, NAME)["status"]
    (record,) = environment.get("configmaps", "-l", "kindling.dev/proof=true")["items"]
    text, signature = (record["data"][name] for name in ("record.json", "record.sig"))
    SIGNING.public_key().verify(base64.b64decode(signature), text.encode())
    said = json.loads(text)
    assert said["lastVerifiedTime"] == status["lastVerifiedTime"]
    assert said["verified"] == status["verified"]
    assert (
        said["database"]["systemIdentifier"] == environment.get(DATABASE, NAME)["status"]["systemIdentifier"]
    )
    with pytest.raises(AssertionError, match="immutable"):
        environment.kubectl(
            "patch",
            "configmap",
            record["metadata"]["name"],
            "--type=merge",
            "-p",
            '{"data": {"record.json": "{}"}}',
        )


def test_neither_key_nor_passphrase_is_anywhere_but_in_secrets(
    environment: Environment, saved: Store
) -> None:
    for kind in ("pods", "jobs", "cronjobs", "configmaps", "events", BACKUP, "statefulsets"):
        text = environment.kubectl("get", kind, "-o", "yaml")
        assert KEY not in text, kind
        assert PASSPHRASE not in text, kind
    log = environment.kubectl("logs", "-n", "kindling-system", "deployment/kindling-operator", "--tail=-1")
    assert KEY not in log
    assert PASSPHRASE not in log


def test_two_moments_are_distinguished_and_a_later_run_is_incremental(
    environment: Environment, saved: Store
) -> None:
    environment.psql(NAME, "create table moments (word text)")
    environment.psql(NAME, "insert into moments values ('before')")
    moment = environment.psql(NAME, NOW)
    assert re.fullmatch(r"[0-9-]+T[0-9:.]+Z", moment)
    time.sleep(0.05)
    environment.psql(NAME, "insert into moments values ('after')")
    assert by_hand(environment, "by-hand")["type"] == "incremental"
    until(environment, BACKUP, NAME, lambda status: status.get("latestRestorableTime", "") > moment)
    restore(
        environment,
        "before",
        source={"backupRef": {"name": NAME}},
        recoveryTarget={"targetTime": moment},
        databaseRef={"name": "before"},
    )
    # Done is done: it takes logins, and the Secret for them is there.
    until_over(environment, "before", ("True", "Restored"))
    assert environment.psql("before", "select string_agg(word, ',') from moments") == "before"
    assert environment.psql("before", "select count(*) from kept") == "1000"
    assert environment.psql("before", "show archive_mode") == "off"
    hold(environment, RESTORE, "before")


def downloading(uid: str) -> int:
    """The process of this Pod that fetches the backup, once it is there; 0 before."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (folder / "cmdline").read_bytes().split(b"\0")
            fetches = words[0] == b"pgbackrest" and b"restore" in words
            if fetches and uid in (folder / "cgroup").read_text().replace("_", "-"):
                return int(folder.name)
    return 0


@pytest.mark.thorough
def test_progress_is_what_lies_on_the_runs_volume(environment: Environment, saved: Store) -> None:
    """The download is stopped in its midst, so that all of its figures speak of one moment."""
    restore(environment, "watched", source={"backupRef": {"name": NAME}}, databaseRef={"name": "watched"})
    until(environment, RESTORE, "watched", lambda status: status.get("phase") == "Restoring")

    def pods() -> list[dict[str, Any]]:
        selector = "batch.kubernetes.io/job-name=watched-restore-1"
        found: list[dict[str, Any]] = environment.get("pods", "-l", selector)["items"]
        return found

    within(60, lambda: bool(pods()))
    (pod,) = pods()
    # The processes of its pgBackRest are of the node, and so of this machine.
    began = time.monotonic()
    while not (process := downloading(pod["metadata"]["uid"])):
        assert time.monotonic() - began < 60
    os.kill(process, signal.SIGSTOP)
    try:
        node = Node(environment)
        container = node.container(pod["metadata"]["name"], "run")
        until(environment, RESTORE, "watched", lambda status: "progress" in status)
        until(
            environment,
            RESTORE,
            "watched",
            lambda status: status["progress"].get("bytes") == lies(node, container),
        )
        progress = environment.get(RESTORE, "watched")["status"]["progress"]
        header, row = environment.kubectl("get", RESTORE, "watched").splitlines()
        assert row[header.index("PERCENT") :].split()[0] == str(progress["percent"])
    finally:
        os.kill(process, signal.SIGCONT)
    until(environment, RESTORE, "watched", lambda status: status.get("phase") in OVER)
    status = environment.get(RESTORE, "watched")["status"]
    assert (status["phase"], "progress" in status) == ("Completed", False)
    run = results(environment, environment.get(RESTORE, "watched"))["watched-restore-1"]
    assert (progress["step"], progress["totalBytes"]) == ("Download", run["bytes"])
    assert 0 <= progress["percent"] - 100 * progress["bytes"] // progress["totalBytes"] <= 10
    environment.kubectl("delete", DATABASE, "watched", "--wait=false")


def lies(node: Node, container: str) -> int:
    """Bytes of the files on the volume of a run, to two digits."""
    program = (
        "from pathlib import Path; print(sum(file.lstat().st_size for file in "
        "Path('/var/lib/postgresql/data/pgdata.partial').rglob('*') if not file.is_dir()))"
    )
    return rounded(int(node.execute(container, "python3", "-c", program, timeout=30)))


def test_a_database_goes_back_in_place_and_gets_its_data_again(
    environment: Environment, saved: Store
) -> None:
    """The same resource, Service and login; the Backup goes on, on whichever timeline the server is."""
    words = "select string_agg(word, ',' order by word) from steps"
    environment.psql(NAME, "create table steps as select 'first' as word")
    moment = environment.psql(NAME, NOW)
    time.sleep(0.05)
    environment.psql(NAME, "insert into steps values ('mistake')")
    archived(environment)
    restore(
        environment,
        "back",
        source={"backupRef": {"name": NAME}},
        recoveryTarget={"targetTime": moment},
        databaseRef={"name": NAME},
        into="InPlace",
    )
    until_over(environment, "back", ("True", "Restored"))
    environment.wait_ready(f"{DATABASE}/{NAME}", seconds=60)
    assert environment.psql(NAME, words) == "first"
    hold(environment, RESTORE, "back")
    hold(environment, DATABASE, NAME)
    environment.psql(NAME, "insert into steps values ('second')")
    archived(environment)
    by_hand(environment, "afterwards")

    environment.kubectl("patch", RESTORE, "back", "--type=merge", "-p", '{"spec":{"undo":true}}')
    until(environment, RESTORE, "back", lambda status: status.get("phase") == "Undone")
    environment.wait_ready(f"{DATABASE}/{NAME}", seconds=180)
    assert environment.psql(NAME, words) == "first,mistake"
    hold(environment, RESTORE, "back")
    environment.kubectl("delete", RESTORE, "back")
    by_hand(environment, "again")


def test_a_database_that_was_dropped_is_loaded_beside_the_others(
    environment: Environment, saved: Store
) -> None:
    """By the run's own login over TLS, through both policies; the server runs on meanwhile."""
    server(environment, NAME, "default", "CREATE ROLE clerk")
    server(environment, NAME, "default", "CREATE DATABASE shop OWNER clerk")
    server(environment, NAME, "default", "COMMENT ON DATABASE shop IS 'its own words'")
    moment = environment.psql(NAME, NOW)
    time.sleep(0.05)
    server(environment, NAME, "default", "DROP DATABASE shop")
    archived(environment)
    since = server(environment, NAME, "default", CHECKPOINTER)
    restore(
        environment,
        "shop",
        source={"backupRef": {"name": NAME}},
        recoveryTarget={"targetTime": moment},
        databaseRef={"name": NAME},
        into="Databases",
        databases=[{"name": "shop"}, {"name": "postgres", "as": "second", "tables": ["public.kept"]}],
    )
    until_over(environment, "shop", ("True", "Restored"))
    described = (
        "SELECT string_agg(concat_ws(' ', datname, pg_get_userbyid(datdba),"
        " shobj_description(oid, 'pg_database')), ',' ORDER BY datname)"
        " FROM pg_database WHERE datname IN ('shop', 'second') OR datname ~ '^kindling'"
    )
    said = server(environment, NAME, "default", described)
    assert said.startswith("second "), said
    assert said.endswith(",shop clerk its own words"), said
    count = (*PSQL[:5], "second", "-Atc", COUNT)
    assert environment.kubectl("exec", f"{NAME}-0", "-c", "postgres", "--", *count).strip() == "1000"
    assert server(environment, NAME, "default", CHECKPOINTER) == since
    hold(environment, RESTORE, "shop")
    restore(
        environment,
        "shop-again",
        source={"backupRef": {"name": NAME}},
        databaseRef={"name": NAME},
        into="Databases",
        databases=[{"name": "shop"}],
    )
    until_over(environment, "shop-again", ("False", "TargetExists"))
    for each in ("shop", "second"):
        server(environment, NAME, "default", f"DROP DATABASE {each}")


def test_an_older_moment_is_proven_beside_a_server_that_runs_on(
    environment: Environment, saved: Store
) -> None:
    """By a query of its own, and by one that fails."""
    environment.psql(NAME, "create table proofs as select 'first' as word")
    moment = environment.psql(NAME, NOW)
    time.sleep(0.05)
    environment.psql(NAME, "insert into proofs values ('mistake')")
    archived(environment)
    since, generation = (
        server(environment, NAME, "default", CHECKPOINTER),
        environment.get(DATABASE, NAME)["metadata"]["generation"],
    )
    words = {"database": "postgres", "sql": "SELECT string_agg(word, ',') FROM proofs"}
    own = {"queries": [{**words, "expect": "first"}]}
    false = {"queries": [{**words, "expect": "first,mistake"}]}
    for name, verify in (("proven", own), ("disproven", false)):
        restore(
            environment,
            name,
            source={"backupRef": {"name": NAME}},
            recoveryTarget={"targetTime": moment},
            databaseRef={"name": NAME},
            into="Verify",
            verify=verify,
        )
    for name, expected in (
        ("proven", ("True", "Succeeded")),
        ("disproven", ("False", "QueryFailed")),
    ):
        until_over(environment, name, expected)
    hold(environment, RESTORE, "proven")
    run = results(environment, environment.get(RESTORE, "proven"))["proven-restore-1"]
    assert run["checks"] == ["pages", "amcheck", "queries"]
    assert server(environment, NAME, "default", CHECKPOINTER) == since
    assert environment.get(DATABASE, NAME)["metadata"]["generation"] == generation
    # Their volumes go with them.
    names = ("proven", "disproven")
    environment.kubectl("delete", RESTORE, *names)

    def left() -> list[str]:
        claims = environment.kubectl("get", "pvc", "-o", "name").split()
        return [each for each in claims for name in names if f"/{name}-restore-" in each]

    within(60, lambda: not left())


def test_a_namespace_that_has_nothing_gets_the_database_from_the_store_alone(
    environment: Environment, saved: Store
) -> None:
    """As after a lost cluster: no Backup leads there, and nobody has the database's Secrets."""
    namespace, login = "rescued", "SELECT rolpassword FROM pg_authid WHERE rolname = 'reader'"
    server(environment, NAME, "default", "CREATE ROLE reader LOGIN PASSWORD 'canary-reader'")
    identifier = archived(environment)
    environment.kubectl("create", "namespace", namespace)
    try:
        rescue(environment, saved, identifier, namespace=namespace)
        assert server(environment, NAME, namespace, COUNT) == "1000"
        assert server(environment, NAME, namespace, login) == server(environment, NAME, "default", login)
        assert "data" not in environment.get("secret", "rescue-restore", "-n", namespace)
        for kind in ("pods", "jobs", "configmaps", "events", RESTORE):
            text = environment.kubectl("get", kind, "-n", namespace, "-o", "yaml")
            assert KEY not in text, kind
            assert PASSPHRASE not in text, kind
        hold(environment, RESTORE, "rescue", namespace)
    finally:
        environment.kubectl("delete", "namespace", namespace, "--wait=false")


def test_a_namespace_that_has_nothing_proves_what_is_in_the_store(
    environment: Environment, saved: Store
) -> None:
    """To the newest moment and without a database; with a wrong passphrase, and of damaged data."""
    namespace = "proving"
    environment.psql(NAME, "create table proven as select 'all of it' as word")
    lsn = server(environment, NAME, "default", "SELECT pg_current_wal_lsn()")
    identifier = archived(environment)
    source = {"targetURL": f"s3://{BUCKET}/tests/default/{NAME}/{identifier}", **opens(saved)}
    query = {"database": "postgres", "sql": "SELECT word FROM proven", "expect": "all of it"}
    spec = {
        "databaseRef": {"name": NAME},
        "into": "Verify",
        "verify": {
            "storage": {"size": "1Gi"},
            "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "512Mi"}},
            "queries": [query],
        },
    }
    environment.kubectl("create", "namespace", namespace)
    try:
        store_secrets(environment, saved, namespace=namespace)
        secret(environment, "another", namespace=namespace, passphrase="canary guess")
        locked = {**source, "encryption": {"passphraseSecretRef": {"name": "another"}}}
        before = stored(saved, identifier)
        restore(environment, "proven", namespace=namespace, source=source, **spec)
        restore(environment, "locked", namespace=namespace, source=locked, **spec)
        until_over(environment, "proven", ("True", "Succeeded"), namespace=namespace)
        status = environment.get(RESTORE, "proven", "-n", namespace)["status"]
        reached = f"SELECT '{status['reachedLSN']}'::pg_lsn >= '{lsn}'::pg_lsn"
        assert server(environment, NAME, "default", reached) == "t"
        hold(environment, RESTORE, "proven", namespace)
        run = results(environment, environment.get(RESTORE, "proven", "-n", namespace))["proven-restore-1"]
        assert run["checks"] == ["pages", "amcheck", "queries"]
        assert "data" not in environment.get("secret", "proven-restore", "-n", namespace)
        assert environment.get(DATABASE, "-n", namespace)["items"] == []
        assert stored(saved, identifier) == before

        wrong = ("False", "WrongPassphrase")
        until(
            environment, RESTORE, "locked", lambda is_: condition(is_, "Ready") == wrong, namespace=namespace
        )
        secret(environment, "another", namespace=namespace, passphrase=PASSPHRASE)
        until_over(environment, "locked", ("True", "Succeeded"), namespace=namespace)

        # All that the newest backup has is needed of it.
        bundles = [file for file in before if file.parent.name == "bundle"]
        damaged = max(bundles, key=lambda file: (file.parent.parent.name, before[file][0]))
        flip(damaged)
        try:
            restore(environment, "damaged", namespace=namespace, source=source, **spec)
            until_over(environment, "damaged", ("False", "ChecksumFailed"), namespace=namespace)
        finally:
            flip(damaged)
        for kind in ("pods", "jobs", "configmaps", "events", RESTORE):
            text = environment.kubectl("get", kind, "-n", namespace, "-o", "yaml")
            assert not [word for word in (KEY, PASSPHRASE, "canary guess") if word in text], kind
    finally:
        environment.kubectl("delete", "namespace", namespace, "--wait=false")


def stored(store: Store, identifier: str) -> dict[Path, tuple[int, int]]:
    """The files of the backups of NAME, each with size and time; its log grows meanwhile."""
    folder = store.folder / "tests" / "default" / NAME / identifier / "backup"
    found = {path: path.stat() for path in folder.rglob("*") if path.is_file() and not path.is_symlink()}
    return {path: (stat.st_size, stat.st_mtime_ns) for path, stat in found.items()}


def test_a_time_out_of_reach_is_refused_with_both_limits(environment: Environment, saved: Store) -> None:
    restore(
        environment,
        "long-ago",
        source={"backupRef": {"name": NAME}},
        recoveryTarget={"targetTime": "2001-01-01T00:00:00Z"},
        databaseRef={"name": "long-ago"},
    )
    within(60, lambda: ready(environment, RESTORE, "long-ago") == ("False", "TargetTooEarly"))
    assert environment.kubectl("get", "pvc", "long-ago-data", "--ignore-not-found") == ""


def wrong_key(environment: Environment, store: Store) -> None:
    """A store that has the log before the first backup, takes its key back, and gets a good one again; in the
    end, all of it is deleted.
    """
    secret(environment, "denied-keys", accessKeyId=USER, secretAccessKey=KEY)
    backed_up(environment, store, DENIED, keys="denied-keys", immediate=False, deletionPolicy="Delete")
    status = environment.get(BACKUP, DENIED)["status"]
    assert condition(status, "Archiving") == ("True", "Archiving")
    assert [run["action"] for run in status["runs"]] == ["prepare"]
    # A change is in the archive after a minute, by itself: so the window of an idle server need not grow.
    before = int(server(environment, DENIED, "default", ARCHIVED))
    environment.psql(DENIED, "create table late as select 1 as id")
    within(75, lambda: int(server(environment, DENIED, "default", ARCHIVED)) > before)
    assert "lastSuccessfulBackupTime" not in status
    environment.kubectl("patch", BACKUP, DENIED, "--type=merge", "-p", '{"spec":{"immediate":true}}')
    until(environment, BACKUP, DENIED, lambda status: condition(status, "Ready") == ("True", "Succeeded"))
    since = server(environment, DENIED, "default", CHECKPOINTER)
    session = environment.start("exec", f"{DENIED}-0", "-c", "postgres", "--", *PSQL, SLEEP)
    secret(environment, "denied-keys", accessKeyId=USER, secretAccessKey=WRONG)
    environment.psql(DENIED, "create table waiting as select generate_series(1, 200000) as id")
    until(environment, BACKUP, DENIED, lambda status: condition(status, "Archiving")[1] == "ArchivingBehind")
    environment.kubectl("create", "job", f"{DENIED}-refused", f"--from=cronjob/{DENIED}")
    until(environment, BACKUP, DENIED, lambda status: condition(status, "Ready")[1] == "AccessDenied")
    assert environment.psql(DENIED, "select count(*) from waiting") == "200000"
    assert session.poll() is None, session.communicate()
    assert server(environment, DENIED, "default", END_SLEEP) == "t"
    out, err = session.communicate(timeout=60)
    assert "canceling statement due to user request" in out + err, "no session ended for another reason"
    assert server(environment, DENIED, "default", CHECKPOINTER) == since, "the server recovered from a crash"
    secret(environment, "denied-keys", accessKeyId=USER, secretAccessKey=KEY)
    until(environment, BACKUP, DENIED, lambda status: condition(status, "Ready") == ("True", "Succeeded"))
    stored = store.folder / "tests" / "default" / DENIED
    assert list(stored.rglob("backup.info"))
    pod = environment.get("pod", f"{DENIED}-0")["metadata"]["uid"]
    environment.kubectl("delete", BACKUP, DENIED, "--wait=false")
    within(60, lambda: _ends(_metadata(environment, f"{DENIED}-0", pod)))
    began = time.monotonic()
    within(60, lambda: not _metadata(environment, f"{DENIED}-0", pod))
    assert time.monotonic() - began < 20, "the server waited for a store that it could not reach"
    within(SECONDS, lambda: environment.kubectl("get", BACKUP, DENIED, "--ignore-not-found") == "")
    assert [path for path in stored.rglob("*") if path.is_file()] == []
    assert environment.psql(DENIED, "show archive_mode") == "off"
    assert environment.psql(DENIED, "select count(*) from waiting") == "200000"


def _metadata(environment: Environment, pod: str, uid: str) -> dict[str, Any]:
    """Of that very Pod; empty once it is gone."""
    text = environment.kubectl("get", "pod", pod, "--ignore-not-found", "-o", "json")
    found: dict[str, Any] = json.loads(text)["metadata"] if text else {}
    return found if found.get("uid") == uid else {}


def _ends(metadata: dict[str, Any]) -> bool:
    return not metadata or "deletionTimestamp" in metadata


def test_a_database_without_a_backup_has_nothing_of_it(environment: Environment, saved: Store) -> None:
    workload = environment.get("statefulset", "postgresql-sample")["spec"]["template"]["spec"]
    assert [each["name"] for each in workload["containers"]] == ["postgres"]
    assert environment.get("networkpolicy", "postgresql-sample")["spec"].get("egress", []) == []
    assert environment.psql("postgresql-sample", "show archive_mode") == "off"


def test_a_database_that_nobody_uses_is_left_alone_until_its_run(
    environment: Environment, saved: Store
) -> None:
    """The questions how far its archive is do not start it; the run of the schedule does, and is a backup."""
    name = f"{DATABASE}/{NAME}"
    wakes = {"spec": {"hibernateAfter": "1m", "wakeOnConnection": True}}
    environment.kubectl("patch", name, "--type=merge", f"--patch={json.dumps(wakes)}")
    environment.kubectl("wait", "--for=jsonpath={.status.pgPhase}=hibernated", name, "--timeout=240s")
    since = environment.get(name)["status"]["idle"]["stoppedAt"]
    time.sleep(45)  # it is asked every fifteen seconds while it runs
    status = environment.get(name)["status"]
    assert (status["pgPhase"], status["idle"]["stoppedAt"]) == ("hibernated", since)
    until(
        environment, BACKUP, NAME, lambda status: condition(status, "Ready") == ("False", "DatabaseNotReady")
    )
    assert by_hand(environment, "awake")["type"] == "incremental"
    left = {"spec": {"hibernateAfter": None, "wakeOnConnection": None}}
    environment.kubectl("patch", name, "--type=merge", f"--patch={json.dumps(left)}")
    environment.wait_ready(name, seconds=180)


def test_a_wrong_key_is_said_and_what_waited_is_uploaded_once_it_is_fixed(denied: Future[None]) -> None:
    denied.result(timeout=3 * SECONDS)


@pytest.mark.thorough
def test_a_cluster_is_lost_and_its_database_comes_back_into_another(
    environment: Environment, saved: Store, denied: Future[None]
) -> None:
    """All that is left is the store, its keys and the passphrase."""
    denied.exception(timeout=3 * SECONDS)
    server(environment, NAME, "default", "CREATE TABLE last_words AS SELECT 'kept' AS word")
    identifier = archived(environment)
    environment.ok("destroy", STACK)
    environment.ok("up", STACK)
    assert saved.url.startswith(f"https://{own_address(environment)}:")
    rescue(environment, saved, identifier, namespace="default")
    assert ready(environment, RESTORE, "rescue") == ("True", "Restored")
    assert server(environment, NAME, "default", "SELECT word FROM last_words") == "kept"
    assert environment.psql(NAME, COUNT.lower()) == "1000"
