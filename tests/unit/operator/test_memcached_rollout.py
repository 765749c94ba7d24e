"""What a roll-out that keeps the hit ratio asks of its servers, and when it looks again by itself."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from kindling.kinds.base import CachedResult, ExternalResult, Observed, RequeueAfter, SyncResult
from kindling.kinds.conditions import find_condition
from kindling.kinds.memcached.stats import ENOUGH_READS, RATIO, READS, StatsRequest
from kindling.kinds.memcached.warm_rollout import SETTLED_SECONDS, UNREADY_SECONDS
from kindling.kube.resources import Object, Ref

from tests.unit.operator.memcacheds import KIND, NOW, memcached, named_pod, observed, stateful_set

BEFORE, PRESENT = "cache-1", "cache-2"


def cr(**spec: Any) -> Object:
    return memcached(size=3, workload="StatefulSet", rollout={"minHitRatioPercent": 60}, **spec)


def server(number: int, revision: str, *, ready: bool = True, seconds: float = 3600) -> dict[Ref, Object]:
    since = (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
    found = named_pod(number, ready=ready, since=since)
    (body,) = found.values()
    body["metadata"]["labels"]["controller-revision-hash"] = revision
    return found


def under_way(*pods: dict[Ref, Object], facts: Mapping[str, Mapping[str, int]] | None = None) -> Observed:
    """With the answers of the servers by their numbers; else as warm as can be."""
    children = stateful_set(replicas=3, updated=1, currentRevision=BEFORE, updateRevision=PRESENT)
    for one in pods:
        children |= one
    asked = KIND.probes(cr(), observed(children))
    results = {}
    for name, probe in asked.items():
        said = (facts or {}).get(name.rpartition("-")[2], {RATIO: 100, READS: ENOUGH_READS})
        result = ExternalResult(ok=True, facts=dict(said))
        results[name] = CachedResult(cache_key=probe.cache_key, result=result, at=NOW)
    return observed(children, results)


def partition(found: Observed, **spec: Any) -> object:
    (workload,) = [
        child.body for child in KIND.desired(cr(**spec), found) if child.type.kind == "StatefulSet"
    ]
    return workload["spec"]["updateStrategy"]["rollingUpdate"]["partition"]


def looks_again(found: Observed, **spec: Any) -> float:
    result = KIND.status(cr(**spec), found, SyncResult(in_sync=True)).result
    assert isinstance(result, RequeueAfter)
    return result.seconds


def message(found: Observed, **spec: Any) -> str:
    status = KIND.status(cr(**spec), found, SyncResult(in_sync=True)).status
    return str(find_condition(status, "Ready")["message"])


def test_each_ready_server_is_asked_in_the_foreground_while_it_goes_on() -> None:
    found = under_way(server(0, BEFORE), server(1, BEFORE, ready=False), server(2, PRESENT))
    asked = KIND.probes(cr(), found)
    assert list(asked) == ["ratio/cache-0", "ratio/cache-2"]
    for probe in asked.values():
        assert isinstance(probe.request, StatsRequest)
        assert probe.request.ratio
        assert not probe.background
    still = under_way(*(server(number, PRESENT) for number in range(3)))
    (workload,) = [obj for ref, obj in still.objects.items() if ref.type.kind == "StatefulSet"]
    workload["status"]["currentRevision"] = PRESENT
    assert KIND.probes(cr(), still) == {}
    assert partition(still) == 3


def test_once_all_are_new_the_controller_has_to_count_them_first() -> None:
    """A Pod that went then would else be made of the template before."""
    assert partition(under_way(*(server(number, PRESENT) for number in range(3)))) == 0
    assert partition(under_way(*(server(number, PRESENT) for number in (1, 2)))) == 0


def test_one_of_the_same_template_that_does_not_run_yet_is_waited_for() -> None:
    found = under_way(server(0, BEFORE), server(1, BEFORE), server(2, PRESENT, ready=False, seconds=5))
    assert partition(found) == 2


@pytest.mark.parametrize(
    ("spec", "seconds"),
    [({}, SETTLED_SECONDS), ({"binding": "ConfigMap"}, SETTLED_SECONDS + 120),
     ({"discovery": True}, SETTLED_SECONDS + 180)],
)  # fmt: skip
def test_it_looks_again_when_clients_had_time_to_read(spec: dict[str, object], seconds: float) -> None:
    few = {"2": {RATIO: 100, READS: ENOUGH_READS - 1}}
    found = under_way(server(0, BEFORE), server(1, BEFORE), server(2, PRESENT, seconds=11), facts=few)
    assert partition(found, **spec) == 2
    assert looks_again(found, **spec) == seconds - 10
    assert message(found, **spec).endswith(
        f"lower it. A server with fewer than 100 reads counts as empty in its first {seconds:.0f} s."
    )
    found = under_way(
        server(0, BEFORE), server(1, BEFORE), server(2, PRESENT, seconds=seconds + 1), facts=few
    )
    assert partition(found, **spec) == 1


def test_it_looks_again_when_a_server_of_the_template_before_was_away_for_long() -> None:
    cold = {"2": {RATIO: 0, READS: ENOUGH_READS}}
    found = under_way(
        server(0, BEFORE, ready=False, seconds=50), server(1, BEFORE), server(2, PRESENT), facts=cold
    )
    assert partition(found) == 2
    assert looks_again(found) == UNREADY_SECONDS - 50
    found = under_way(
        server(0, BEFORE, ready=False, seconds=60), server(1, BEFORE), server(2, PRESENT), facts=cold
    )
    assert partition(found) == 1


def test_a_server_that_gives_no_ratio_is_named() -> None:
    found = under_way(server(0, BEFORE), server(1, BEFORE), server(2, PRESENT))
    known = {**found.results}
    failed = ExternalResult(
        ok=False, reason="NotResponding", message="memcached at 10.0.1.2:11211 gave nothing."
    )
    known["ratio/cache-2"] = CachedResult(cache_key=known["ratio/cache-2"].cache_key, result=failed, at=NOW)
    found = observed(dict(found.objects), known)
    assert partition(found) == 2
    assert message(found) == (
        "Pod cache-1 is replaced once Pod cache-2 has said its hit ratio: "
        "memcached at 10.0.1.2:11211 gave nothing."
    )


def test_a_server_that_is_one_too_many_keeps_nothing() -> None:
    facts = {"2": {RATIO: 0, READS: ENOUGH_READS}}
    earlier = [server(number, BEFORE) for number in (0, 1, 3)]
    assert partition(under_way(*earlier, server(2, PRESENT), facts=facts)) == 2
