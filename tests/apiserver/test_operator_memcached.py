"""What a real memcached says of itself gets into the status by the operator's process, and then it rests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kindling.kube.resources import CONFIG_MAP, DEPLOYMENT, DISRUPTION_BUDGET, POD, STATEFUL_SET, Ref

from tests.apiserver.support.audit import wait_until
from tests.apiserver.support.cluster import KINDS_BY_NAME, Cluster, ref_to
from tests.apiserver.support.kinds import MEMCACHED
from tests.apiserver.support.kubelet import ADDRESS
from tests.unit.operator.caches import Cache, running

KIND = KINDS_BY_NAME[MEMCACHED.id]
SECONDS = 30.0

pytestmark = pytest.mark.usefixtures("replica")


@pytest.fixture
def cache() -> Iterator[Cache]:
    """Where every Pod is said to be, so it is the one of each."""
    with running(ADDRESS) as found:
        yield found


def status(cluster: Cluster, ref: Ref) -> dict[str, Any]:
    found: dict[str, Any] = (cluster.get(ref) or {}).get("status", {})
    return found


def test_figures_of_a_real_cache_are_reported_and_nothing_is_written_at_rest(
    running_cluster: Cluster, namespace: str, cache: Cache
) -> None:
    words = [word for number in range(7) for word in (f"set k{number} 0 0 1", "x")]
    cache.talk(*words, "get k0", "get none", "mn", ends=b"MN\r\n")
    ref = ref_to(KIND, namespace, "busy")
    spec = {"containerPort": cache.port, "statistics": True, "binding": "ConfigMap"}
    running_cluster.create(KIND, namespace, ref.name, spec)
    wait_until(  # on a full machine it may not answer in time at first, and is asked again within minutes
        lambda: status(running_cluster, ref).get("statistics", {}).get("servers") == 1,
        seconds=300.0,
        what=lambda: f"figures in {status(running_cluster, ref)}",
    )
    running_cluster.wait_settled(ref)
    counters = cache.counters()
    assert counters["bytes"] > 99
    assert status(running_cluster, ref)["statistics"] == {
        "servers": 1,
        "hitRatioPercent": 50,
        "items": 7,
        "bytes": counters["bytes"] // 10 * 10,
        "evictions": 0,
    }
    listed = running_cluster.get(Ref(CONFIG_MAP, namespace, "busy-servers"))
    assert listed is not None
    assert listed["data"]["servers"].split() == status(running_cluster, ref)["serverList"]
    mark = running_cluster.audit.mark()
    running_cluster.merge(ref, {"metadata": {"labels": {"looked": "at"}}})
    running_cluster.audit.wait_quiet()
    assert running_cluster.audit.writes(mark, namespace=namespace) == []


def test_a_cache_that_gives_no_figures_is_ready_and_says_why(
    running_cluster: Cluster, namespace: str
) -> None:
    ref = ref_to(KIND, namespace, "silent")
    running_cluster.create(KIND, namespace, ref.name, {"containerPort": 1, "statistics": True})
    wait_until(
        lambda: "statistics" in status(running_cluster, ref),
        seconds=SECONDS,
        what=lambda: f"figures in {status(running_cluster, ref)}",
    )
    running_cluster.wait_ready_reason(ref, "ReplicasReady")
    found = status(running_cluster, ref)["statistics"]
    assert found["servers"] == 0
    assert f"memcached at {ADDRESS}:1 gave no statistics: ConnectionRefusedError" in found["message"]
    running_cluster.merge(ref, {"spec": {"statistics": False}})
    wait_until(
        lambda: "statistics" not in status(running_cluster, ref), seconds=SECONDS, what="no figures any more"
    )


def test_a_workload_that_cannot_be_made_leaves_the_other_and_is_taken_back(running_cluster: Cluster) -> None:
    """A quota admits the Pods that run and no more: what runs goes on, and the status says why."""
    namespace = running_cluster.namespace("crowded-caches")
    ref, deployment = ref_to(KIND, namespace, "crowded"), Ref(DEPLOYMENT, namespace, "crowded")
    running_cluster.create(KIND, namespace, ref.name, {"size": 2})
    running_cluster.wait_settled(ref)
    quota = {"metadata": {"name": "pods"}, "spec": {"hard": {"pods": "2"}}}
    running_cluster.api.create(f"/api/v1/namespaces/{namespace}/resourcequotas", quota).accepted()
    before, pods = status(running_cluster, ref)["serverList"], uids(running_cluster, namespace)
    running_cluster.merge(ref, {"spec": {"workload": "StatefulSet", "memoryMB": 32}})
    said = running_cluster.wait_ready_reason(ref, "PodMissing", seconds=60.0)["message"]
    assert said.startswith("StatefulSet crowded has no Pod, or too few")
    assert "exceeded quota" in said
    assert status(running_cluster, ref)["serverList"] == before
    assert uids(running_cluster, namespace) == pods
    running_cluster.merge(ref, {"spec": {"workload": "Deployment", "memoryMB": 64}})
    running_cluster.wait_settled(ref)
    assert running_cluster.get(Ref(STATEFUL_SET, namespace, "crowded")) is None
    assert running_cluster.get(deployment) is not None
    assert uids(running_cluster, namespace) == pods, "and none of them was ever restarted"
    assert status(running_cluster, ref)["serverList"] == before


def test_the_budget_counts_the_pods_of_both_workloads(running_cluster: Cluster) -> None:
    namespace = running_cluster.namespace("guarded-caches")
    ref = ref_to(KIND, namespace, "guarded")
    running_cluster.create(KIND, namespace, ref.name, {"size": 2, "workload": "StatefulSet"})
    running_cluster.wait_settled(ref)
    budget = Ref(DISRUPTION_BUDGET, namespace, "guarded")

    def counts() -> tuple[int, int, int]:
        found = (running_cluster.get(budget) or {}).get("status", {})
        return found.get("expectedPods"), found.get("desiredHealthy"), found.get("currentHealthy")

    wait_until(lambda: counts() == (2, 1, 2), seconds=SECONDS, what=lambda: str(counts()))
    # None of them can be made, so both workloads stay.
    quota = {"metadata": {"name": "pods"}, "spec": {"hard": {"pods": "3"}}}
    running_cluster.api.create(f"/api/v1/namespaces/{namespace}/resourcequotas", quota).accepted()
    running_cluster.merge(ref, {"spec": {"workload": "Deployment"}})
    wait_until(lambda: counts() == (4, 3, 3), seconds=SECONDS, what=lambda: str(counts()))


def uids(cluster: Cluster, namespace: str) -> set[str]:
    """Of the namespace's Pods."""
    return {pod["metadata"]["uid"] for pod in cluster.list(POD, namespace, selector={})}
