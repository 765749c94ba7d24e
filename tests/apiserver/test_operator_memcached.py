"""What a real memcached says of itself gets into the status by the operator's process, and then it rests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kindling.kube.resources import CONFIG_MAP, Ref

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
