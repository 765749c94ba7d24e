"""Roles and databases of a Postgresql through the engine: when the server is asked, when nothing is done."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from kindling.kinds.base import ExternalResult
from kindling.kinds.conditions import find_condition
from kindling.kinds.postgresql.objects import Objects
from kindling.kube.resources import SECRET, Object, Ref

from tests.model.faults import Fault
from tests.model.world import KINDS, World, resource

KIND = KINDS[0]
ROLE: Object = {"name": "app", "login": True, "reclaimPolicy": "Delete"}
SPEC: Object = {"roles": [ROLE, {"name": "owner"}], "databases": [{"name": "shop", "owner": "owner"}]}


@dataclass
class Server:
    """A server as the prober leaves it; `requests` has each request about objects."""

    roles: dict[str, str | None] = field(default_factory=dict)
    requests: list[Objects] = field(default_factory=list)
    refused: ExternalResult | None = None

    def answer(self, request: Any) -> ExternalResult:
        if not isinstance(request, Objects):
            return ExternalResult(ok=True)
        self.requests.append(request)
        if self.refused is not None:
            return self.refused
        assert request.apply
        self.roles |= {role["name"]: role["password"] for role in request.roles}
        for name in request.drop_roles:
            self.roles.pop(name, None)
        return ExternalResult(ok=True, facts={"roles": {}, "databases": {}})


def with_objects(world: World, server: Server, **spec: object) -> None:
    world.answer = server.answer
    world.api.put(KIND.type, resource(KIND, "db", **spec))
    world.settle()


def ready(world: World) -> Object:
    return find_condition(world.status(KIND, "db"), "Ready")


def password(world: World) -> str:
    data = world.api.objects[Ref(SECRET, "ns", "db-role-app")]["data"]
    return base64.b64decode(data["password"]).decode()


def test_they_are_made_once_and_at_rest_nothing_is_executed() -> None:
    world, server = World(), Server()
    with_objects(world, server, **SPEC)
    assert (ready(world)["status"], len(server.requests)) == ("True", 1)
    assert server.roles == {"app": password(world), "owner": None}
    world.repeat_probes()
    assert (world.writes_at_rest(), len(server.requests)) == (0, 1)
    # A leader that has seen nothing yet compares once.
    world.restart()
    world.settle()
    assert (world.writes_at_rest(), len(server.requests)) == (0, 2)


def test_an_edit_elsewhere_in_the_spec_costs_nothing_here() -> None:
    world, server = World(), Server()
    with_objects(world, server, **SPEC)
    with_objects(world, server, **SPEC, progressDeadlineSeconds=60)
    assert (ready(world)["observedGeneration"], len(server.requests)) == (2, 1)


def test_the_server_is_compared_with_the_spec_again_after_ten_minutes() -> None:
    world, server = World(), Server()
    with_objects(world, server, **SPEC)
    server.roles["owner"] = "by hand"
    world.now += timedelta(minutes=9)
    assert (world.writes_at_rest(), len(server.requests)) == (0, 1)
    world.now += timedelta(minutes=2)
    assert (world.writes_at_rest(), len(server.requests)) == (0, 2)
    assert (server.roles["owner"], ready(world)["status"]) == (None, "True")


def test_a_rotated_secret_reaches_the_server_first() -> None:
    world, server = World(), Server()
    mine = Ref(SECRET, "ns", "mine")
    world.api.put(SECRET, {"metadata": {"namespace": "ns", "name": "mine"}, "data": {"password": "Zmlyc3Q="}})
    with_objects(world, server, roles=[{**ROLE, "passwordSecretRef": {"name": "mine"}}])
    assert (server.roles["app"], password(world)) == ("first", "first")
    server.refused = ExternalResult(ok=False, reason="NotResponding", message="m")
    world.api.edit(mine, {"data": {"password": "c2Vjb25k"}})
    world.settle()
    assert (server.requests[-1].roles[0]["password"], password(world)) == ("second", "first")
    assert ready(world)["reason"] == "NotResponding"
    server.refused = None
    world.wait_long()
    assert (server.roles["app"], password(world), ready(world)["status"]) == ("second", "second", "True")


def test_what_leaves_the_spec_is_dropped_under_delete_alone() -> None:
    world, server = World(), Server()
    with_objects(world, server, **SPEC)
    with_objects(world, server, databases=SPEC["databases"])
    # The last one has nothing to drop any more: one look, since what is asked for has changed.
    assert [request.drop_roles for request in server.requests] == [(), ("app",), ()]
    assert server.roles == {"owner": None}
    assert "roles" not in world.status(KIND, "db")
    assert (ready(world)["status"], world.writes_at_rest()) == ("True", 0)
    with_objects(world, server)
    assert {request.drop_databases for request in server.requests} == {()}
    assert "databases" not in world.status(KIND, "db")


def test_a_paused_one_is_not_changed() -> None:
    world, server = World(), Server()
    with_objects(world, server)
    server.refused = ExternalResult(
        ok=False, reason="Paused", message="m", facts={"roles": {"owner": ("Paused", "m")}}
    )
    with_objects(world, server, roles=[{"name": "owner"}], paused=True)
    assert {request.apply for request in server.requests} == {False}
    assert (ready(world)["status"], ready(world)["reason"]) == ("False", "Paused")
    server.refused = None
    with_objects(world, server, roles=[{"name": "owner"}])
    assert (server.roles, ready(world)["status"]) == ({"owner": None}, "True")


@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.LOST, Fault.CONFLICT])
@pytest.mark.parametrize("far", range(12))
def test_whatever_fails_the_secret_has_what_the_server_has(far: int, fault: Fault) -> None:
    world, server = World(), Server()
    world.faulty.writes.extend([*[None] * far, fault])
    with_objects(world, server, **SPEC)
    world.wait_long()
    assert (ready(world)["status"], server.roles["app"]) == ("True", password(world))
    with_objects(world, server, databases=SPEC["databases"])
    world.wait_long()
    assert "app" not in server.roles
    assert (ready(world)["status"], world.writes_at_rest()) == ("True", 0)
