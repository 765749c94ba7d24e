"""The server gets a change before the applications do; a rejected change holds back no other one."""

from __future__ import annotations

import base64
from datetime import timedelta

import pytest
from kindling.engine.reconciliation import RESULT_SECONDS
from kindling.kinds.base import ExternalResult
from kindling.kinds.conditions import find_condition
from kindling.kinds.postgresql.login import Login
from kindling.kube.resources import SECRET, SERVICE, VOLUME_CLAIM, Object, Ref

from tests.model.faults import Fault
from tests.model.world import KINDS, World, resource

KIND = KINDS[0]
CR = Ref(KIND.type, "ns", "db")


def with_database(**spec: object) -> World:
    world = World()
    world.api.put(KIND.type, resource(KIND, "db", **spec))
    world.settle()
    assert ready(world)["status"] == "True"
    return world


def ready(world: World) -> Object:
    return find_condition(world.status(KIND, "db"), "Ready")


def put_secret(world: World, password: str) -> None:
    data = {"password": base64.b64encode(password.encode()).decode()}
    world.api.put(SECRET, {"metadata": {"namespace": "ns", "name": "ours"}, "data": data})


def bound(world: World) -> str:
    data = world.api.objects[Ref(SECRET, "ns", "db-binding")]["data"]
    return base64.b64decode(data["password"]).decode()


def test_a_volume_that_may_not_grow_keeps_no_password_from_the_server() -> None:
    world = World()
    put_secret(world, "one")
    world.api.put(KIND.type, resource(KIND, "db", passwordSecretRef={"name": "ours"}))
    world.settle()
    world.api.refuse = VOLUME_CLAIM
    world.api.edit(CR, {"spec": {"storage": {"size": "100Gi"}}})
    world.settle()
    assert ready(world)["reason"] == "ApplyRejected"
    assert "set spec.storage.size to '1Gi'" in ready(world)["message"]
    put_secret(world, "two")
    world.settle()
    assert (world.logins[-1].password, bound(world)) == ("two", "two")
    assert find_condition(world.status(KIND, "db"), "Available")["status"] == "True"
    world.api.edit(CR, {"spec": {"storage": {"size": "1Gi"}}})
    world.settle()
    assert ready(world)["status"] == "True"
    assert world.writes_at_rest() == 0


@pytest.mark.parametrize("facts", [{}, {"login": False}])
def test_the_binding_keeps_what_logs_in_until_the_server_has_the_new_password(facts: Object) -> None:
    world = World()
    put_secret(world, "one")
    world.api.put(KIND.type, resource(KIND, "db", passwordSecretRef={"name": "ours"}))
    world.settle()
    seen: list[str] = []

    said = ExternalResult(ok=False, reason="SuperuserLoginFailed", message="no", facts=facts)

    def answer(request: Login) -> ExternalResult:
        if not request.check:
            seen.append(bound(world))
        return said

    world.answer = answer
    put_secret(world, "two")
    world.settle()
    world.restart()  # A password that no server accepted is not taken for accepted.
    world.settle()
    assert (ready(world)["reason"], bound(world)) == ("SuperuserLoginFailed", "one")
    said = ExternalResult(ok=True)
    world.wait_long()
    assert (ready(world)["status"], bound(world), set(seen)) == ("True", "two", {"one"})
    assert world.writes_at_rest() == 0


def test_a_server_that_lets_the_user_in_has_the_password_whatever_else_is_wrong() -> None:
    world = with_database()
    world.answer = ExternalResult(ok=False, reason="InvalidParameter", message="no", facts={"login": True})
    world.api.edit(CR, {"spec": {"password": "another"}})
    world.settle()
    assert bound(world) == "another"


@pytest.mark.parametrize("after", range(4))
def test_an_operator_that_dies_between_server_and_binding_makes_up_for_it(after: int) -> None:
    world = with_database()
    world.faulty.writes.extend([None] * after)
    world.faulty.writes.append(Fault.CRASH_BEFORE)
    world.api.edit(CR, {"spec": {"password": "another"}})
    world.settle()
    world.wait_long()
    assert (ready(world)["status"], bound(world)) == ("True", "another")
    world.faulty.writes.clear()


def test_no_probe_goes_to_a_service_of_another_writer_with_a_childs_name() -> None:
    """The Service of this name leads to another server now, which must not get any password."""
    world = with_database()
    asked = len(world.logins)
    world.api.remove(Ref(SERVICE, "ns", "db"), collect=False)
    world.api.put(SERVICE, {"metadata": {"namespace": "ns", "name": "db"}, "spec": {"mine": True}})
    world.now += timedelta(seconds=RESULT_SECONDS)
    world.settle()
    assert ready(world)["reason"] == "NameConflict"
    assert len(world.logins) == asked
