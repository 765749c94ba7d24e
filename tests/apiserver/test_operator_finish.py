"""A resource with something to finish on the real API server: a Backup that deletes what it stored, a
PulsarConsumer that unsubscribes, and a Postgresql that was protected.
"""

from __future__ import annotations

from kindling.kinds.backup.deletion import FINALIZER
from kindling.kinds.postgresql import protection
from kindling.kinds.postgresql.volume import PROTECTION_LABEL
from kindling.kinds.pulsarconsumer import deletion
from kindling.kube.resources import DEPLOYMENT, JOB, POD, SECRET, VOLUME_CLAIM, Ref

from tests.apiserver.conftest import Replica
from tests.apiserver.support.apiclient import Json
from tests.apiserver.support.audit import wait_until
from tests.apiserver.support.cluster import KINDS_BY_NAME, Cluster, path
from tests.apiserver.support.kinds import BACKUP, MINIMAL_SPECS, POSTGRESQL, PULSAR_CONSUMER

KIND, CONSUMER = KINDS_BY_NAME[BACKUP.id], KINDS_BY_NAME[PULSAR_CONSUMER.id]
KEYS = {"accessKeyId": "key", "secretAccessKey": "secret"}
DATA = {"systemIdentifier": "7000000000000000001", "defaultUser": "app", "size": "1Gi"}
BEGUN = {
    "number": 1, "request": "backup", "result": "Succeeded", "at": "2026-01-01T00:00:00Z", "inputs": "abc",
}  # fmt: skip
"""A run that ended long ago, of a database that is gone."""

UNSUBSCRIBED = {"adminURL": "http://nobody.invalid:8080", "deletionPolicy": "Unsubscribe"}
SECONDS = 60.0


def stored(cluster: Cluster, namespace: str) -> Ref:
    """A Backup of a database that is gone, with something in a store."""
    cluster.api.create(
        SECRET.path(namespace=namespace), {"metadata": {"name": "store"}, "stringData": KEYS}
    ).accepted()
    cluster.create(KIND, namespace, "nightly", {**MINIMAL_SPECS[BACKUP.id], "deletionPolicy": "Delete"})
    made = Ref(KIND.type, namespace, "nightly")
    cluster.wait_ready_reason(made, "DatabaseNotFound")
    status: Json = {"status": {"attempts": {"backup": BEGUN}, "database": DATA}}
    cluster.api.merge(f"{path(made)}/status", status).accepted()
    assert (cluster.get(made) or {})["metadata"]["finalizers"] == [FINALIZER]
    return made


def test_it_is_gone_after_its_last_run(running_cluster: Cluster, replica: Replica) -> None:
    namespace = running_cluster.namespace("finish")
    made = stored(running_cluster, namespace)
    running_cluster.delete(made)
    job = Ref(JOB, namespace, "nightly-delete-1")
    wait_until(lambda: running_cluster.get(job) is not None, seconds=SECONDS, what=replica.process.log)
    found = running_cluster.get(made) or {}
    assert found["status"]["attempts"]["delete"]["result"] == "Started"
    # Whatever ends it without a result has not deleted anything.
    running_cluster.wait_ready_reason(made, "RunFailed")
    status = (running_cluster.get(made) or {})["status"]
    attempt, run = status["attempts"]["delete"], status["runs"][0]
    assert (attempt["number"], attempt["request"], attempt["result"]) == (1, "delete", "Failed")
    assert (run["name"], run["action"], run["phase"]) == (job.name, "delete", "Failed")
    running_cluster.merge(made, {"spec": {"deletionPolicy": "Retain"}})
    wait_until(lambda: running_cluster.get(made) is None, seconds=SECONDS, what=replica.process.log)
    assert len(running_cluster.list(POD, namespace, selector={"kindling.dev/run": "delete"})) <= 1


def delete_namespace(cluster: Cluster, replica: Replica, namespace: str) -> None:
    """And wait until it is gone."""
    place = f"/api/v1/namespaces/{namespace}"
    cluster.api.delete(place)
    wait_until(lambda: cluster.api.get(place).status == 404, seconds=SECONDS, what=replica.process.log)


def test_it_keeps_no_namespace_that_is_deleted(running_cluster: Cluster, replica: Replica) -> None:
    namespace = running_cluster.namespace("finish-never")
    stored(running_cluster, namespace)
    delete_namespace(running_cluster, replica, namespace)
    assert "let go unfinished, its namespace is being deleted" in replica.process.log()


def consumed(cluster: Cluster, namespace: str) -> Ref:
    """A PulsarConsumer that unsubscribes at a broker that nobody can ask."""
    spec = {**MINIMAL_SPECS[PULSAR_CONSUMER.id], **UNSUBSCRIBED}
    cluster.create(CONSUMER, namespace, "orders", spec)
    made = Ref(CONSUMER.type, namespace, "orders")
    workload = Ref(DEPLOYMENT, namespace, "orders-deployment")
    wait_until(lambda: cluster.get(workload) is not None, seconds=SECONDS, what="a Deployment")
    found = cluster.get(made) or {}
    assert found["metadata"]["finalizers"] == [deletion.FINALIZER]
    assert found["status"]["subscriptions"] == [{"topic": spec["topic"], "subscription": "printers"}]
    return made


def test_its_consumers_stop_and_it_waits_for_the_broker(running_cluster: Cluster, replica: Replica) -> None:
    namespace = running_cluster.namespace("unsubscribe")
    made = consumed(running_cluster, namespace)
    running_cluster.delete(made)
    running_cluster.wait_ready_reason(made, "AdminUnreachable")
    workload = running_cluster.get(Ref(DEPLOYMENT, namespace, "orders-deployment")) or {}
    assert workload["spec"]["replicas"] == 0
    assert running_cluster.list(POD, namespace, selector={}) == []
    assert running_cluster.ready(made)["message"].endswith(deletion.KEEP)
    running_cluster.merge(made, {"spec": {"deletionPolicy": "Retain"}})
    wait_until(lambda: running_cluster.get(made) is None, seconds=SECONDS, what=replica.process.log)


def test_a_consumer_keeps_no_namespace_that_is_deleted(running_cluster: Cluster, replica: Replica) -> None:
    namespace = running_cluster.namespace("unsubscribe-never")
    consumed(running_cluster, namespace)
    delete_namespace(running_cluster, replica, namespace)


def protected(cluster: Cluster, namespace: str) -> tuple[Ref, Ref]:
    """A database whose claim is protected, and the claim."""
    kind = KINDS_BY_NAME[POSTGRESQL.id]
    cluster.create(kind, namespace, "shop", {**MINIMAL_SPECS[POSTGRESQL.id], "deletionProtection": True})
    made, claim = Ref(kind.type, namespace, "shop"), Ref(VOLUME_CLAIM, namespace, "shop-data")
    wait_until(lambda: is_labelled(cluster, claim), seconds=SECONDS, what="a protected claim")
    assert (cluster.get(made) or {})["metadata"]["finalizers"] == [protection.FINALIZER]
    return made, claim


def is_labelled(cluster: Cluster, claim: Ref) -> bool:
    return PROTECTION_LABEL in ((cluster.get(claim) or {}).get("metadata") or {}).get("labels", {})


def test_a_claim_is_protected_no_longer_than_its_resource(running_cluster: Cluster, replica: Replica) -> None:
    """Deleted in the same moment as the field became false: the operator may see both at once."""
    made, claim = protected(running_cluster, running_cluster.namespace("protected"))
    running_cluster.merge(made, {"spec": {"deletionProtection": False}})
    running_cluster.delete(made)
    wait_until(lambda: running_cluster.get(made) is None, seconds=SECONDS, what=replica.process.log)
    assert running_cluster.get(claim) is not None
    assert not is_labelled(running_cluster, claim)
