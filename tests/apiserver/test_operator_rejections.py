"""Rejections by the server: the status has its message, retries are rare, and it recovers once allowed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest
from kindling.kinds.base import Kind
from kindling.kinds.conditions import rfc3339
from kindling.kinds.metadata import INSTANCE_LABEL, labels_of
from kindling.kinds.postgresql.growth import GROWN, PENDING
from kindling.kube.resources import (
    DEPLOYMENT,
    POD,
    SERVICE,
    STATEFUL_SET,
    VOLUME_CLAIM,
    Ref,
    ResourceType,
)

from tests.apiserver.support.apiclient import Json
from tests.apiserver.support.audit import wait_until
from tests.apiserver.support.cluster import KINDS_BY_NAME, Cluster, path, ref_to
from tests.apiserver.support.kinds import POSTGRESQL
from tests.apiserver.support.models import EACH_RUNNER, MAKERS, copy_of, models
from tests.apiserver.test_operator_api_writes import CHANGES

WORKLOADS = (DEPLOYMENT, STATEFUL_SET)
REFUSED_SECONDS = 3.0
# By doubling, from the first pause on; one each for what else makes it look again, and some to spare.
ATTEMPTS = 12
REPAIR_SECONDS = 5.0
POLICY_SECONDS = 20.0
HEALING_SECONDS = 30.0
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
WORDS = "not while the auditors are in"

pytestmark = pytest.mark.usefixtures("replica")


@pytest.fixture(scope="module")
def prototypes(running_cluster: Cluster, namespace: str, replica: object) -> dict[str, dict[Ref, Json]]:
    return models(running_cluster, namespace)


@EACH_RUNNER
def test_quota_is_reported_and_waited_for(running_cluster: Cluster, kind: Kind) -> None:
    """A Service or Deployment too many: the others are applied at once, the last once the quota allows."""
    cluster = running_cluster
    namespace = cluster.namespace(f"quota-{list(MAKERS.values()).index(kind)}")
    type = SERVICE if SERVICE in kind.children else DEPLOYMENT
    quota = f"/api/v1/namespaces/{namespace}/resourcequotas"
    counted = f"count/{type.plural}" + (f".{type.group}" if type.group else "")
    cluster.api.create(quota, {"metadata": {"name": "none"}, "spec": {"hard": {counted: "0"}}}).accepted()
    wait_until(
        lambda: "hard" in cluster.api.get(f"{quota}/none").accepted().get("status", {}),
        seconds=POLICY_SECONDS,
        what="the quota in force",
    )
    ref, mark = ref_to(kind, namespace, "poor"), cluster.audit.mark()
    cluster.create(kind, namespace, ref.name)
    ready = cluster.wait_ready_reason(ref, "ApplyRejected")
    assert ready["status"] == "False"
    assert "exceeded quota: none" in ready["message"]
    with _watched(cluster, mark, namespace=namespace, type=type):
        _others_are_repaired(cluster, kind, ref)
        time.sleep(REFUSED_SECONDS)
    cluster.api.delete(f"{quota}/none").accepted()
    _heals(cluster, ref)
    assert cluster.list(type, namespace, selector={INSTANCE_LABEL: ref.name})


@contextmanager
def _watched(cluster: Cluster, mark: int, *, namespace: str, type: ResourceType) -> Iterator[None]:
    """Afterwards, what is refused was not asked for too often."""
    yield
    refused = [
        request
        for request in cluster.audit.requests(mark)
        if request.resource == type.plural and request.namespace == namespace and request.code in (403, 422)
    ]
    status = [request for request in cluster.audit.writes(mark, namespace=namespace) if request.status]
    print(f"refused {len(refused)} times, {len(status)} writes of the status")
    assert 1 <= len(refused) <= 2 * ATTEMPTS
    assert len(status) <= 4


def _others_are_repaired(cluster: Cluster, kind: Kind, ref: Ref) -> None:
    """Whatever of its other children is there, one of them comes back when it is deleted."""
    there = cluster.children(kind, ref.namespace, ref.name)
    others = [child for child in there if child.type not in (*WORKLOADS, VOLUME_CLAIM)]
    if others:
        child = others[-1]
        uid = there[child]["metadata"]["uid"]
        cluster.delete(child)
        wait_until(
            lambda: (cluster.get(child) or {}).get("metadata", {}).get("uid") not in (None, uid),
            seconds=REPAIR_SECONDS,
            what=f"{child} made again",
        )


def _heals(cluster: Cluster, ref: Ref) -> None:
    took = wait_until(
        lambda: cluster.ready(ref).get("reason") != "ApplyRejected",
        seconds=HEALING_SECONDS,
        what=lambda: f"{ref} healed: {cluster.ready(ref)}",
    )
    cluster.wait_settled(ref)
    print(f"healed after {took:.1f} s")


@EACH_RUNNER
def test_policy_is_reported_and_waited_for(running_cluster: Cluster, kind: Kind) -> None:
    """A policy against the workload's change: the edit is not lost, and is applied once the policy allows."""
    cluster = running_cluster
    number = list(MAKERS.values()).index(kind)
    namespace = cluster.namespace(f"policy-{number}", audited=f"yes-{number}")
    ref = ref_to(kind, namespace, "audited")
    cluster.create(kind, namespace, ref.name)
    cluster.wait_settled(ref)
    workload = next(child for child in cluster.children(kind, namespace, ref.name) if child.type in WORKLOADS)
    with _policy(cluster, f"policy-{number}", label=f"yes-{number}", probe=workload):
        mark = cluster.audit.mark()
        cluster.merge(ref, {"spec": CHANGES[f"{kind.type.plural}.{kind.type.group}"]})
        ready = cluster.wait_ready_reason(ref, "ApplyRejected")
        assert WORDS in ready["message"]
        with _watched(cluster, mark, namespace=namespace, type=workload.type):
            _others_are_repaired(cluster, kind, ref)
            time.sleep(REFUSED_SECONDS)
        before = cluster.get(workload)
        assert before is not None
    _heals(cluster, ref)
    after = cluster.get(workload)
    assert after is not None
    assert after["metadata"]["generation"] > before["metadata"]["generation"]


@contextmanager
def _policy(cluster: Cluster, name: str, *, label: str, probe: Ref) -> Iterator[None]:
    """Nothing of apps is changed in the namespaces of that label while it lasts."""
    policies, bindings = (
        f"{ADMISSION}/validatingadmissionpolicies",
        f"{ADMISSION}/validatingadmissionpolicybindings",
    )
    rule = {
        "apiGroups": ["apps"],
        "apiVersions": ["v1"],
        "operations": ["UPDATE"],
        "resources": [probe.type.plural],
    }
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "object.spec == oldObject.spec", "message": WORDS}],
    }
    cluster.api.create(policies, {"metadata": {"name": name}, "spec": spec}).accepted()
    where = {"namespaceSelector": {"matchLabels": {"audited": label}}}
    bound = {"policyName": name, "validationActions": ["Deny"], "matchResources": where}
    cluster.api.create(bindings, {"metadata": {"name": name}, "spec": bound}).accepted()
    change = {"spec": {"replicas": 0}}

    def refuses() -> bool:
        answer = cluster.api.request(
            "PATCH",
            path(probe),
            body=change,
            query={"dryRun": "All"},
            content_type="application/merge-patch+json",
        )
        return WORDS in answer.message

    wait_until(refuses, seconds=POLICY_SECONDS, what="the policy in force")
    try:
        yield
    finally:
        cluster.api.delete(f"{bindings}/{name}").accepted()
        cluster.api.delete(f"{policies}/{name}").accepted()


@EACH_RUNNER
def test_immutable_field_is_reported_and_applied_once_the_object_is_gone(
    running_cluster: Cluster, namespace: str, prototypes: dict[str, dict[Ref, Json]], kind: Kind
) -> None:
    """An earlier operator's workload, with another selector or Service than today's."""
    cluster, crd = running_cluster, f"{kind.type.plural}.{kind.type.group}"
    number = list(MAKERS).index(crd)
    child, body = next((ref, body) for ref, body in prototypes[crd].items() if ref.type in WORKLOADS)
    old = copy_of(body, prototype=f"prototype-{number}", name=f"old-{number}", owner=None)
    old["metadata"]["labels"] = labels_of(kind.type, {"metadata": {"name": f"old-{number}"}})
    old["spec"]["selector"]["matchLabels"]["era"] = "old"
    old["spec"]["template"]["metadata"]["labels"]["era"] = "old"
    cluster.api.create(child.type.path(namespace=namespace), old).accepted()
    ref, workload = (
        ref_to(kind, namespace, f"old-{number}"),
        Ref(child.type, namespace, old["metadata"]["name"]),
    )
    cluster.create(kind, namespace, ref.name)
    ready = cluster.wait_ready_reason(ref, "ApplyRejected")
    assert "spec" in ready["message"]
    print(ready["message"])
    cluster.delete(workload)
    _heals(cluster, ref)


def test_volume_that_cannot_grow_is_reported_and_grows_once_it_may(
    running_cluster: Cluster, namespace: str
) -> None:
    cluster, kind = running_cluster, KINDS_BY_NAME[POSTGRESQL.id]
    classes = "/apis/storage.k8s.io/v1/storageclasses"
    body = {"metadata": {"name": "rigid"}, "provisioner": "example.com/rigid", "allowVolumeExpansion": False}
    cluster.api.create(classes, body).accepted()
    ref = ref_to(kind, namespace, "growing")
    cluster.create(kind, namespace, ref.name, {"storage": {"size": "1Gi", "storageClassName": "rigid"}})
    cluster.wait_settled(ref)
    claim = next(c for c in cluster.children(kind, namespace, ref.name) if c.type == VOLUME_CLAIM)
    # What a provisioner does.
    cluster.merge(claim, {"spec": {"volumeName": "some-volume"}})
    bound = {"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}}
    cluster.api.merge(f"{path(claim)}/status", bound).accepted()
    cluster.merge(ref, {"spec": {"storage": {"size": "2Gi"}}})
    ready = cluster.wait_ready_reason(ref, "ApplyRejected")
    assert "resize" in ready["message"]
    assert "set spec.storage.size to '1Gi'" in ready["message"]
    cluster.merge(ref, {"spec": {"storage": {"size": "1Gi"}}})
    _heals(cluster, ref)
    cluster.merge(ref, {"spec": {"storage": {"size": "2Gi"}}})
    cluster.wait_ready_reason(ref, "ApplyRejected")
    cluster.api.merge(f"{classes}/rigid", {"allowVolumeExpansion": True}).accepted()
    _heals(cluster, ref)
    grown = cluster.get(claim)
    assert grown is not None
    assert grown["spec"]["resources"]["requests"]["storage"] == "2Gi"


def test_a_volume_grows_by_itself_and_a_class_that_cannot_is_said_in_words(
    running_cluster: Cluster, namespace: str
) -> None:
    """The server ended on a full volume; the test is the kubelet, and the driver that expands it."""
    cluster, kind = running_cluster, KINDS_BY_NAME[POSTGRESQL.id]
    classes = "/apis/storage.k8s.io/v1/storageclasses"
    body = {"metadata": {"name": "stiff"}, "provisioner": "example.com/stiff", "allowVolumeExpansion": False}
    cluster.api.create(classes, body).accepted()
    ref = ref_to(kind, namespace, "filling")
    storage = {"storageClassName": "stiff", "autoGrow": {"maxSize": "1400Mi"}}
    cluster.create(kind, namespace, ref.name, {"storage": storage})
    cluster.wait_settled(ref)
    claim = next(c for c in cluster.children(kind, namespace, ref.name) if c.type == VOLUME_CLAIM)

    def give(size: str) -> None:
        bound = {"status": {"phase": "Bound", "capacity": {"storage": size}}}
        cluster.api.merge(f"{path(claim)}/status", bound).accepted()

    def asked() -> str:
        found = cluster.get(claim)
        assert found is not None
        return str(found["spec"]["resources"]["requests"]["storage"])

    def asks(size: str) -> None:
        wait_until(lambda: asked() == size, seconds=HEALING_SECONDS, what=lambda: f"{size}, not {asked()}")

    def is_noted() -> bool:
        found = cluster.get(claim)
        return found is not None and found["metadata"]["annotations"].get(GROWN) not in (None, PENDING)

    cluster.merge(claim, {"spec": {"volumeName": "another-volume"}})
    give("1Gi")
    _fills_its_volume(cluster, namespace, ref.name)
    ready = cluster.wait_ready_reason(ref, "ApplyRejected")
    assert "spec.storage.autoGrow has the volume ask for 1229Mi" in ready["message"]
    assert asked() == "1Gi"
    cluster.api.merge(f"{classes}/stiff", {"allowVolumeExpansion": True}).accepted()
    asks("1229Mi")
    give("1229Mi")
    wait_until(is_noted, seconds=HEALING_SECONDS, what="the note of the growth")
    cluster.wait_ready_reason(ref, "DiskFull")
    # Once it has that, the same end of the server is no reason for more.
    cluster.merge(ref, {"metadata": {"annotations": {"look": "again"}}})
    cluster.wait_settled(ref)
    assert asked() == "1229Mi"
    _fills_its_volume(cluster, namespace, ref.name)
    asks("1400Mi")
    give("1400Mi")
    wait_until(is_noted, seconds=HEALING_SECONDS, what="the note of the growth")
    _fills_its_volume(cluster, namespace, ref.name)

    def is_at_limit() -> bool:
        conditions = (cluster.get(ref) or {})["status"]["conditions"]
        return "MaxSizeReached" in [item["reason"] for item in conditions]

    wait_until(is_at_limit, seconds=HEALING_SECONDS, what="VolumeAtLimit")
    found = cluster.get(ref)
    assert found is not None
    assert found["spec"]["storage"] == storage
    assert found["status"]["storage"]["capacity"] == "1400Mi"


def _fills_its_volume(cluster: Cluster, namespace: str, name: str) -> None:
    """What the kubelet says of a server that has started once more, and ended because nothing was left."""
    time.sleep(1.1)  # its times are in whole seconds
    now = rfc3339(datetime.now(UTC))
    said = "[1] PANIC:  could not write to file: No space left on device"
    ended = {"exitCode": 1, "startedAt": now, "finishedAt": now, "reason": "Error", "message": said}
    pod = Ref(POD, namespace, f"{name}-0")
    status = (cluster.get(pod) or {})["status"]
    conditions = [
        {**item, "status": "False"} if item["type"].endswith("Ready") else item
        for item in status["conditions"]
    ]
    containers = [
        {**item, "ready": False, "started": False, "state": {"terminated": ended}}
        for item in status["containerStatuses"]
    ]
    patch = {"status": {"conditions": conditions, "containerStatuses": containers}}
    cluster.api.merge(f"{path(pod)}/status", patch).accepted()
