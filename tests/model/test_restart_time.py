"""status.lastRestartSeconds: from the first moment without the server until it serves again, and no other."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from kindling.kinds.base import ExternalResult
from kindling.kinds.conditions import rfc3339
from kindling.kube.resources import POD, Ref

from tests.model.test_postgresql_model import CR, FIRST, with_database
from tests.model.workloads import control, run_pods
from tests.model.world import World

THE_POD = Ref(POD, "ns", "db-0")


def database(**spec: object) -> World:
    world = with_database(**spec)
    world.answer = ExternalResult(ok=True, facts={"login": True, "version": "17.5"})
    world.api.edit(CR, {"spec": {"parameters": {"geqo": "off"}}})
    world.settle()
    return world


def seconds(world: World) -> Any:
    return world.status(FIRST, "db").get("lastRestartSeconds")


def step(world: World, *, after: float = 0) -> None:
    world.now += timedelta(seconds=after)
    world.deliver()
    world.work()


def replaced(world: World, *, after: float, until: float) -> None:
    """Another Pod comes after so many seconds, and is ready by then."""
    step(world)
    control(world.api)
    step(world)
    world.now += timedelta(seconds=after)
    world.api.edit(THE_POD, {"metadata": {"creationTimestamp": rfc3339(world.now)}})
    step(world)
    world.now += timedelta(seconds=until - after)
    run_pods(world.api)
    world.settle()


def test_the_first_start_is_no_restart() -> None:
    assert seconds(database()) is None


def test_a_restart_is_measured_and_kept() -> None:
    world = database()
    world.api.edit(CR, {"spec": {"image": "postgres:17.2"}})
    step(world)
    replaced(world, after=3, until=8)
    assert seconds(world) == 8
    world.restart()
    world.settle()
    assert (seconds(world), world.writes_at_rest()) == (8, 0)
    world.api.edit(CR, {"spec": {"mode": "Plan", "image": "postgres:17.3"}})
    world.settle()
    item = world.status(FIRST, "db")["plan"]["items"][0]
    assert (item["message"], item["seconds"]) == ("one restart, about 8 s", 8)


def test_a_deleted_pod_is_a_restart_and_the_last_one_counts() -> None:
    world = database()
    for wanted in (8, 5):
        world.api.remove(THE_POD)
        step(world)
        replaced(world, after=1, until=wanted)
        assert seconds(world) == wanted


def test_a_container_that_starts_again_in_its_pod_is_none() -> None:
    world = database()
    world.api.edit(THE_POD, {"metadata": {"creationTimestamp": rfc3339(world.now - timedelta(hours=1))}})
    status = world.api.objects[THE_POD]["status"]
    world.api.set_status(THE_POD, {**status, "conditions": [{"type": "Ready", "status": "False"}]})
    step(world)
    world.now += timedelta(seconds=20)
    run_pods(world.api)
    world.settle()
    assert seconds(world) is None


def test_the_time_that_it_was_hibernated_is_none() -> None:
    world = database()
    world.api.edit(CR, {"spec": {"hibernate": True}})
    world.settle()
    world.now += timedelta(hours=3)
    world.api.edit(CR, {"spec": {"hibernate": None}})
    step(world)
    replaced(world, after=1, until=4)
    assert world.status(FIRST, "db")["pgPhase"] == "up"
    assert seconds(world) is None
