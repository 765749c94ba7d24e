"""A store that is a folder on a volume: which claim can be one, how Pods get it, where the network leads."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import pytest
from kindling.kinds.base import Child, Observed, SyncResult
from kindling.kinds.conditions import find_condition
from kindling.kinds.postgresql import archiver
from kindling.kinds.postgresql.archiver import STORE, STORE_CLAIM, STORE_PORT
from kindling.kinds.restore import Restore
from kindling.kinds.restore.situation import BACKUP
from kindling.kube.resources import (
    CRON_JOB,
    NETWORK_POLICY,
    SECRET,
    STATEFUL_SET,
    VOLUME_CLAIM,
    Object,
    Ref,
)
from postgres_backup.request import VOLUME

from tests.unit.operator import postgresqls
from tests.unit.operator.backups import DATABASE, IDENTIFIER, KIND, backup, observed
from tests.unit.schema.worlds import applied

PLACE: Object = {"targetURL": "pvc://shelf/prefix", "endpointURL": None, "credentialsSecretRef": None}
AT = Ref(VOLUME_CLAIM, "ns", "shelf")


def claim(*modes: str, labels: Object | None = None, meta: Object | None = None, **spec: Any) -> Object:
    metadata = {
        "namespace": "ns",
        "name": "shelf",
        "uid": "claim-uid",
        "labels": labels or {},
        **(meta or {}),
    }
    return {
        "metadata": metadata,
        "spec": {"accessModes": list(modes) or ["ReadWriteOnce"], **spec},
        "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}},
    }


def seen(found: Object | None) -> Observed:
    world = observed()
    return replace(world, watched={**world.watched, **({AT: found} if found is not None else {})})


def backup_on(**spec: Any) -> Object:
    given = {**PLACE, **spec}
    made = backup(**given)
    made["spec"] = {name: value for name, value in made["spec"].items() if value is not None}
    return made


def made(cr: Object, world: Observed) -> dict[str, Child]:
    children = KIND.desired(cr, applied(KIND, cr, world))
    return {f"{child.type.kind}/{child.ref.name}": child for child in children}


def said(cr: Object, world: Observed) -> tuple[str, str]:
    status = KIND.status(cr, world, SyncResult(in_sync=True)).status
    ready = find_condition(status, "Ready")
    return ready["reason"], ready["message"]


def pod_of(children: dict[str, Child], name: str) -> Object:
    found: Object = children[f"CronJob/{name}"].body["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    return found


def store_mounts(container: Object) -> list[Object]:
    return [mount for mount in container["volumeMounts"] if mount["mountPath"] == STORE]


@pytest.mark.parametrize(
    ("found", "reason", "words"),
    [
        (None, "BucketNotFound", "no PersistentVolumeClaim 'shelf' in namespace ns"),
        (claim(meta={"deletionTimestamp": "2026-01-01T00:00:00Z"}), "StoreUnreachable", "is being deleted"),
        ({**claim(), "status": {"phase": "Lost"}}, "StoreUnreachable", "phase Lost"),
        (claim("ReadWriteOncePod"), "StoreUnsuitable", "'ReadWriteOncePod'"),
        (claim("ReadOnlyMany"), "StoreUnsuitable", "'ReadOnlyMany' alone"),
        (claim(volumeMode="Block"), "StoreUnsuitable", "'Block'"),
        (
            claim(
                labels={"kindling.dev/kind": "postgresql.database.db.example.com", "kindling.dev/name": "x"}
            ),
            "StoreUnsuitable",
            "data of Postgresql 'x'",
        ),
    ],
)
def test_a_claim_that_cannot_be_the_store_is_said_and_no_server_gets_it(
    found: Object | None, reason: str, words: str
) -> None:
    cr, world = backup_on(schedule="0 3 * * *"), seen(found)
    assert said(cr, world)[0] == reason
    assert words in said(cr, world)[1]
    assert "spec.targetURL 'pvc://shelf/prefix'" in said(cr, world)[1]
    assert "Secret/db-archive" not in made(cr, world)
    assert not KIND.durable_state(cr, world).get("attempts")
    assert said(cr, seen(claim()))[0] != reason
    assert KIND.durable_state(cr, seen(claim()))["attempts"], "it begins once that is fixed"


def test_the_claim_is_looked_for_by_its_name() -> None:
    assert [look for look in KIND.watched_objects(backup_on()) if look.type == VOLUME_CLAIM] == [
        (VOLUME_CLAIM, "shelf", "ns")
    ]
    assert VOLUME_CLAIM not in {look.type for look in KIND.watched_objects(backup())}


def test_runs_that_write_have_it_and_those_that_read_have_it_read_only() -> None:
    children = made(backup_on(schedule="0 3 * * *", verify={"schedule": "0 4 * * *"}), seen(claim()))
    for name, read_only in (("nightly", False), ("nightly-verify", True)):
        pod = pod_of(children, name)
        assert {"name": "store", "persistentVolumeClaim": {"claimName": "shelf"}} in pod["volumes"]
        (mount,) = store_mounts(pod["containers"][0])
        assert mount.get("readOnly", False) is read_only, name
    # One node has the volume at a time, and the server is there.
    required = pod_of(children, "nightly")["affinity"]["podAffinity"]
    (term,) = required["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["labelSelector"]["matchLabels"] == {
        "app.kubernetes.io/instance": "db",
        "kindling.dev/kind": "postgresql.database.technotuesday.io",
    }
    preferred = pod_of(children, "nightly-verify")["affinity"]["podAffinity"]
    assert list(preferred) == ["preferredDuringSchedulingIgnoredDuringExecution"]


def test_a_volume_that_many_nodes_have_binds_no_pod_to_one() -> None:
    children = made(backup_on(schedule="0 3 * * *"), seen(claim("ReadWriteMany")))
    assert "affinity" not in pod_of(children, "nightly")


def test_the_repository_is_a_folder_and_nothing_asks_for_keys() -> None:
    children = made(backup_on(), seen(claim()))
    for name in ("nightly-backup", "nightly-verify", "db-archive"):
        files = {
            key: base64.b64decode(text).decode()
            for key, text in children[f"Secret/{name}"].body["data"].items()
        }
        lines = files["pgbackrest.conf"].splitlines()
        assert "repo1-type=posix" in lines
        assert f"repo1-path={STORE}/prefix/ns/db/{IDENTIFIER}" in lines
        if name != "db-archive":
            store = json.loads(files["store.json"])
            assert (store["url"], store["path"]) == ("pvc://shelf/prefix", f"/prefix/ns/db/{IDENTIFIER}")
            assert "accessKeyId" not in store
    assert children["Secret/db-archive"].body["metadata"]["annotations"][STORE_CLAIM] == "shelf"
    assert STORE_PORT not in children["Secret/db-archive"].body["metadata"]["annotations"]


def test_no_way_out_leads_to_an_address_of_a_store() -> None:
    spec = made(backup_on(), seen(claim()))["NetworkPolicy/nightly-backup"].body["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    names, server = spec["egress"]
    assert {port["port"] for port in names["ports"]} == {53}
    assert server["ports"] == [{"port": archiver.PORT, "protocol": "TCP"}]
    assert server["to"][0]["podSelector"]["matchLabels"]["app.kubernetes.io/instance"] == "db"


def test_a_run_gets_to_what_starts_a_server_that_is_stopped() -> None:
    wakes = {"hibernateAfter": "30m", "wakeOnConnection": True}
    world = seen(claim())
    watched = {
        ref: {**each, "spec": wakes} if ref.type == DATABASE else each for ref, each in world.watched.items()
    }
    policy = made(backup_on(), replace(world, watched=watched))["NetworkPolicy/nightly-backup"]
    to_clients = [{"port": 5432, "protocol": "TCP"}]
    (rule,) = (rule for rule in policy.body["spec"]["egress"] if rule["ports"] == to_clients)
    server, taking = (peer["podSelector"]["matchLabels"] for peer in rule["to"])
    assert server["app.kubernetes.io/instance"] == taking["kindling.dev/name"] == "db"
    assert (
        server["kindling.dev/kind"] == taking["kindling.dev/kind"] == "postgresql.database.technotuesday.io"
    )
    assert taking["app.kubernetes.io/component"] == "activator"


LABELS = {
    "kindling.dev/kind": "backup.database.technotuesday.io",
    "app.kubernetes.io/instance": "nightly",
}


def archived_on(name: str) -> Observed:
    meta = {"labels": LABELS, "annotations": {STORE_CLAIM: name}}
    world = postgresqls.observed(postgresqls.running())
    return replace(world, watched={Ref(SECRET, "ns", "db-archive"): {"metadata": meta}})


def test_the_servers_container_alone_has_the_volume_and_nothing_leads_out() -> None:
    children = {
        child.type: child
        for child in postgresqls.KIND.desired(postgresqls.postgresql(), archived_on("shelf"))
    }
    pod = children[STATEFUL_SET].body["spec"]["template"]["spec"]
    assert {"name": "store", "persistentVolumeClaim": {"claimName": "shelf"}} in pod["volumes"]
    with_it = {each["name"] for each in pod["containers"] if store_mounts(each)}
    assert with_it == {"postgres"}
    policy = children[NETWORK_POLICY].body["spec"]
    assert policy["egress"] == []
    assert policy["ingress"][-1]["ports"] == [{"port": archiver.PORT, "protocol": "TCP"}]


def test_a_claim_that_is_fixed_or_has_grown_is_tried_at_once() -> None:
    cr = backup_on()
    small = KIND.durable_state(cr, seen(claim()))["attempts"]["backup"]["inputs"]
    larger = claim()
    larger["status"]["capacity"]["storage"] = "2Gi"
    assert KIND.durable_state(cr, seen(larger))["attempts"]["backup"]["inputs"] != small


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"endpointURL": "https://store"}, "spec.endpointURL 'https://store' is for a store with an address"),
        ({"region": "eu"}, "spec.region 'eu' is for a store with an address"),
        ({"credentialsSecretRef": {"name": "keys"}}, "spec.credentialsSecretRef.name 'keys'"),
        ({"caSecretRef": {"name": "ca"}}, "spec.caSecretRef.name 'ca'"),
        ({"targetURL": "pvc://db-data/x"}, "the volume of the database itself"),
        ({"targetURL": "pvc://Shelf"}, "is no claim with a prefix: use pvc://CLAIM/PREFIX"),
        ({"targetURL": "pvc://shelf/../x"}, "is no claim with a prefix"),
    ],
)
def test_what_a_volume_has_no_use_for_is_refused_in_words(spec: Object, words: str) -> None:
    problem = KIND.validate(backup_on(**spec), seen(claim()))
    assert problem is not None
    assert words in problem.message


RESTORE = Restore(image="backup:17")


def restore_of(**source: Any) -> Object:
    meta = {"namespace": "ns", "name": "before", "uid": "restore-uid", "generation": 1}
    status = {"phase": "Restoring", "attempt": 1, "source": {"systemIdentifier": IDENTIFIER}}
    return {"metadata": meta, "spec": {"source": source, "databaseRef": {"name": "copy"}}, "status": status}


@pytest.mark.parametrize("by_url", [False, True])
def test_a_restore_reads_the_volume_and_cannot_write_it(by_url: bool) -> None:
    world = seen(claim())
    world = replace(world, watched={**world.watched, Ref(BACKUP, "ns", "nightly"): backup_on()})
    url = f"pvc://shelf/prefix/ns/db/{IDENTIFIER}"
    cr = restore_of(targetURL=url) if by_url else restore_of(backupRef={"name": "nightly"})
    (job,) = (child for child in RESTORE.desired(cr, world) if child.type.kind == "Job")
    pod = job.body["spec"]["template"]["spec"]
    (mount,) = store_mounts(pod["containers"][0])
    assert mount["readOnly"] is True
    assert ("affinity" in pod) is not by_url
    assert CRON_JOB not in RESTORE.children


def test_a_restore_from_a_claim_that_is_not_there_does_not_begin() -> None:
    cr = restore_of(targetURL=f"pvc://shelf/prefix/ns/db/{IDENTIFIER}")
    cr["status"] = {}
    assert RESTORE.durable_state(cr, seen(None)) == {"phase": "Pending"}
    reason = find_condition(RESTORE.status(cr, seen(None), SyncResult(in_sync=True)).status, "Ready")[
        "reason"
    ]
    assert reason == "BucketNotFound"
    assert RESTORE.durable_state(cr, seen(claim("ReadOnlyMany")))["phase"] == "Restoring"


def test_the_image_looks_where_the_operator_mounts_it() -> None:
    assert str(VOLUME) == STORE
