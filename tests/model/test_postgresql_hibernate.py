"""A hibernated database has no Pod and keeps everything else; it comes back as it was."""

from __future__ import annotations

import pytest
from kindling.kinds.conditions import find_condition
from kindling.kube.resources import POD, SECRET, SERVICE, STATEFUL_SET, VOLUME_CLAIM, Object, Ref

from tests.model.faults import Fault
from tests.model.world import KINDS, World, resource

KIND = KINDS[0]
CR = Ref(KIND.type, "ns", "db")
DB_POD = Ref(POD, "ns", "db-0")
KEPT = [
    Ref(VOLUME_CLAIM, "ns", "db-data"),
    Ref(SECRET, "ns", "db-superuser"),
    Ref(SECRET, "ns", "db-binding"),
    Ref(SERVICE, "ns", "db"),
]


def with_database(**spec: object) -> World:
    world = World()
    world.api.put(KIND.type, resource(KIND, "db", **spec))
    world.settle()
    return world


def hibernate(world: World, value: bool | None) -> Object:
    world.api.edit(CR, {"spec": {"hibernate": value}})
    world.settle()
    return world.status(KIND, "db")


def truths(status: Object) -> dict[str, str]:
    return {item["type"]: item["status"] for item in status["conditions"]}


@pytest.mark.parametrize("off", [False, None])
def test_the_server_goes_and_comes_back_and_nothing_else_does(off: bool | None) -> None:
    world = with_database()
    before = {ref: world.api.objects[ref]["metadata"]["uid"] for ref in KEPT}
    version, identifier = (world.status(KIND, "db").get(name) for name in ("version", "systemIdentifier"))
    status = hibernate(world, True)
    assert DB_POD not in world.api.objects
    assert world.api.objects[Ref(STATEFUL_SET, "ns", "db")]["spec"]["replicas"] == 0
    assert status["pgPhase"] == "hibernated"
    assert "active" not in status
    assert (status.get("version"), status.get("systemIdentifier")) == (version, identifier)
    assert truths(status) == {
        "Ready": "False", "Available": "False", "Progressing": "False", "Degraded": "False",
    }  # fmt: skip
    assert find_condition(status, "Ready")["reason"] == "Hibernated"
    assert world.writes_at_rest() == 0
    status = hibernate(world, off)
    assert status["pgPhase"] == "up"
    assert truths(status)["Ready"] == "True"
    assert {ref: world.api.objects[ref]["metadata"]["uid"] for ref in KEPT} == before


def test_it_may_begin_hibernated() -> None:
    world = with_database(hibernate=True)
    assert world.status(KIND, "db")["pgPhase"] == "hibernated"
    assert hibernate(world, False)["pgPhase"] == "up"


def test_it_stays_so_however_long_it_lasts() -> None:
    world = with_database()
    hibernate(world, True)
    world.wait_long()
    world.restart()
    world.settle()
    assert world.status(KIND, "db")["pgPhase"] == "hibernated"
    assert truths(world.status(KIND, "db"))["Degraded"] == "False"
    assert world.writes_at_rest() == 0


def test_a_scaled_workload_is_scaled_back() -> None:
    world = with_database()
    hibernate(world, True)
    world.api.edit(Ref(STATEFUL_SET, "ns", "db"), {"spec": {"replicas": 1}})
    world.settle()
    assert DB_POD not in world.api.objects
    assert world.status(KIND, "db")["pgPhase"] == "hibernated"


@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.LOST, Fault.CONFLICT])
def test_a_write_that_fails_changes_nothing_of_the_end(fault: Fault) -> None:
    for number in range(4):
        world = with_database()
        world.faulty.writes.extend([*[None] * number, fault])
        hibernate(world, True)
        world.wait_long()
        world.settle()
        assert world.status(KIND, "db")["pgPhase"] == "hibernated"
        world.faulty.writes.extend([*[None] * number, fault])
        hibernate(world, False)
        world.wait_long()
        world.settle()
        assert world.status(KIND, "db")["pgPhase"] == "up"
