"""spec.exporter of a Postgresql over its whole life: the container and its role come and go as one."""

from __future__ import annotations

import pytest
from kindling.kinds.base import ExternalResult
from kindling.kinds.postgresql.objects import Objects
from kindling.kube.resources import NETWORK_POLICY, SECRET, STATEFUL_SET, Object, Ref

from tests.model.test_plan import items
from tests.model.test_postgresql_model import CR, FIRST, ready, with_database
from tests.model.world import World

ROLE = "kindling_exporter"
SECRET_REF = Ref(SECRET, "ns", "db-role-kindling-exporter")
WORKLOAD = Ref(STATEFUL_SET, "ns", "db")
ON = {"enabled": True}


def containers(world: World) -> list[str]:
    template = world.api.objects[WORKLOAD]["spec"]["template"]["spec"]
    return [item["name"] for item in template["containers"]]


def ports(world: World) -> list[object]:
    rules = world.api.objects[Ref(NETWORK_POLICY, "ns", "db")]["spec"]["ingress"]
    return [port["port"] for rule in rules for port in rule["ports"]]


def role_entries(world: World) -> list[Object]:
    found: list[Object] = world.status(FIRST, "db").get("roles") or []
    return found


def test_it_comes_and_goes_whole() -> None:
    world = with_database()
    world.api.edit(CR, {"spec": {"exporter": ON}})
    world.settle()
    assert (containers(world), ports(world)) == (["postgres", "exporter"], [5432, "metrics"])
    assert [(item["name"], item["reason"], item["reclaimPolicy"]) for item in role_entries(world)] == [
        (ROLE, "Applied", "Delete")
    ]
    assert SECRET_REF in world.api.objects
    assert ready(world)["status"] == "True"
    assert world.writes_at_rest() == 0
    world.api.edit(CR, {"spec": {"exporter": {"enabled": False}}})
    world.settle()
    assert (containers(world), ports(world), role_entries(world)) == (["postgres"], [5432], [])
    # The operator deletes no Secret of a server; this one is the login of a role that is no more.
    assert SECRET_REF in world.api.objects
    assert ready(world)["status"] == "True"
    assert world.writes_at_rest() == 0


def test_a_plan_names_the_field_and_the_one_restart_both_ways() -> None:
    world = with_database()
    found = items(world, exporter=ON)
    assert (found["StatefulSet/db"]["fields"], found["StatefulSet/db"]["disruption"]) == (
        ["spec.exporter"],
        "Restart",
    )
    assert found["NetworkPolicy/db"]["fields"] == ["spec.exporter"]
    assert found["Secret/db-role-kindling-exporter"]["fields"] == ["spec.exporter"]
    assert found["objects"]["fields"] == ["spec.exporter"]
    world.api.edit(CR, {"spec": {"mode": "Apply"}})
    world.settle()
    assert items(world) == {}
    drops = ExternalResult(ok=False, reason="Paused", facts={"roles": {ROLE: ("Paused", "it differs")}})
    world.answer = lambda request: drops if isinstance(request, Objects) else ExternalResult(ok=True)
    found = items(world, exporter={"enabled": False})
    assert (found["StatefulSet/db"]["fields"], found["StatefulSet/db"]["disruption"]) == (
        ["spec.exporter"],
        "Restart",
    )
    assert found["NetworkPolicy/db"]["fields"] == ["spec.exporter"]
    assert (found["objects"]["fields"], found["objects"]["message"]) == (["spec.exporter"], "is dropped")


@pytest.mark.parametrize(
    "spec", [{"roles": [{"name": ROLE}]}, {"defaultUser": ROLE}, {"roles": [{"name": ROLE, "login": True}]}]
)
def test_its_role_is_nobody_elses(spec: Object) -> None:
    """Where the rule of the CRD was taken away."""
    world = with_database(**spec)
    assert ready(world)["status"] == "True"
    world.api.edit(CR, {"spec": {"exporter": ON}})
    world.settle()
    assert ready(world)["reason"] == "InvalidSpec"
    assert "spec.exporter makes the role 'kindling_exporter'" in ready(world)["message"]
    assert containers(world) == ["postgres"]
