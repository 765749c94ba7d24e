"""A Backup of a database that is stopped until somebody connects: it does not start it to ask how it is, and
its runs do.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from kindling.kinds.backup.archive import ArchiveRequest
from kindling.kinds.base import ExternalResult
from kindling.kinds.conditions import find_condition, rfc3339
from kindling.kinds.postgresql import idle
from kindling.kinds.postgresql.login import Login
from kindling.kube.resources import CONFIG_MAP, POD, STATEFUL_SET, Object, Ref

from tests.model.backup_world import DB, KIND, with_backup
from tests.model.world import World

REQUEST = Ref(CONFIG_MAP, "ns", "nightly-backup")
WORKLOAD, DB_POD = Ref(STATEFUL_SET, "ns", "db"), Ref(POD, "ns", "db-0")
IDLE = {"hibernateAfter": "5m", "wakeOnConnection": True}


class Asked:
    """What the server was asked, and when."""

    def __init__(self, world: World) -> None:
        self.archive = self.logins = 0
        used, before = world.now, world.answer
        assert callable(before)

        def answer(request: Any) -> ExternalResult:
            found = before(request)
            self.archive += isinstance(request, ArchiveRequest)
            if not isinstance(request, Login):
                return found
            self.logins += 1
            return ExternalResult(ok=True, facts={**found.facts, idle.FACT: rfc3339(used)})

        world.answer = answer


def pass_time(world: World, *, minutes: float, pods: bool = True) -> None:
    end = world.now + timedelta(minutes=minutes)
    while world.now < end:
        world.now += timedelta(seconds=10)
        world.repeat_probes()
        world.settle(pods=pods)
        later, world.later = world.later, set()
        for key in later:
            world.queue.add(key)
        world.settle(pods=pods)


def edit(world: World, **spec: Any) -> None:
    world.api.edit(DB, {"spec": spec})
    world.settle()


def asleep() -> tuple[World, Asked]:
    world, _ = with_backup()
    asked = Asked(world)
    edit(world, **IDLE)
    pass_time(world, minutes=6)
    assert world.api.objects[WORKLOAD]["spec"]["replicas"] == 0
    assert asked.archive > 0
    return world, asked


def test_a_database_that_is_stopped_is_asked_nothing() -> None:
    world, asked = asleep()
    before = asked.archive, asked.logins
    pass_time(world, minutes=10)
    assert (asked.archive, asked.logins) == before
    ready = find_condition(world.status(KIND, "nightly"), "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "DatabaseNotReady")
    assert ready["message"].startswith("Postgresql db is not Ready (Hibernated)")
    assert world.writes_at_rest() == 0


def test_nor_is_one_that_is_about_to_stop() -> None:
    """Its Pod is ready still, and its Service leads elsewhere."""
    world, _ = with_backup()
    asked = Asked(world)
    edit(world, **IDLE)
    pass_time(world, minutes=4.5)
    pass_time(world, minutes=1, pods=False)
    workload = world.api.objects[WORKLOAD]
    assert workload["spec"]["replicas"] == 0
    assert DB_POD in world.api.objects
    seen = {"observedGeneration": workload["metadata"]["generation"]}
    world.api.set_status(WORKLOAD, {**workload["status"], **seen})
    before = asked.archive, asked.logins
    pass_time(world, minutes=1, pods=False)
    assert (asked.archive, asked.logins) == before


def test_a_run_starts_the_server_where_a_connection_does() -> None:
    world, _ = with_backup()
    assert "wake" not in _request(world)
    edit(world, **IDLE)
    pass_time(world, minutes=0.5)
    assert _request(world)["wake"] == "db.ns.svc"
    edit(world, wakeOnConnection=None)
    pass_time(world, minutes=0.5)
    assert "wake" not in _request(world)


def _request(world: World) -> Object:
    found: Object = json.loads(world.api.objects[REQUEST]["data"]["backup.json"])
    return found
