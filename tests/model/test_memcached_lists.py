"""However its caches come and go and whatever events are lost, a list is never empty, and right at rest.

And what caches say of themselves is written only when it shows: they count on, the status does not.
"""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import pytest
from kindling.kinds.base import ExternalResult
from kindling.kinds.memcached.stats import COUNTERS, StatsRequest
from kindling.kinds.pods import pod_ready
from kindling.kube.resources import CONFIG_MAP, DEPLOYMENT, POD, STATEFUL_SET, Object, Ref, ResourceType

from tests.model.faults import Fault
from tests.model.workloads import run_pods
from tests.model.world import KINDS_BY_NAME, World, resource

KIND = KINDS_BY_NAME["memcached.cache.example.com"]
CR, SERVERS = Ref(KIND.type, "ns", "m"), Ref(CONFIG_MAP, "ns", "m-servers")


def made(**spec: Any) -> World:
    world = World()
    world.answer = ExternalResult(ok=True, facts=dict.fromkeys(COUNTERS, 0))
    world.api.put(KIND.type, resource(KIND, "m", **spec))
    world.settle()
    return world


def lists(world: World) -> list[list[Object]]:
    """Each list that a client could have read, in turn."""
    return [
        json.loads(obj["data"]["servers.json"])
        for seen, type, obj in world.api.events
        if type == CONFIG_MAP and seen != "DELETED"
    ]


def addresses(world: World) -> list[str]:
    """Of all Pods; of a StatefulSet's, the names."""
    pods = [obj for ref, obj in world.api.objects.items() if ref.type == POD]
    if Ref(STATEFUL_SET, "ns", "m") in world.api.objects:
        return [f"m-{number}.m.ns.svc:11211" for number in range(len(pods))]
    return sorted(f"{pod['status']['podIP']}:11211" for pod in pods)


def workloads(world: World) -> list[ResourceType]:
    return [ref.type for ref in world.api.objects if ref.type in (DEPLOYMENT, STATEFUL_SET)]


def go_on(world: World, dice: random.Random) -> None:
    """Some events come, some are lost; now and then all that follows is done, with or without the Pods."""
    world.deliver_badly(dice)
    world.work()
    if dice.random() < 0.5:
        world.settle(pods=dice.random() < 0.7)


@pytest.mark.parametrize("seed", range(25))
def test_never_empty_and_right_in_the_end(seed: int) -> None:
    dice, world = random.Random(seed), made(binding="ConfigMap", size=1)
    for _ in range(12):
        act = dice.randrange(6)
        if act == 0:
            world.api.edit(CR, {"spec": {"size": dice.randrange(1, 4)}})
        elif act == 1:
            world.api.edit(CR, {"spec": {"memoryMB": dice.randrange(64, 80)}})
        elif act == 2:
            for ref in [ref for ref in world.api.objects if ref.type == POD]:
                world.api.set_status(ref, {"podIP": "10.0.0.9", "conditions": []})
        elif act == 3:
            world.faulty.writes.append(dice.choice([Fault.CONFLICT, Fault.LOST, Fault.CRASH_AFTER]))
        elif act == 4:
            world.api.edit(CR, {"spec": {"workload": dice.choice(["Deployment", "StatefulSet"])}})
        else:
            world.restart()
        go_on(world, dice)
    world.resync()
    world.wait_long()
    assert all(lists(world)), "empty"
    found = world.api.objects[SERVERS]["data"]
    assert found["servers"].split() == world.status(KIND, "m")["serverList"] == addresses(world)
    assert [type.kind for type in workloads(world)] == [
        world.api.objects[CR]["spec"].get("workload", "Deployment")
    ]
    assert world.writes_at_rest() == 0


def ready_pods(world: World) -> int:
    pods = [obj for ref, obj in world.api.objects.items() if ref.type == POD]
    return sum(pod_ready(pod) for pod in pods)


@pytest.mark.parametrize("seed", range(40))
def test_while_the_workload_changes_there_are_never_fewer_ready_than_wanted(seed: int) -> None:
    """Back and forth, with lost words and ends of the operator, and whatever else of the spec changes."""
    dice, world = random.Random(seed), made(binding="ConfigMap", size=2)
    for _ in range(10):
        spec: Object = {"workload": dice.choice(["Deployment", "StatefulSet"])}
        if dice.random() < 0.3:
            spec["binding"] = dice.choice(["ConfigMap", None])
        world.api.edit(CR, {"spec": spec})
        if dice.random() < 0.5:
            world.faulty.writes.append(dice.choice([Fault.CONFLICT, Fault.LOST, Fault.CRASH_AFTER]))
        for _ in range(dice.randrange(1, 4)):
            world.deliver_badly(dice)
            world.work()
            assert ready_pods(world) >= 2
            if dice.random() < 0.3:
                world.restart()
            if dice.random() < 0.5:
                run_pods(world.api)
        assert ready_pods(world) >= 2
    world.faulty.writes.clear()
    world.restart()
    world.settle()
    world.wait_long()
    assert all(lists(world)), "empty"
    assert world.status(KIND, "m")["serverList"] == addresses(world)
    assert len(workloads(world)) == 1
    assert world.writes_at_rest() == 0


def test_in_a_roll_out_it_is_written_when_it_changes_and_at_no_other_time() -> None:
    world = made(binding="ConfigMap", size=3)
    for memory in (65, 66):
        world.api.edit(CR, {"spec": {"memoryMB": memory}})
        world.settle()
    assert all(one != other for one, other in itertools.pairwise(lists(world)))
    assert len({json.dumps(one) for one in lists(world)}) == len(lists(world)) == 3


def test_it_is_made_with_the_first_ready_cache_and_goes_when_it_is_not_wanted() -> None:
    world = World()
    world.api.put(KIND.type, resource(KIND, "m", binding="ConfigMap"))
    world.settle(pods=False)
    assert SERVERS not in world.api.objects
    world.settle()
    assert SERVERS in world.api.objects
    world.api.edit(CR, {"spec": {"binding": None}})
    world.settle()
    assert SERVERS not in world.api.objects


def test_a_busy_cache_is_written_when_a_figure_shows_and_one_at_rest_never() -> None:
    world = made(statistics=True, size=2)
    count = 0

    def answer(request: Any) -> ExternalResult:
        assert isinstance(request, StatsRequest)
        facts = {"get_hits": 9000 + count, "get_misses": 1000, "curr_items": 123_000 + count, "bytes": 10**7}
        return ExternalResult(ok=True, facts={**facts, "evictions": 0})

    world.answer = answer
    assert world.writes_of_probes() == 1
    figures = {"servers": 2, "hitRatioPercent": 90, "items": 240_000, "bytes": 20_000_000, "evictions": 0}
    assert world.status(KIND, "m")["statistics"] == figures
    assert world.writes_of_probes() == 0
    for count in range(1, 20):  # noqa: B007 what the caches count meanwhile
        assert world.writes_of_probes() == 0
    count = 2_000
    assert world.writes_of_probes() == 1
    assert world.status(KIND, "m")["statistics"] == {**figures, "items": 250_000, "hitRatioPercent": 91}
    world.restart()
    world.settle()
    assert world.status(KIND, "m")["statistics"]["items"] == 250_000, (
        "kept by a leader that knows nothing yet"
    )
    assert world.writes_of_probes() == 0
    count = 0
    assert world.writes_of_probes() == 1
