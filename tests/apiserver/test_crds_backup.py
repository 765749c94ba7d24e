"""Backup and Restore at the door: what is refused in which words, what cannot change, what is kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
import yaml
from kindling.engine.compare import satisfies
from kindling.kinds.base import SyncResult
from kindling.kinds.conditions import with_stalled, with_transition_times
from kindling.kube.resources import CRON_JOB, JOB, NETWORK_POLICY, SECRET, VOLUME_CLAIM, Ref

from tests import guides
from tests.apiserver.support.apiclient import Api, Json
from tests.apiserver.support.kinds import BACKUP, MINIMAL_SPECS, REPOSITORY, RESTORE, Kind, merged
from tests.unit.operator import backups
from tests.unit.operator.test_recorded_children import KINDS, SPECS, STATUS
from tests.unit.schema.worlds import applied

REPOSITORY_URL = "s3://bucket/prefix/shop/db/7300000000000000001"


def from_store(**more: object) -> Json:
    """Laid over the least Restore: one from a repository instead of a Backup."""
    source = {"backupRef": None, "targetURL": REPOSITORY_URL, "credentialsSecretRef": {"name": "store"}}
    return {"source": {**source, **more}}


def on_claim(**more: object) -> Json:
    """Laid over the least Backup: one on a volume."""
    return {"targetURL": "pvc://claim/x", "credentialsSecretRef": None, **more}


def from_claim(**more: object) -> Json:
    """Laid over the least Restore: one from a repository on a volume."""
    source = {"targetURL": "pvc://claim/x/shop/db/7300000000000000001", "credentialsSecretRef": None}
    return from_store(**{**source, **more})


def databases(*items: Json) -> Json:
    """A spec that loads these."""
    return {"into": "Databases", "databases": [*items]}


def proof(**verify: object) -> Json:
    """A spec that checks a copy."""
    return {"into": "Verify", "verify": verify}


BAD: list[tuple[Kind, Json, list[str]]] = [
    (BACKUP, {"targetURL": "ftp://bucket/x"}, ["spec.targetURL 'ftp://bucket/x'", "use s3://BUCKET/PREFIX"]),
    (BACKUP, {"targetURL": "nfs://claim/x"}, ["'nfs://claim/x'", "gs://BUCKET/PREFIX", "pvc://CLAIM/PREFIX"]),
    (BACKUP, {"targetURL": "pvc://Claim/x"}, ["spec.targetURL", "pvc://Claim/x"]),
    (BACKUP, {"targetURL": "pvc://claim/x"}, ["spec.credentialsSecretRef.name 'store'", "with pvc://"]),
    (BACKUP, on_claim(endpointURL="https://store"), ["spec.endpointURL 'https://store'", "with pvc://"]),
    (BACKUP, on_claim(caSecretRef={"name": "ca"}), ["spec.caSecretRef.name 'ca'", "with pvc://"]),
    (BACKUP, on_claim(region="eu"), ["spec.region 'eu'", "leave it out"]),
    (BACKUP, on_claim(targetURL="pvc://db-data/x"), ["'pvc://db-data/x'", "of the database itself"]),
    (BACKUP, on_claim(targetURL="pvc://db-data"), ["'pvc://db-data'", "name another claim"]),
    (
        RESTORE,
        from_claim(credentialsSecretRef={"name": "store"}),
        ["spec.source.credentialsSecretRef.name 'store'", "with pvc://"],
    ),
    (RESTORE, from_claim(endpointURL="https://store"), ["spec.source.endpointURL 'https://store'"]),
    (RESTORE, from_claim(caSecretRef={"name": "ca"}), ["spec.source.caSecretRef.name 'ca'", "with pvc://"]),
    (RESTORE, from_claim(targetURL="pvc://claim/x"), ["'pvc://claim/x'", "system identifier"]),
    (BACKUP, {"targetURL": "azblob://Backups/x"}, ["spec.targetURL", "azblob://Backups/x"]),
    (BACKUP, {"targetURL": "azblob://a_b"}, ["spec.targetURL", "azblob://a_b"]),
    (
        BACKUP,
        {"targetURL": "gs://bucket", "endpointURL": "http://store"},
        ["spec.endpointURL 'http://store'", "in clear"],
    ),
    (
        RESTORE,
        from_store(targetURL="gs://bucket/x/7300000000000000001", endpointURL="http://store"),
        ["spec.source.endpointURL 'http://store'", "in clear"],
    ),
    (BACKUP, {"targetURL": "gs://b"}, ["spec.targetURL", "gs://b"]),
    (BACKUP, {"targetURL": "gs://bucket", "region": "eu"}, ["spec.region 'eu'", "leave it out"]),
    (BACKUP, {"targetURL": "azblob://backups", "region": "eu"}, ["spec.region 'eu'", "leave it out"]),
    (BACKUP, {"targetURL": "s3://b"}, ["spec.targetURL", "s3://b"]),
    (BACKUP, {"targetURL": "s3://bucket/../x"}, ["spec.targetURL"]),
    (BACKUP, {"endpointURL": "store:7070"}, ["spec.endpointURL", '"store:7070"']),
    (BACKUP, {"type": "partial"}, ["spec.type", '"partial"', '"full", "incremental"']),
    (BACKUP, {"fullEvery": "7d"}, ["spec.fullEvery '7d'", "incremental"]),
    (BACKUP, {"type": "incremental", "fullEvery": "weekly"}, ["spec.fullEvery", '"weekly"']),
    (BACKUP, {"immediate": False}, ["spec.immediate 'false'", "set a schedule"]),
    (BACKUP, {"schedule": "@daily"}, ["spec.schedule", "@daily"]),
    (BACKUP, {"schedule": "0 0 3 * * *"}, ["spec.schedule"]),
    (BACKUP, {"retention": {}}, ["spec.retention", "exactly one of full and window"]),
    (BACKUP, {"retention": {"full": 2, "window": "30d"}}, ["spec.retention", "exactly one"]),
    (BACKUP, {"retention": {"full": 0}}, ["spec.retention.full", "greater than or equal to 1"]),
    (BACKUP, {"credentialsSecretRef": {"name": "bad-tls"}}, ["'bad-tls'", "made from this resource"]),
    (BACKUP, {"credentialsSecretRef": {"name": "db-archive"}}, ["'db-archive'", "name one of your own"]),
    (BACKUP, {"credentialsSecretRef": None}, ["spec.credentialsSecretRef: Required value"]),
    (BACKUP, {"databaseRef": {"group": "apps"}}, ["spec.databaseRef.group", '"apps"']),
    (BACKUP, {"verify": {"amcheck": "All"}}, ["spec.verify.amcheck", '"All"']),
    (BACKUP, {"verify": {"queries": [{"database": "a", "sql": "SELECT 1"}]}}, ["expect: Required value"]),
    (BACKUP, {"verify": {"storage": {"size": "0"}}}, ["spec.verify.storage.size '0'", "greater than 0"]),
    (BACKUP, {"deletionPolicy": "Forget"}, ["spec.deletionPolicy", '"Forget"']),
    (RESTORE, {"into": "Nowhere"}, ["spec.into", '"Nowhere"']),
    (RESTORE, {"into": "Verify"} | from_store(), ["spec.verify.storage.size is needed", "name a size"]),
    (RESTORE, proof(storage={}) | from_store(), ["spec.verify.storage.size is needed", "name a size"]),
    (RESTORE, proof(storage={"size": "0"}), ["spec.verify.storage.size '0'", "such as 1Gi"]),
    (RESTORE, proof(storage={"size": "much"}) | from_store(), ["spec.verify.storage.size", '"much"']),
    (RESTORE, proof(storage={"storageClassName": "a b"}), ["storage.storageClassName", '"a b"']),
    (
        RESTORE,
        proof(resources={"requests": {"cpu": 2}, "limits": {"cpu": "500m"}}),
        ["spec.verify.resources.requests.cpu '2' exceeds its limit", "at most '500m'"],
    ),
    (
        RESTORE,
        proof(resources={"requests": {"memory": "2Gi"}, "limits": {"memory": "1Gi"}}),
        ["spec.verify.resources.requests.memory '2Gi' exceeds its limit", "at most '1Gi'"],
    ),
    (RESTORE, proof(resources={"limits": {"memory": "much"}}), ["resources.limits.memory", '"much"']),
    (
        RESTORE,
        proof(storage={"size": "1Gi"}) | from_store(credentialsSecretRef=None),
        ["spec.source.credentialsSecretRef is needed"],
    ),
    (
        RESTORE,
        proof(storage={"size": "1Gi"}) | from_store() | {"postgresql": {"defaultUser": "ada"}},
        ["spec.into is Verify", "leave it out"],
    ),
    (RESTORE, {"into": "Verify", "undo": True}, ["spec.undo is for a restore in place"]),
    (RESTORE, {"into": "Verify", "postgresql": {}}, ["spec.into is Verify", "leave it out"]),
    (RESTORE, databases({"name": "a"}) | {"into": "Verify"}, ["spec.databases is for spec.into Databases"]),
    (RESTORE, {"verify": {}}, ["spec.verify is for spec.into Verify", "leave it out"]),
    (RESTORE, proof(amcheck="All"), ["spec.verify.amcheck", '"All"']),
    (RESTORE, proof(queries=[{"database": "a", "sql": "SELECT 1"}]), ["expect: Required value"]),
    (RESTORE, {"undo": True}, ["spec.undo is for a restore in place", "leave it out"]),
    (RESTORE, {"into": "New", "undo": True}, ["spec.undo is for a restore in place"]),
    (RESTORE, {"into": "InPlace", "postgresql": {}}, ["spec.postgresql is for a Postgresql that is made"]),
    (RESTORE, {"recoveryTarget": {"targetLSN": "here"}}, ["spec.recoveryTarget.targetLSN", '"here"']),
    (
        RESTORE,
        {"recoveryTarget": {"targetTLI": 0}},
        ["spec.recoveryTarget.targetTLI", "greater than or equal to 1"],
    ),
    (RESTORE, {"recoveryTarget": {"targetTime": "yesterday"}}, ["spec.recoveryTarget.targetTime"]),
    (
        RESTORE,
        {"recoveryTarget": {"targetXID": "7", "immediate": True}},
        ["spec.recoveryTarget has several moments", "keep one"],
    ),
    (RESTORE, {"databaseRef": {"name": "1st"}}, ["spec.databaseRef.name", '"1st"']),
    (RESTORE, {"postgresql": {"storage": {"size": "0"}}}, ["spec.postgresql.storage.size '0'"]),
    (RESTORE, {"source": {"targetURL": REPOSITORY_URL}}, ["either backupRef or targetURL", "keep one"]),
    (RESTORE, {"source": {"backupRef": None}}, ["either backupRef or targetURL"]),
    (RESTORE, {"source": {"region": "eu-central-1"}}, ["spec.source.backupRef has all", "leave out"]),
    (RESTORE, from_store() | {"into": "InPlace"}, ["spec.into InPlace needs a Backup"]),
    (RESTORE, {"databases": [{"name": "a"}]}, ["spec.databases is for spec.into Databases", "leave it out"]),
    (RESTORE, {"into": "Databases"}, ["spec.into Databases needs spec.databases", "name those"]),
    (RESTORE, databases({"name": "a"}) | from_store(), ["spec.into Databases needs a Backup", "backupRef"]),
    (RESTORE, databases(), ["spec.databases", "at least 1 items"]),
    (RESTORE, databases(*({"name": f"a{number}"} for number in range(17))), ["spec.databases", "16 items"]),
    (RESTORE, databases({"name": "a"}, {"name": "a", "as": "b"}), ["spec.databases", "Duplicate value"]),
    (
        RESTORE,
        databases({"name": "a"}, {"name": "b", "as": "a"}),
        ["become the same", "name of its own in as"],
    ),
    (RESTORE, databases({"name": "template1"}), ["spec.databases name 'template1'", "another"]),
    (RESTORE, databases({"name": "a", "as": "pg_a"}), ["spec.databases as 'pg_a' is reserved"]),
    (RESTORE, databases({"name": "a", "as": "1 a"}), ["spec.databases[0].as", '"1 a"']),
    (RESTORE, databases({"name": "a", "tables": []}), ["spec.databases[0].tables", "at least 1 items"]),
    (RESTORE, databases({"name": "a", "tables": ["orders"]}), ["spec.databases[0].tables[0]", '"orders"']),
    (
        RESTORE,
        databases({"name": "a"}) | {"postgresql": {"storage": {"size": "1Gi"}}},
        ["spec.into is Databases", "leave it out"],
    ),
    (RESTORE, databases({"name": "a"}) | {"undo": True}, ["spec.undo is for a restore in place"]),
    (RESTORE, from_store(credentialsSecretRef=None), ["spec.source.credentialsSecretRef is needed"]),
    (RESTORE, from_store(targetURL="s3://bucket/prefix/shop/db"), ["shop/db'", "system identifier"]),
    (RESTORE, from_store(targetURL="ftp://bucket/x/7300000000000000001"), ["ftp://", "not supported"]),
    (RESTORE, from_store(targetURL="gs://bucket/x"), ["'gs://bucket/x'", "system identifier"]),
    (
        RESTORE,
        from_store(targetURL="azblob://backups/x/7300000000000000001", region="eu"),
        ["spec.source.region 'eu'", "leave it out"],
    ),
    (RESTORE, from_store(endpointURL="store:7070"), ["spec.source.endpointURL", '"store:7070"']),
    (
        RESTORE,
        from_store(credentialsSecretRef={"name": "bad-restore"}),
        ["'bad-restore'", "made from this resource"],
    ),
    (RESTORE, {"postgresql": {"defaultUser": "ada"}}, ["defaultUser 'ada'", "known from the Backup"]),
    (
        RESTORE,
        from_store() | {"postgresql": {"defaultUser": "pg_ada"}},
        ["spec.postgresql.defaultUser 'pg_ada' is reserved"],
    ),
]
GOOD: list[tuple[Kind, Json]] = [
    (BACKUP, {"targetURL": "s3://bucket/a/b/", "retention": {"window": "30d"}, "suspend": True}),
    (BACKUP, {"schedule": "*/5 0-6 1,15 JAN MON", "timeZone": "Europe/Berlin", "immediate": False}),
    (BACKUP, {"verify": {}, "endpointURL": "http://store.example:7070", "region": "eu-central-1"}),
    (BACKUP, {"type": "incremental", "fullEvery": "1w", "caSecretRef": {"name": "ca"}}),
    (RESTORE, {"recoveryTarget": {"immediate": True}, "into": "New"}),
    (RESTORE, {"recoveryTarget": {"targetLSN": "0/3000060"}, "into": "InPlace", "undo": False}),
    (RESTORE, {"recoveryTarget": {"targetTime": "2026-11-24T06:45:00.5+01:00", "exclusive": True}}),
    (RESTORE, databases({"name": "My shop"}, {"name": "b", "as": "My", "tables": ["public.a", "s.b.c"]})),
    (RESTORE, {"recoveryTarget": {"targetName": "before_the_mistake", "targetTLI": 2}}),
    (RESTORE, {"into": "Verify", "recoveryTarget": {"targetTime": "2026-11-24T06:45:00Z"}}),
    (RESTORE, proof(amcheck="Off", queries=[])),
    (RESTORE, proof(queries=[{"database": "a", "sql": "SELECT 1", "expect": "1"}])),
    (RESTORE, proof(storage={"storageClassName": "fast"}, resources={"limits": {"memory": "1Gi"}})),
    (RESTORE, proof(storage={"size": "1Gi"}, amcheck="Off", queries=[]) | from_store()),
    (RESTORE, proof(storage={"size": "1Gi"}) | from_claim() | {"recoveryTarget": {"targetLSN": "0/1"}}),
    (RESTORE, {"recoveryTarget": {"targetTLI": 1}}),
    (RESTORE, {"postgresql": {"passwordSecretRef": {"name": "p"}, "storage": {"size": "2Gi"}}}),
    (RESTORE, from_store()),
    (RESTORE, from_store(targetURL="gs://b_u.cket/x/shop/db/7300000000000000001")),
    (RESTORE, from_store(targetURL="azblob://a-b/x/shop/db/7300000000000000001", endpointURL="https://a:1")),
    (BACKUP, {"targetURL": "gs://bucket_1/a/b/", "endpointURL": "https://store.example"}),
    (BACKUP, {"targetURL": "azblob://backups", "endpointURL": "http://azurite:10000"}),
    (BACKUP, on_claim()),
    (BACKUP, on_claim(targetURL="pvc://c", encryption={"passphraseSecretRef": {"name": "words"}})),
    (BACKUP, on_claim(targetURL="pvc://db-data.old/x")),
    (RESTORE, from_claim()),
    (
        RESTORE,
        from_store(
            endpointURL="https://store:7070",
            region="eu-central-1",
            caSecretRef={"name": "ca"},
            encryption={"passphraseSecretRef": {"name": "words"}},
        )
        | {"postgresql": {"defaultUser": "ada"}},
    ),
]
CHANGES: list[tuple[Kind, Json, list[str]]] = [
    (BACKUP, {"databaseRef": {"name": "other"}}, ["spec.databaseRef 'other' cannot replace 'db'"]),
    (BACKUP, {"databaseRef": {"group": "database.db.example.com"}}, ["spec.databaseRef"]),
    (RESTORE, {"databaseRef": {"name": "other"}}, ["spec cannot change", "create another Restore"]),
    (RESTORE, {"recoveryTarget": {"immediate": True}}, ["spec cannot change"]),
    (RESTORE, {"into": "InPlace"}, ["spec cannot change"]),
    (RESTORE, databases({"name": "a"}), ["spec cannot change"]),
    (RESTORE, {"verify": {}}, ["spec cannot change"]),
    (RESTORE, {"postgresql": {}}, ["spec cannot change"]),
]


@pytest.mark.parametrize(("kind", "patch", "said"), BAD, ids=lambda value: str(value)[:60])
def test_bad_spec_is_refused_by_name(api: Api, kind: Kind, patch: Json, said: list[str]) -> None:
    body = kind.resource("bad", merged(MINIMAL_SPECS[kind.id], patch))
    answer = api.create(kind.collection, body, dry_run=True)
    assert answer.status == 422, answer.message or "admitted"
    assert "evaluating rule" not in answer.message
    assert [words for words in said if words not in answer.message] == [], answer.message


@pytest.mark.parametrize(("kind", "patch"), GOOD, ids=lambda value: str(value)[:60])
def test_good_spec_is_admitted(api: Api, kind: Kind, patch: Json) -> None:
    body = kind.resource("good", merged(MINIMAL_SPECS[kind.id], patch))
    api.create(kind.collection, body, dry_run=True).accepted()


@pytest.mark.parametrize("kind", [BACKUP, RESTORE], ids=lambda kind: kind.id)
def test_the_longest_name_is_admitted_and_no_longer_one(api: Api, kind: Kind) -> None:
    spec = MINIMAL_SPECS[kind.id]
    api.create(kind.collection, kind.resource("n" * 40, spec), dry_run=True).accepted()
    answer = api.create(kind.collection, kind.resource("n" * 41, spec), dry_run=True)
    assert answer.status == 422
    assert f"metadata.name '{'n' * 41}'" in answer.message


@pytest.mark.parametrize(("kind", "patch", "said"), CHANGES, ids=lambda value: str(value)[:60])
def test_what_cannot_change(
    api: Api, new_name: Callable[[], str], kind: Kind, patch: Json, said: list[str]
) -> None:
    path = f"{kind.collection}/{new_name()}"
    api.create(kind.collection, kind.resource(path.rpartition("/")[2], MINIMAL_SPECS[kind.id])).accepted()
    answer = api.merge(path, {"spec": patch})
    assert answer.status == 422
    assert [words for words in said if words not in answer.message] == [], answer.message


def test_a_backup_can_be_edited(api: Api, new_name: Callable[[], str]) -> None:
    path = f"{BACKUP.collection}/{new_name()}"
    api.create(
        BACKUP.collection, BACKUP.resource(path.rpartition("/")[2], MINIMAL_SPECS[BACKUP.id])
    ).accepted()
    api.merge(path, {"spec": {"suspend": True, "schedule": "0 3 * * *", "verify": {}}}).accepted()


def test_a_restore_in_place_is_undone_and_that_is_not_taken_back(
    api: Api, new_name: Callable[[], str]
) -> None:
    name = new_name()
    path = f"{RESTORE.collection}/{name}"
    spec = {**MINIMAL_SPECS[RESTORE.id], "into": "InPlace"}
    api.create(RESTORE.collection, RESTORE.resource(name, spec)).accepted()
    api.merge(path, {"spec": {"undo": True}}).accepted()
    for taken_back in (False, None):
        answer = api.merge(path, {"spec": {"undo": taken_back}})
        assert answer.status == 422
        assert "spec.undo cannot be taken back" in answer.message
    assert "spec cannot change" in api.merge(path, {"spec": {"into": None, "undo": None}}).message


@pytest.mark.parametrize("name", ["backup", "restore"])
def test_samples_are_admitted_word_by_word(api: Api, name: str) -> None:
    kind = BACKUP if name == "backup" else RESTORE
    sample = yaml.safe_load((REPOSITORY / "samples" / "backup" / f"{name}.yaml").read_text())
    api.create(kind.collection, sample, dry_run=True).accepted()


def test_the_server_keeps_the_status_as_it_is_written(api: Api, new_name: Callable[[], str]) -> None:
    """No field of it is unknown, and none is changed."""
    name = new_name()
    api.create(BACKUP.collection, BACKUP.resource(name, MINIMAL_SPECS[BACKUP.id])).accepted()
    cr = backups.backup(verify={}, schedule="0 3 * * *")
    for objects in (
        {},
        backups.finished(cr, "nightly-now-1"),
        backups.finished(cr, "nightly-verify-now-1", action="verify"),
    ):
        seen = backups.observed({**backups.secrets(), **objects})
        cr["status"] |= backups.KIND.durable_state(cr, seen)
    seen = backups.observed()
    report = backups.KIND.status(cr, seen, SyncResult(in_sync=True))
    status = with_transition_times(with_stalled(report), known={}, now=seen.now) | cr["status"]
    assert {"runs", "verified", "restoreDuration", "attempts", "latestRestorableTime"} <= status.keys()
    api.merge(f"{BACKUP.collection}/{name}/status", {"status": status}).accepted()
    kept = api.get(f"{BACKUP.collection}/{name}").accepted()["status"]
    assert kept == status


def test_the_guides_first_backup_is_taken_as_it_stands(api: Api) -> None:
    (_setting, manifest) = (
        body for language, _, body in guides.blocks(guides.FIRST_BACKUP) if language == "yaml"
    )
    api.create(BACKUP.collection, yaml.safe_load(manifest), dry_run=True).accepted()


@pytest.mark.parametrize(
    "name",
    [
        "backup-full",
        "restore-time",
        "restore-databases",
        "restore-verify",
        "restore-store",
        "restore-store-verify",
    ],
)
def test_the_server_keeps_the_children_as_they_are_made(api: Api, name: str) -> None:
    """What it would change would be written again and again."""
    kind = KINDS[name.partition("-")[0]]
    meta = {"namespace": "default", "name": "one", "uid": "cr-uid", "generation": 1}
    # The Secret that is there has no passphrase.
    spec = json.loads(json.dumps(SPECS[name]).replace('"ours"', '"store"'))
    for part in (spec, spec.get("source", {})):
        part.pop("encryption", None)
    cr: Json = {"metadata": meta, "spec": spec, "status": STATUS[name]}
    seen = backups.observed()
    moved = {replace_namespace(ref): obj for ref, obj in seen.objects.items()}
    watched = {replace_namespace(ref): obj for ref, obj in seen.watched.items()}
    world = applied(kind, cr, replace(seen, objects=moved, watched=watched))
    types = set()
    for child in kind.desired(cr, world):
        body = json.loads(json.dumps(child.body))
        body["metadata"].pop("ownerReferences", None)
        body |= {"apiVersion": child.type.api_version, "kind": child.type.kind}
        path = child.type.path(namespace="default")
        kept = api.create(path, body, dry_run=True).accepted()
        assert satisfies(body, kept), child.ref
        types.add(child.type)
    assert types >= ({CRON_JOB, JOB} if name == "backup-full" else {JOB, NETWORK_POLICY})
    assert (VOLUME_CLAIM in types) == (name in ("restore-time", "restore-store"))
    opens = name in ("backup-full", "restore-store", "restore-store-verify")
    assert (SECRET in types) == opens, "the Backup's own opens its store"


def replace_namespace(ref: Ref) -> Ref:
    return ref._replace(namespace="default")
