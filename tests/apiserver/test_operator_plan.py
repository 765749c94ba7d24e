"""spec.mode Plan and spec.planFor by the operator's process: the status has the plan, and nothing is done."""

from __future__ import annotations

from typing import Any

import pytest
from kindling.kube.resources import STATEFUL_SET, Ref

from tests.apiserver.support.apiclient import Json
from tests.apiserver.support.audit import wait_until
from tests.apiserver.support.cluster import KINDS_BY_NAME, Cluster, ref_to
from tests.apiserver.support.kinds import POSTGRESQL

SECONDS = 20.0
KIND = KINDS_BY_NAME[POSTGRESQL.id]
EDIT: Json = {
    "resources": {"limits": {"memory": "1Gi"}},
    "deletionPolicy": "Delete",
    "serviceTemplate": {"metadata": {"labels": {"team": "shop"}}},
}
EXPECTED = {
    "PersistentVolumeClaim/{}-data": ["spec.deletionPolicy"],
    "ConfigMap/{}-config": ["spec.resources.limits.memory"],
    "Service/{}": ["spec.serviceTemplate.metadata.labels"],
    "StatefulSet/{}": ["spec.resources"],
}

pytestmark = pytest.mark.usefixtures("replica")


def plan(cluster: Cluster, ref: Ref) -> dict[str, Any]:
    """The plan of the spec as it stands: by object, its item."""

    def found() -> Any:
        resource = cluster.get(ref) or {}
        status = resource.get("status") or {}
        current = status.get("observedGeneration") == resource["metadata"]["generation"]
        return status.get("plan") if current else None

    wait_until(lambda: found() is not None, seconds=SECONDS, what=lambda: f"a plan: {cluster.get(ref)}")
    return {item.get("object", item["action"]): item for item in found()["items"]}


def versions(cluster: Cluster, namespace: str, name: str) -> dict[Ref, str]:
    children = cluster.children(KIND, namespace, name)
    return {ref: found["metadata"]["resourceVersion"] for ref, found in children.items()}


def made(cluster: Cluster, namespace: str, name: str, spec: Json) -> Ref:
    ref = ref_to(KIND, namespace, name)
    cluster.create(KIND, namespace, name, spec)
    cluster.wait_settled(ref)
    return ref


def of_children(found: dict[str, Any]) -> dict[str, Any]:
    return {name: item.get("fields") for name, item in found.items() if "/" in name}


def test_an_edit_is_planned_and_done_once_the_mode_is_gone(running_cluster: Cluster, namespace: str) -> None:
    cluster = running_cluster
    ref = made(cluster, namespace, "edited", {})
    before = versions(cluster, namespace, "edited")
    cluster.merge(ref, {"spec": {"mode": "Plan"}})
    assert of_children(plan(cluster, ref)) == {}
    cluster.merge(ref, {"spec": EDIT})
    found = plan(cluster, ref)
    assert of_children(found) == {name.format("edited"): fields for name, fields in EXPECTED.items()}
    assert {item["action"] for name, item in found.items() if "/" in name} == {"Update"}
    cluster.audit.wait_quiet()
    assert versions(cluster, namespace, "edited") == before
    cluster.merge(ref, {"spec": {"mode": "Apply"}})
    cluster.wait_settled(ref)
    after = versions(cluster, namespace, "edited")
    written = {f"{child.type.kind}/{child.name}" for child in before if after[child] != before[child]}
    assert written >= {name.format("edited") for name in EXPECTED}
    assert "plan" not in (cluster.get(ref) or {})["status"]
    workload = cluster.get(Ref(STATEFUL_SET, namespace, "edited")) or {}
    (server,) = [
        each for each in workload["spec"]["template"]["spec"]["containers"] if each["name"] == "postgres"
    ]
    assert server["resources"]["limits"]["memory"] == "1Gi"


def test_a_plan_for_another_resource_says_the_same_and_touches_nothing(
    running_cluster: Cluster, namespace: str
) -> None:
    cluster = running_cluster
    ref = made(cluster, namespace, "other", {})
    before, resource = versions(cluster, namespace, "other"), cluster.get(ref)
    asker = ref_to(KIND, namespace, "plan-other")
    cluster.create(KIND, namespace, asker.name, {**EDIT, "mode": "Plan", "planFor": "other"})
    found = plan(cluster, asker)
    assert of_children(found) == {name.format("other"): fields for name, fields in EXPECTED.items()}
    cluster.audit.wait_quiet()
    assert cluster.children(KIND, namespace, asker.name) == {}
    assert (versions(cluster, namespace, "other"), cluster.get(ref)) == (before, resource)
    assert cluster.ready(asker)["reason"] == "Paused"
    cluster.delete(asker)
    wait_until(lambda: cluster.get(asker) is None, seconds=SECONDS, what="its deletion")
    cluster.audit.wait_quiet()
    assert (versions(cluster, namespace, "other"), cluster.get(ref)) == (before, resource)


def test_what_does_not_exist_is_planned_whole(running_cluster: Cluster, namespace: str) -> None:
    cluster = running_cluster
    asker = ref_to(KIND, namespace, "plan-none")
    cluster.create(KIND, namespace, asker.name, {"mode": "Plan", "planFor": "none"})
    found = plan(cluster, asker)
    assert {item["action"] for item in found.values()} == {"Create"}
    assert {"StatefulSet/none", "Service/none", "PersistentVolumeClaim/none-data"} <= found.keys()
    cluster.audit.wait_quiet()
    assert cluster.children(KIND, namespace, "none") == {}
