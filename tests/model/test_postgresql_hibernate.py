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


NIGHTS = {"schedule": "0 1 * * *", "duration": "2h30m"}
"""The world begins at midnight."""


def at(world: World, hour: int, minute: int = 0) -> str:
    """The phase once that time of the day has come, by what is requeued alone."""
    world.now = world.now.replace(hour=hour, minute=minute)
    due, world.later = world.later, set()
    for key in due:
        world.queue.add(key)
    world.settle()
    phase: str = world.status(KIND, "db")["pgPhase"]
    return phase


def test_the_clock_stops_and_starts_it() -> None:
    world = with_database(hibernateWindow=NIGHTS)
    assert at(world, 0, 59) == "up"
    assert at(world, 1) == "hibernated"
    assert DB_POD not in world.api.objects
    ready = find_condition(world.status(KIND, "db"), "Ready")
    assert ready["reason"] == "Hibernated"
    assert ready["message"] == (
        "spec.hibernateWindow is open: the server is stopped and its data kept; it starts at "
        "2026-01-02T03:30:00Z. To start it now, remove it."
    )
    writes = world.api.writes.total()
    assert at(world, 2) == "hibernated"
    assert world.api.writes.total() == writes, "nothing changes with time alone"
    world.restart()
    world.settle()
    assert world.status(KIND, "db")["pgPhase"] == "hibernated"
    assert at(world, 3, 29) == "hibernated"
    assert at(world, 3, 30) == "up"
    assert at(world, 23) == "up"


def test_what_is_asked_for_counts_beside_the_clock() -> None:
    world = with_database(hibernateWindow=NIGHTS, hibernate=True)
    assert world.status(KIND, "db")["pgPhase"] == "hibernated"
    assert "set it to false" in find_condition(world.status(KIND, "db"), "Ready")["message"]
    assert hibernate(world, False)["pgPhase"] == "up"
    assert at(world, 1) == "hibernated"
    world.api.edit(CR, {"spec": {"hibernateWindow": None}})
    world.settle()
    assert world.status(KIND, "db")["pgPhase"] == "up"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (
            {"schedule": "0 25 * * *", "duration": "1h"},
            "spec.hibernateWindow.schedule '0 25 * * *' is no sched",
        ),
        (
            {"schedule": "0 1 * * *", "duration": "200h"},
            "spec.hibernateWindow.duration '200h' is not 1m to 168h",
        ),
    ],
)
def test_a_window_that_is_none_is_refused_and_the_server_runs_on(wrong: Object, said: str) -> None:
    world = with_database()
    world.api.edit(CR, {"spec": {"hibernateWindow": wrong}})
    world.settle()
    assert find_condition(world.status(KIND, "db"), "Ready")["message"].startswith(said)
    assert DB_POD in world.api.objects
