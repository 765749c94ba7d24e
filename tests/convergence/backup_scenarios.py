"""Scenarios of the kinds that work with a store: a Backup of a database, and a Restore into another one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from kindling.kinds.backup.runs import BACKUP as RUN
from kindling.kinds.metadata import NAME_LABEL
from kindling.kube.resources import CONFIG_MAP, CRON_JOB, JOB, NETWORK_POLICY, SECRET, Ref, ResourceType

from tests.apiserver.support.apiclient import Json
from tests.apiserver.support.cluster import KINDS_BY_NAME, Cluster, path
from tests.apiserver.support.kinds import BACKUP, POSTGRESQL, POSTGRESQL_EXAMPLE, RESTORE
from tests.convergence import database
from tests.convergence.backup_runs import KEYS, RIGHT, WRONG, keys
from tests.convergence.scenario import FIRST, NAME, WORD, Act, Scenario, delete, edit, secret

DATABASE, CLONE, SOURCE = "db", "clone", "nightly"
"""The database, the one that is restored, and the Backup that it is restored from."""
_DATABASE, _OTHER_DATABASE, _BACKUP, _RESTORE = (
    KINDS_BY_NAME[kind.id] for kind in (POSTGRESQL, POSTGRESQL_EXAMPLE, BACKUP, RESTORE)
)
STORE: Json = {
    "endpointURL": "https://store.invalid:7070",
    "credentialsSecretRef": {"name": KEYS},
}


def scenarios() -> Iterator[Scenario]:
    yield from _of_backups()
    yield from _of_restores()


def _of_backups() -> Iterator[Scenario]:
    def scenario(
        what: str, act: Act, *, secret_key: str = RIGHT, creates: bool = False, **spec: str
    ) -> Scenario:
        return Scenario(
            name=f"Backup {what}",
            kind=_BACKUP,
            act=act,
            spec=lambda namespace: {**_backup(namespace), **spec},
            before=_with_database(secret_key),
            creates=creates,
            password=FIRST,
            beside=((_DATABASE.type, DATABASE),),
            once=True,
        )

    yield scenario("created", _create_backup(NAME), creates=True)
    yield scenario("run repeated", _create_backup(NAME), secret_key=WRONG, creates=True)
    yield scenario("schedule", edit({"schedule": "30 4 * * 0"}))
    yield scenario("suspended", edit({"suspend": True}))
    yield scenario("verified", edit({"verify": {}}))
    yield scenario("scheduled run", _scheduled_run)
    yield scenario("job deleted", _delete_job)
    yield scenario("children deleted", _delete_some_children)
    yield scenario("children edited, and no schedule any more", _edit_children_and_schedule)
    yield scenario("deleted", delete)
    # The one server of the databases archives for ever; without its database, a Backup need not wait for it.
    yield scenario("deleted with its backups", _delete_with_database, deletionPolicy="Delete")


def _of_restores() -> Iterator[Scenario]:
    def scenario(
        what: str,
        act: Act,
        *beside: tuple[ResourceType, str],
        spec: Callable[[str], Json],
        before: Act | None = None,
        creates: bool = True,
        password: str = FIRST,
    ) -> Scenario:
        return Scenario(
            name=f"Restore {what}",
            kind=_RESTORE,
            act=act,
            spec=spec,
            before=before or _with_backup,
            creates=creates,
            password=password,
            beside=beside,
            once=True,
        )

    source = (_DATABASE.type, DATABASE), (_BACKUP.type, SOURCE)
    beside = ((_DATABASE.type, CLONE), *source)
    yield scenario("created", _create_restore(_of_backup), *beside, spec=_of_backup)
    yield scenario("deleted", delete, *beside, spec=_of_backup, creates=False)
    yield scenario("in place", _create_restore(_in_place), *source, spec=_in_place)
    yield scenario("of databases", _create_restore(_databases), *source, spec=_databases)
    yield scenario("checked and thrown away", _create_restore(_proof), *source, spec=_proof)
    yield scenario("undone", edit({"undo": True}), *source, spec=_in_place, creates=False)
    for what, kind in (("a store", _DATABASE), ("a store, in the other group", _OTHER_DATABASE)):
        spec = partial(_of_store, group=kind.type.group)
        keys_alone, clone = _with_keys(RIGHT), (kind.type, CLONE)
        yield scenario(f"of {what}", _create_restore(spec), clone, spec=spec, before=keys_alone)
    proof = _create_restore(_proof_of_store)
    thrown_away, keys_alone = "of a store, checked and thrown away", _with_keys(RIGHT)
    yield scenario(thrown_away, proof, spec=_proof_of_store, before=keys_alone, password="")


def _backup(namespace: str) -> Json:
    return {
        **STORE,
        "databaseRef": {"name": DATABASE},
        "targetURL": "s3://bucket/prefix",
        "schedule": "0 3 * * *",
    }


def _of_backup(namespace: str) -> Json:
    return {
        "source": {"backupRef": {"name": SOURCE}},
        "databaseRef": {"name": CLONE},
        "postgresql": {"passwordSecretRef": {"name": WORD}},
    }


def _in_place(namespace: str) -> Json:
    """Into the database that is backed up."""
    return {
        "source": {"backupRef": {"name": SOURCE}},
        "databaseRef": {"name": DATABASE},
        "into": "InPlace",
    }


def _databases(namespace: str) -> Json:
    """One of them into the server that is backed up."""
    return {**_in_place(namespace), "into": "Databases", "databases": [{"name": "shop", "as": "before"}]}


def _proof(namespace: str) -> Json:
    return {**_in_place(namespace), "into": "Verify", "verify": {"queries": []}}


def _create_restore(spec: Callable[[str], Json]) -> Act:
    def create(cluster: Cluster, ref: Ref) -> None:
        cluster.create(_RESTORE, ref.namespace, ref.name, spec(ref.namespace))

    return create


def _of_store(namespace: str, *, group: str) -> Json:
    """The data of the one server that all have."""
    target = f"s3://bucket/prefix/{namespace}/{DATABASE}/{database.identifier()}"
    return {
        "source": {**STORE, "targetURL": target},
        "databaseRef": {"name": CLONE, "group": group},
        "postgresql": {"defaultUser": namespace, "passwordSecretRef": {"name": WORD}},
    }


def _proof_of_store(namespace: str) -> Json:
    """Where there is nothing but the store."""
    source = _of_store(namespace, group=_DATABASE.type.group)["source"]
    verify = {"storage": {"size": "1Gi"}}
    return {"source": source, "databaseRef": {"name": DATABASE}, "into": "Verify", "verify": verify}


def _with_keys(secret_key: str) -> Act:
    """The store's keys, and the password of the databases, which have one user in one server."""

    def make(cluster: Cluster, ref: Ref) -> None:
        secret(FIRST)(cluster, ref)
        body = {"metadata": {"name": KEYS}, "stringData": keys(secret_key)}
        cluster.api.create(SECRET.path(namespace=ref.namespace), body).accepted()

    return make


def _with_database(secret_key: str) -> Act:
    def make(cluster: Cluster, ref: Ref) -> None:
        _with_keys(secret_key)(cluster, ref)
        spec = {"defaultUser": ref.namespace, "passwordSecretRef": {"name": WORD}}
        cluster.create(_DATABASE, ref.namespace, DATABASE, spec)

    return make


def _with_backup(cluster: Cluster, ref: Ref) -> None:
    _with_database(RIGHT)(cluster, ref)
    _create_backup(SOURCE)(cluster, ref)


def _create_backup(name: str) -> Act:
    def create(cluster: Cluster, ref: Ref) -> None:
        cluster.create(_BACKUP, ref.namespace, name, _backup(ref.namespace))

    return create


def _scheduled_run(cluster: Cluster, ref: Ref) -> None:
    """The Job that the CronJob controller makes when it is time."""
    cron = cluster.get(Ref(CRON_JOB, ref.namespace, ref.name))
    assert cron is not None
    template = cron["spec"]["jobTemplate"]
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": ref.name, "uid": cron["metadata"]["uid"]}
    metadata = {
        **template["metadata"],
        "name": f"{ref.name}-29400000",
        "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
    }
    body = {"metadata": metadata, "spec": template["spec"]}
    cluster.api.create(JOB.path(namespace=ref.namespace), body).accepted()


def _delete_job(cluster: Cluster, ref: Ref) -> None:
    """As a time to live would, or a user who tidies up."""
    job = path(Ref(JOB, ref.namespace, f"{ref.name}-now-1"))
    cluster.api.request("DELETE", job, query={"propagationPolicy": "Background"}).accepted()


def _edit_children_and_schedule(cluster: Cluster, ref: Ref) -> None:
    for type, name in ((JOB, f"{ref.name}-now-1"), (CRON_JOB, ref.name)):
        cluster.merge(Ref(type, ref.namespace, name), {"metadata": {"labels": {NAME_LABEL: "edited"}}})
    cluster.merge(ref, {"spec": {"schedule": None}})


def _delete_with_database(cluster: Cluster, ref: Ref) -> None:
    cluster.delete(Ref(_DATABASE.type, ref.namespace, DATABASE))
    cluster.delete(ref)


def _delete_some_children(cluster: Cluster, ref: Ref) -> None:
    """Those without which a new run would differ. The archiver's files stay: when they come and go, the
    server is restarted, or is not if that is quick.
    """
    for type, name in (
        (SECRET, f"{ref.name}-{RUN}"),
        (CONFIG_MAP, f"{ref.name}-{RUN}"),
        (NETWORK_POLICY, f"{ref.name}-{RUN}"),
        (CRON_JOB, ref.name),
    ):
        cluster.delete(Ref(type, ref.namespace, name))
