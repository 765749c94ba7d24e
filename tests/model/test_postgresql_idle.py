"""A database that nobody uses is stopped after a while, and runs again once somebody wakes it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from kindling.engine.store import key_of
from kindling.kinds.conditions import find_condition, rfc3339
from kindling.kinds.postgresql import hibernation
from kindling.kube.resources import Object

from tests.model.backup_world import EACH_FAULT
from tests.model.faults import Fault
from tests.model.idle_world import CR, DB_POD, KIND, pass_time, phase, record, wake, with_database
from tests.model.world import resource


def test_a_database_that_nobody_uses_is_stopped_and_woken() -> None:
    world, server = with_database(hibernateAfter="10m")
    pass_time(world, minutes=9, seconds=50)
    assert phase(world) == "up"
    assert record(world) == {"since": rfc3339(server.used)}
    pass_time(world, seconds=20)
    assert phase(world) == "hibernated"
    assert DB_POD not in world.api.objects
    ready = find_condition(world.status(KIND, "db"), "Ready")
    since, stopped = (record(world)[name] for name in ("since", "stoppedAt"))
    assert ready["reason"] == "Hibernated"
    assert ready["message"] == (
        f"Nobody has been connected since {since}, for as long as spec.hibernateAfter says: the server is "
        f"stopped and its data kept. `kubectl annotate {KIND.type.plural}.{KIND.type.group} db -n ns "
        f"--overwrite kindling.dev/wake={since}` starts it."
    )
    assert world.writes_at_rest() == 0
    world.wait_long()
    world.restart()
    world.settle()
    assert phase(world) == "hibernated", "whoever decides next"
    assert record(world)["stoppedAt"] == stopped

    wake(world, since)
    assert phase(world) == "up"
    assert record(world) == {"wake": since}
    assert world.writes_at_rest() == 0
    world.restart()
    world.settle()
    assert phase(world) == "up"
    pass_time(world, minutes=2)
    assert phase(world) == "up", "what was said of the server before is not about this one"
    assert record(world)["wake"] == since
    server.used = world.now
    pass_time(world, minutes=11)
    assert phase(world) == "hibernated", "that value has been acted on"
    wake(world, "again")
    assert phase(world) == "up"


def test_one_that_is_used_from_time_to_time_runs_on_and_little_is_written() -> None:
    world, server = with_database(hibernateAfter="5m")
    for _ in range(8):
        pass_time(world, minutes=4)
        server.used = world.now
    assert phase(world) == "up"
    writes = world.api.writes.total()
    for _ in range(30):
        pass_time(world, seconds=50)
        server.used = world.now
    assert phase(world) == "up"
    assert world.api.writes.total() - writes <= 2, "more often than once a minute is not on record"
    assert record(world) == {}


def test_without_the_field_nobody_looks_and_without_it_any_more_it_starts() -> None:
    world, server = with_database()
    pass_time(world, minutes=15)
    assert (server.looked, phase(world), record(world)) == (0, "up", {})
    world.api.edit(CR, {"spec": {"hibernateAfter": "5m"}})
    world.settle()
    pass_time(world, minutes=6)
    assert phase(world) == "hibernated"
    world.api.edit(CR, {"spec": {"hibernateAfter": None}})
    world.settle()
    assert (phase(world), record(world)) == ("up", {})


def test_a_server_that_is_asked_nothing_for_a_while_is_not_taken_for_idle() -> None:
    world, server = with_database(hibernateAfter="5m")
    pass_time(world, minutes=4)
    world.now += timedelta(hours=3)
    server.used = world.now - timedelta(minutes=2)
    world.queue.add(key_of(CR))
    world.settle()
    assert phase(world) == "up"
    pass_time(world, minutes=2)
    assert phase(world) == "up"
    assert record(world) == {"since": rfc3339(server.used)}


def test_a_paused_one_runs_on() -> None:
    world, _ = with_database(hibernateAfter="5m", paused=True)
    pass_time(world, minutes=15)
    assert phase(world) != "hibernated"

    world, server = with_database(hibernateAfter="5m")
    pass_time(world, minutes=3)
    assert record(world)
    world.api.edit(CR, {"spec": {"paused": True}})
    world.settle()
    pass_time(world, minutes=10)
    server.used = world.now
    pass_time(world, minutes=2)
    assert DB_POD in world.api.objects
    assert find_condition(world.status(KIND, "db"), "Ready")["status"] == "True"
    world.api.edit(CR, {"spec": {"paused": None}})
    world.settle()
    assert DB_POD in world.api.objects, "what is on record is older than the pause"


@EACH_FAULT
def test_a_write_that_fails_changes_nothing_of_the_end(fault: Fault) -> None:
    for number in range(4):
        world, server = with_database(hibernateAfter="5m")
        pass_time(world, minutes=4)
        world.faulty.writes.extend([*[None] * number, fault])
        pass_time(world, minutes=3)
        world.wait_long()
        assert phase(world) == "hibernated"
        server.used = world.now
        world.faulty.writes.extend([*[None] * number, fault])
        wake(world, "now")
        world.repeat_probes()
        world.queue.add(key_of(CR))
        world.settle()
        world.queue.add(key_of(CR))
        world.settle()
        assert phase(world) == "up", number


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"hibernateAfter": "0m"}, "spec.hibernateAfter '0m' is not 1m to 168h"),
        ({"hibernateAfter": "169h"}, "spec.hibernateAfter '169h' is not 1m to 168h"),
        (
            {"hibernateAfter": "5m", "exporter": {"enabled": True}},
            "spec.hibernateAfter cannot be used with spec.exporter and the default user 'postgres'",
        ),
        (
            {"hibernateAfter": "5m", "storage": {"ephemeral": True}},
            "spec.hibernateAfter cannot be used with spec.storage.ephemeral",
        ),
    ],
)
def test_what_cannot_be_is_refused_and_the_server_runs_on(spec: Object, said: str) -> None:
    world, _ = with_database(**({"storage": spec["storage"]} if "storage" in spec else {}))
    world.api.edit(CR, {"spec": spec})
    world.settle()
    assert find_condition(world.status(KIND, "db"), "Ready")["message"].startswith(said)
    pass_time(world, minutes=10)
    assert phase(world) != "hibernated"


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"hibernateAfter": "5m"}, "spec.hibernateAfter"),
        ({"hibernateAfter": "5m", "hibernate": True}, "spec.hibernate"),
        ({"hibernateWindow": {"schedule": "0 1 * * *", "duration": "1h"}}, "spec.hibernateWindow"),
        ({}, "spec.hibernate"),
    ],
)
def test_what_stops_it_is_named(spec: Object, field: str) -> None:
    assert hibernation.field(resource(KIND, "db", **spec), datetime.now(UTC)) == field
