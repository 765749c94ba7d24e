"""Backups in the stores of Azure and Google by the images alone: made, proven, restored, refused, deleted.

The servers are not the clouds' own: `backup_stores` says what they check.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from kindling.kinds.backup import stores

from tests.cluster.backup_images import INCREMENTAL, Ended, Pod, running_pod
from tests.cluster.backup_stores import ACCOUNT, FILES, CloudStore, azurite, fake_gcs, sas, service_account

pytestmark = pytest.mark.thorough
FULL = {**INCREMENTAL, "type": "full"}
READS = {stores.ACCOUNT_NAME: ACCOUNT, stores.SAS_TOKEN: sas("rl")}


@pytest.fixture(scope="module", params=[azurite, fake_gcs], ids=["azblob", "gs"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CloudStore]:
    with request.param(tmp_path_factory.mktemp("store")) as made:
        yield made


@pytest.fixture(scope="module")
def pod(store: CloudStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pod]:
    with running_pod(store, tmp_path_factory.mktemp("pod")) as made:
        made.sql("CREATE TABLE note (id int PRIMARY KEY)")
        made.sql("CREATE TABLE filling AS SELECT n, md5(n::text) AS text FROM generate_series(1, 50000) AS n")
        yield made


@pytest.fixture(scope="module")
def first(pod: Pod) -> Ended:
    return pod.run("backup", INCREMENTAL)


def is_azure(store: CloudStore) -> bool:
    return stores.ACCOUNT_NAME in store.keys


def test_what_is_backed_up_and_archived_is_proven_and_restored_equal(
    pod: Pod, store: CloudStore, first: Ended
) -> None:
    assert (first.status, first.reason, first.said["type"]) == (0, "Succeeded", "full"), first.log
    pod.sql("INSERT INTO note VALUES (1)")
    token = {stores.ACCOUNT_NAME: ACCOUNT, stores.SAS_TOKEN: sas("racwdl")}
    second = pod.run("backup", INCREMENTAL, config=store.options(keys=token) if is_azure(store) else {})
    assert (second.reason, second.said["type"]) == ("Succeeded", "incremental"), second.log
    pod.sql("INSERT INTO note VALUES (2)")
    lsn = pod.sql("SELECT pg_current_wal_lsn()::text")
    pod.sql("INSERT INTO note VALUES (3)")
    segment = pod.archived()
    assert any(segment in name for name in store.names(f"{pod.path}/archive/main/"))

    reading = store.options(keys=READS) if is_azure(store) else {}
    done = pod.run("verify", {"amcheck": "Heap"}, config=reading)
    assert (done.status, done.reason) == (0, "Succeeded"), done.log
    done = pod.run("restore", {"target": {"lsn": lsn}}, config=reading, volume="by-lsn")
    assert (done.status, done.reason) == (0, "Succeeded"), done.log
    filling = "SELECT md5(string_agg(text, ',' ORDER BY n)) FROM filling"
    with pod.serving("by-lsn") as port:
        assert pod.sql("SELECT array_agg(id ORDER BY id) FROM note", port=port) == [1, 2]
        assert pod.sql(filling, port=port) == pod.sql(filling)


def wrong(store: CloudStore) -> list[tuple[str, dict[str, str], dict[str, str], str]]:
    """What is wrong, by the options and the files that it comes to, and the reason of a run."""
    elsewhere = f"{store.url.partition(':')[0]}://not-there/prefix"
    clear = store.endpoint.replace("https", "http")
    found: list[tuple[str, dict[str, str], dict[str, str], str]] = [
        ("bucket", store.options(targetURL=elsewhere), {}, "BucketNotFound"),
        ("port", store.options(endpointURL="https://localhost:1"), {}, "StoreUnreachable"),
        ("no TLS", store.options(endpointURL=clear), {}, "StoreUnreachable"),
        ("passphrase", {"repo1-cipher-pass": "another"}, {}, "WrongPassphrase"),
        ("authority", {"repo1-storage-ca-file": f"{FILES}/tls.crt"}, {}, "UntrustedCertificate"),
    ]
    if not is_azure(store):
        tokens = store.service_account["token_uri"]
        other = service_account(rsa.generate_private_key(65537, 2048), tokens)
        gone = store.keys[stores.SERVICE_ACCOUNT_KEY].replace(tokens, "https://localhost:1/token")
        name = "service-account.json"
        return [
            *found,
            ("key", {}, {name: other}, "AccessDenied"),
            ("no PEM", {}, {name: other.replace("BEGIN", "END")}, "AccessDenied"),
            ("tokens", {}, {name: gone}, "StoreUnreachable"),
        ]
    key = base64.b64encode(b"wrong").decode()
    account = {**store.keys, stores.ACCOUNT_NAME: "nobody"}
    return [
        *found,
        ("key", store.options(keys={**store.keys, stores.ACCOUNT_KEY: key}), {}, "AccessDenied"),
        ("account", store.options(keys=account), {}, "BucketNotFound"),
        ("rights", store.options(keys=READS), {}, "AccessDenied"),
        ("token", store.options(keys={**READS, stores.SAS_TOKEN: sas("rl") + "x"}), {}, "AccessDenied"),
    ]


def test_what_is_wrong_with_the_store_is_one_reason(pod: Pod, store: CloudStore, first: Ended) -> None:
    said = {}
    for what, config, files, _ in wrong(store):
        began = time.monotonic()
        done = pod.run("backup", FULL, config=config, secret=files)
        assert time.monotonic() - began < 60, what
        assert done.status == 1, what
        said[what] = done.reason
    assert said == {what: reason for what, _, _, reason in wrong(store)}


def test_a_store_that_is_away_loses_nothing(pod: Pod, store: CloudStore, first: Ended) -> None:
    with store.gateway.gone():
        pod.sql("INSERT INTO note VALUES (10)")
        pod.sql("SELECT pg_switch_wal()")
        done = pod.run("backup", INCREMENTAL)
        assert (done.status, done.reason) == (1, "StoreUnreachable"), done.log
    with store.gateway.hanging():
        done = pod.run("backup", INCREMENTAL)
        assert (done.status, done.reason) == (1, "StoreUnreachable"), done.log
    pod.archived()
    done = pod.run("verify", {"queries": [query("SELECT count(*) FROM note WHERE id = 10", "1")]})
    assert done.reason == "Succeeded", done.log


def query(sql: str, expect: str) -> dict[str, Any]:
    return {"database": "postgres", "sql": sql, "expect": expect}


def test_deleting_leaves_nothing_of_this_database_alone(pod: Pod, store: CloudStore, first: Ended) -> None:
    other = Pod(pod.engine, pod.postgres, pod.runner, store, pod.scratch)
    try:
        other.create()
        other.start()
        assert other.run("backup", FULL).reason == "Succeeded"
        other.stop()
        assert store.names(other.path)
        if is_azure(store):
            refused = other.run("delete", {}, config=store.options(keys=READS))
            assert (refused.status, refused.reason) == (1, "AccessDenied"), refused.log
            assert store.names(other.path)
        for _ in range(2):
            done = other.run("delete", {})
            assert (done.status, done.reason) == (0, "Succeeded"), done.log
            assert store.names(other.path) == []
        assert store.names(pod.path)
    finally:
        other.destroy()
