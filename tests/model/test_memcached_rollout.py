"""`spec.rollout.minHitRatioPercent`: whatever happens, no server is replaced while the others could not keep
it, and every roll-out comes to its end once they can.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from kindling.kinds import reasons
from kindling.kinds.base import ExternalResult
from kindling.kinds.conditions import find_condition
from kindling.kinds.memcached.stats import COUNTERS, ENOUGH_READS, RATIO, READS, StatsRequest
from kindling.kinds.memcached.warm_rollout import SETTLED_SECONDS, UNREADY_SECONDS
from kindling.kube.resources import POD, STATEFUL_SET, Object, Ref

from tests.model.faults import Fault
from tests.model.test_memcached_lists import CR, KIND, go_on
from tests.model.world import World, resource

STATEFUL = Ref(STATEFUL_SET, "ns", "m")
SIZE, BOUND = 4, 60
WARM = {RATIO: 90, READS: ENOUGH_READS}
"""Three of four have 67 of 100 reads."""


class Caches:
    """What the servers answer; a new Pod is cold until it is warmed."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.said: dict[str, Mapping[str, int]] = {}
        world.answer = self.answer

    def answer(self, request: Any) -> ExternalResult:
        if not isinstance(request, StatsRequest):
            return ExternalResult(ok=True)
        if not request.ratio:
            return ExternalResult(ok=True, facts=dict.fromkeys(COUNTERS, 0))
        uid = self.world.api.objects[Ref(POD, "ns", request.pod)]["metadata"]["uid"]
        return ExternalResult(ok=True, facts=dict(self.said.get(uid, {RATIO: 0, READS: ENOUGH_READS})))

    def warm(self, facts: Mapping[str, int] = WARM) -> None:
        """All that run now."""
        self.said |= {pod["metadata"]["uid"]: facts for pod in pods(self.world).values()}

    def again(self) -> None:
        """The answers that differ come, as they do every few seconds."""
        self.world.repeat_probes()


def pods(world: World) -> dict[str, Object]:
    return {ref.name: obj for ref, obj in sorted(world.api.objects.items(), key=str) if ref.type == POD}


def uids(world: World) -> list[str]:
    return [pod["metadata"]["uid"] for pod in pods(world).values()]


def made(*, bound: int | None = BOUND, size: int = SIZE) -> tuple[World, Caches]:
    world = World()
    caches = Caches(world)
    rollout = {"rollout": {"minHitRatioPercent": bound}} if bound is not None else {}
    world.api.put(KIND.type, resource(KIND, "m", size=size, workload="StatefulSet", **rollout))
    world.settle()
    caches.warm()
    return world, caches


def ready(world: World) -> Object:
    return find_condition(world.status(KIND, "m"), "Ready")


def replaced(before: list[str], world: World) -> list[int]:
    return [number for number, uid in enumerate(uids(world)) if uid != before[number]]


def passes(world: World, seconds: float) -> None:
    """Time passes, and what was to be looked at again is."""
    world.now += timedelta(seconds=seconds)
    due, world.later = world.later, set()
    for key in due:
        world.queue.add(key)


def test_at_rest_all_are_held_and_nothing_is_asked() -> None:
    world, _ = made()
    assert world.api.objects[STATEFUL]["spec"]["updateStrategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"partition": SIZE},
    }
    assert ready(world)["status"] == "True"
    assert world.writes_at_rest() == 0


def test_without_it_the_workload_is_as_it_was() -> None:
    world, _ = made(bound=None)
    assert world.api.objects[STATEFUL]["spec"]["updateStrategy"] == {"type": "RollingUpdate"}


def test_each_waits_until_the_others_alone_would_keep_the_ratio() -> None:
    world, caches = made()
    before = uids(world)
    world.api.edit(CR, {"spec": {"threads": 2}})
    for step in range(SIZE):
        world.settle()
        assert replaced(before, world) == [*range(SIZE - 1 - step, SIZE)]
        if step < SIZE - 1:
            condition = ready(world)
            assert (condition["status"], condition["reason"]) == ("False", reasons.HIT_RATIO_TOO_LOW)
            assert condition["message"] == (
                f"Pod m-{SIZE - 2 - step} is next. Without it about 45 of 100 reads would find their item; "
                "spec.rollout.minHitRatioPercent asks for 60. Wait until the servers have their items, or "
                "lower it."
            )
            assert find_condition(world.status(KIND, "m"), "Progressing")["status"] == "True"
        caches.warm()
        caches.again()
    world.settle()
    assert ready(world)["status"] == "True"
    assert world.api.objects[STATEFUL]["spec"]["updateStrategy"]["rollingUpdate"] == {"partition": SIZE}
    assert world.writes_at_rest() == 0


def test_a_ratio_that_was_never_so_high_holds_it_and_is_a_fault_after_the_deadline() -> None:
    world, caches = made()
    caches.warm({RATIO: 79, READS: ENOUGH_READS})
    before = uids(world)
    world.api.edit(CR, {"spec": {"threads": 2}})
    world.settle()
    passes(world, 601)
    world.settle()
    assert replaced(before, world) == []
    degraded = find_condition(world.status(KIND, "m"), "Degraded")
    assert (degraded["status"], degraded["reason"]) == ("True", reasons.HIT_RATIO_TOO_LOW)
    world.api.edit(CR, {"spec": {"rollout": {"minHitRatioPercent": 55}}})
    world.settle()
    assert replaced(before, world) == [SIZE - 1]
    world.api.edit(CR, {"spec": {"rollout": None}})
    world.settle()
    assert replaced(before, world) == [*range(SIZE)]
    assert ready(world)["status"] == "True"


@pytest.mark.parametrize("reads", [0, ENOUGH_READS - 1])
def test_few_reads_say_nothing_until_clients_had_time(reads: int) -> None:
    """None at all is then no miss of anybody's."""
    world, caches = made()
    before = uids(world)
    world.api.edit(CR, {"spec": {"threads": 2}})
    world.settle()
    caches.warm({RATIO: 90, READS: reads})
    caches.said |= dict.fromkeys(before, WARM)
    since = world.now
    for pod in pods(world):
        ref = Ref(POD, "ns", pod)
        if world.api.objects[ref]["metadata"]["uid"] not in before:
            set_ready(world, ref, since=since.strftime("%Y-%m-%dT%H:%M:%SZ"))
    caches.again()
    world.settle(pods=False)
    assert replaced(before, world) == [SIZE - 1]
    passes(world, SETTLED_SECONDS + 2)
    world.settle(pods=False)
    assert world.api.objects[STATEFUL]["spec"]["updateStrategy"]["rollingUpdate"] == {"partition": SIZE - 2}


def set_ready(world: World, ref: Ref, *, since: str, ready: bool = True) -> None:
    condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": since}
    world.api.set_status(ref, {**world.api.objects[ref]["status"], "conditions": [condition]})


def test_what_may_be_the_remedy_is_not_held_for_long() -> None:
    """One of the template before does not run: not a node that is drained, but the template's own fault."""
    world, caches = made()
    caches.warm({RATIO: 70, READS: ENOUGH_READS})
    before = uids(world)
    set_ready(world, Ref(POD, "ns", "m-0"), since=world.now.strftime("%Y-%m-%dT%H:%M:%SZ"), ready=False)
    world.api.starting.add("m-0")
    world.api.edit(CR, {"spec": {"threads": 2}})
    world.settle()
    assert replaced(before, world) == []
    passes(world, UNREADY_SECONDS + 1)
    world.settle()
    assert (SIZE - 1) in replaced(before, world)


def test_an_edit_that_is_taken_back_midway_goes_back_the_same_way() -> None:
    world, caches = made()
    before = uids(world)
    world.api.edit(CR, {"spec": {"threads": 2}})
    world.settle()
    caches.warm()
    world.api.edit(CR, {"spec": {"threads": None}})
    world.settle()
    assert replaced(before, world) == [SIZE - 1]
    assert ready(world)["status"] == "True"
    assert world.writes_at_rest() == 0


def test_servers_that_are_added_meanwhile_are_of_the_new_template() -> None:
    world, caches = made()
    world.api.edit(CR, {"spec": {"threads": 2}})
    world.settle()
    world.api.edit(CR, {"spec": {"size": SIZE + 2}})
    world.settle()
    for _ in range(SIZE + 2):
        caches.warm()
        caches.again()
        world.settle()
    assert len(pods(world)) == SIZE + 2
    assert ready(world)["status"] == "True"


@pytest.mark.parametrize("seed", range(25))
def test_whatever_is_lost_no_second_one_is_cold(seed: int) -> None:
    """Crashes, lost events and old views: at most one Pod is replaced while the bound could not be kept."""
    dice, (world, caches) = random.Random(seed), made()
    for _ in range(12):
        cold = [uid for uid in uids(world) if uid not in caches.said]
        before = uids(world)
        act = dice.randrange(4)
        if act == 0:
            world.api.edit(CR, {"spec": {"threads": dice.randrange(1, 5)}})
        elif act == 1:
            world.faulty.writes.append(dice.choice([Fault.CONFLICT, Fault.LOST, Fault.CRASH_AFTER]))
        elif act == 2:
            caches.warm()
            caches.again()
        else:
            world.restart()
        go_on(world, dice)
        if act != 2 and cold:
            others = [uid for uid in before if uid not in cold]
            assert {*others} <= {*uids(world)}, (seed, act)
    for _ in range(2 * SIZE):
        world.resync()
        world.wait_long()
        caches.warm()
        caches.again()
    world.settle()
    assert ready(world)["status"] == "True"
    assert len({pod["metadata"]["labels"]["controller-revision-hash"] for pod in pods(world).values()}) == 1
