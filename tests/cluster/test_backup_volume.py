"""Backups in a folder on a volume, by a claim of the namespace: made, proven, restored, deleted.

The claim comes after its Backup, and until then the server is as it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.backups import (
    BACKUP,
    DATABASE,
    PASSPHRASE,
    RESTORE,
    SECONDS,
    condition,
    ready,
    restore,
    secret,
    until,
    until_over,
    with_rows,
)
from tests.cluster.claims.backup import server
from tests.cluster.stack import Environment, within

pytestmark = pytest.mark.thorough
NAME, CLAIM, COPY = "onvolume", "shelf", "fromvolume"
STORE = "/var/lib/kindling/store"
LIST = f"import os; print(sum(len(files) for _, _, files in os.walk('{STORE}/tests')))"


def pod(environment: Environment, name: str) -> dict[str, Any]:
    return environment.get("pods", f"{name}-0")


def mounts(pod: dict[str, Any]) -> dict[str, list[bool]]:
    """By container: whether its mounts of the store are read-only."""
    containers = pod["spec"]["containers"]
    return {
        each["name"]: [
            mount.get("readOnly", False) for mount in each["volumeMounts"] if mount["mountPath"] == STORE
        ]
        for each in containers
    }


@pytest.fixture(scope="module")
def saved(environment: Environment) -> Iterator[None]:
    secret(environment, "shelf-passphrase", passphrase=PASSPHRASE)
    with_rows(environment, NAME)
    before = pod(environment, NAME)["metadata"]["uid"]
    environment.apply(
        {
            "apiVersion": "database.technotuesday.io/v1",
            "kind": "Backup",
            "metadata": {"name": NAME},
            "spec": {
                "databaseRef": {"name": NAME},
                "type": "incremental",
                "schedule": "0 3 1 1 *",
                "targetURL": f"pvc://{CLAIM}/tests",
                "encryption": {"passphraseSecretRef": {"name": "shelf-passphrase"}},
                "verify": {},
                "deletionPolicy": "Delete",
            },
        }
    )
    until(environment, BACKUP, NAME, lambda is_: condition(is_, "Ready") == ("False", "BucketNotFound"))
    assert pod(environment, NAME)["metadata"]["uid"] == before
    environment.apply(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": CLAIM},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }
    )
    until(environment, BACKUP, NAME, lambda is_: condition(is_, "Ready") == ("True", "Succeeded"))
    yield
    environment.kubectl("delete", RESTORE, "--all", "--wait=false")
    environment.kubectl("delete", DATABASE, NAME, COPY, "--ignore-not-found", "--wait=false")
    environment.kubectl("delete", "pvc", CLAIM, "--ignore-not-found", "--wait=false")


def test_what_is_stored_on_a_volume_is_proven_restored_and_deleted(
    environment: Environment, saved: None
) -> None:
    status = environment.get(BACKUP, NAME)["status"]
    assert status["verified"]["checks"]
    assert mounts(pod(environment, NAME)) == {"postgres": [False], "archiver": []}

    environment.kubectl("create", "job", f"{NAME}-more", f"--from=cronjob/{NAME}")

    def runs() -> dict[str, dict[str, Any]]:
        return {run["name"]: run for run in environment.get(BACKUP, NAME)["status"].get("runs", ())}

    within(SECONDS, lambda: runs().get(f"{NAME}-more", {}).get("phase", "Running") != "Running")
    more = runs()[f"{NAME}-more"]
    assert (more["phase"], more.get("type")) == ("Succeeded", "incremental"), more

    environment.psql(NAME, "insert into kept values (1001)")
    moment = server(
        environment,
        NAME,
        "default",
        """SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')""",
    )
    server(environment, NAME, "default", "SELECT pg_switch_wal()")
    until(environment, BACKUP, NAME, lambda status: status.get("latestRestorableTime", "") > moment)
    restore(environment, COPY, source={"backupRef": {"name": NAME}}, databaseRef={"name": COPY})
    (reader,) = _pods(environment, "kindling.dev/run=restore")
    assert mounts(reader) == {"run": [True]}
    until_over(environment, COPY, ("True", "Restored"))
    environment.wait_ready(f"{DATABASE}/{COPY}", seconds=180)
    digest = "SELECT md5(string_agg(id::text, ',' ORDER BY id)) || count(*) FROM kept"
    assert server(environment, COPY, "default", digest) == server(environment, NAME, "default", digest)

    image = reader["spec"]["containers"][0]["image"]
    assert int(_listed(environment, "before", image)) > 0
    environment.kubectl("delete", BACKUP, NAME, "--wait=true", "--timeout=300s")
    assert _listed(environment, "after", image) == "0"
    environment.wait_ready(f"{DATABASE}/{NAME}", seconds=180)
    assert "archiver" not in mounts(pod(environment, NAME))


def _pods(environment: Environment, selector: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []

    def there() -> bool:
        found[:] = environment.get("pods", "-l", f"{selector},app.kubernetes.io/instance={COPY}")["items"]
        return bool(found)

    within(60, there)
    return found


def _listed(environment: Environment, name: str, image: str) -> str:
    """How many files there are, by a Pod that has the claim."""
    environment.apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"shelf-{name}"},
            "spec": {
                "restartPolicy": "Never",
                "securityContext": {"runAsUser": 999, "runAsGroup": 999, "fsGroup": 999},
                "containers": [
                    {
                        "name": "list",
                        "image": image,
                        "imagePullPolicy": "IfNotPresent",
                        "command": ["python3", "-c", LIST],
                        "volumeMounts": [{"name": "store", "mountPath": STORE}],
                    }
                ],
                "volumes": [{"name": "store", "persistentVolumeClaim": {"claimName": CLAIM}}],
            },
        }
    )
    within(120, lambda: environment.get("pods", f"shelf-{name}")["status"].get("phase") == "Succeeded")
    said = environment.kubectl("logs", f"shelf-{name}").strip()
    environment.kubectl("delete", "pod", f"shelf-{name}", "--wait=false")
    return str(said)


def test_a_claim_that_cannot_be_shared_is_refused_in_words(environment: Environment, saved: None) -> None:
    assert ready(environment, DATABASE, COPY)[0] == "True"
    environment.apply(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "alone"},
            "spec": {"accessModes": ["ReadWriteOncePod"], "resources": {"requests": {"storage": "1Gi"}}},
        }
    )
    environment.apply(
        {
            "apiVersion": "database.technotuesday.io/v1",
            "kind": "Backup",
            "metadata": {"name": COPY},
            "spec": {"databaseRef": {"name": COPY}, "targetURL": "pvc://alone"},
        }
    )
    until(environment, BACKUP, COPY, lambda is_: condition(is_, "Ready") == ("False", "StoreUnsuitable"))
    environment.kubectl("delete", BACKUP, COPY, "--wait=false")
    environment.kubectl("delete", "pvc", "alone", "--wait=false")
