"""A protected database's claim loses its protection before the resource is gone: nobody would take it off."""

from __future__ import annotations

import pytest
from kindling.kinds.conditions import find_condition
from kindling.kube.resources import VOLUME_CLAIM, Ref

from tests.model.backup_world import EACH_FAULT
from tests.model.faults import Fault
from tests.model.world import KINDS, World, resource

KIND = KINDS[0]
CR = Ref(KIND.type, "ns", "db")
CLAIM = Ref(VOLUME_CLAIM, "ns", "db-data")
LABEL = "kindling.dev/deletion-protection"
FINALIZER = "kindling.dev/protected-claim"
POLICIES = pytest.mark.parametrize("policy", ["Retain", "Delete"])


def with_database(**spec: object) -> World:
    world = World()
    world.api.put(KIND.type, resource(KIND, "db", **spec))
    world.settle()
    return world


def finalizers(world: World) -> list[str]:
    found: list[str] = world.api.objects[CR]["metadata"].get("finalizers") or []
    return found


def is_labelled(world: World) -> bool:
    return LABEL in world.api.objects[CLAIM]["metadata"]["labels"]


def ends(world: World) -> None:
    """The field is false, and it is deleted before anybody has seen that."""
    world.api.edit(CR, {"spec": {"deletionProtection": False}})
    world.api.remove(CR)


def test_a_resource_that_was_never_protected_waits_for_nobody() -> None:
    world = with_database()
    assert not finalizers(world)
    world.api.remove(CR)
    assert CR not in world.api.objects


@POLICIES
def test_a_claim_is_let_go_though_its_resource_is_deleted_at_once(policy: str) -> None:
    world = with_database(deletionProtection=True, deletionPolicy=policy)
    assert finalizers(world) == [FINALIZER]
    assert is_labelled(world)
    assert world.writes_at_rest() == 0
    ends(world)
    world.settle()
    assert CR not in world.api.objects
    assert (CLAIM in world.api.objects) == (policy == "Retain")
    assert policy == "Delete" or not is_labelled(world)


def test_what_is_not_protected_any_more_goes_by_itself() -> None:
    world = with_database(deletionProtection=True)
    world.api.edit(CR, {"spec": {"deletionProtection": False}})
    world.settle()
    assert not is_labelled(world)
    assert world.writes_at_rest() == 0
    world.api.remove(CR)
    world.settle()
    assert CR not in world.api.objects


def test_a_resource_that_goes_though_it_is_protected_leaves_a_protected_claim() -> None:
    """With its definition, of which no policy is asked."""
    world = with_database(deletionProtection=True)
    world.api.remove(CR)
    world.settle()
    assert CR not in world.api.objects
    assert is_labelled(world)


def test_a_paused_resource_waits_until_it_is_resumed() -> None:
    world = with_database(deletionProtection=True)
    world.api.edit(CR, {"spec": {"paused": True}})
    world.settle()
    ends(world)
    world.settle()
    assert is_labelled(world)
    ready = find_condition(world.status(KIND, "db"), "Ready")
    assert ready["status"] == "False"
    assert CLAIM.name in ready["message"]
    world.api.edit(CR, {"spec": {"paused": None}})
    world.settle()
    assert CR not in world.api.objects
    assert not is_labelled(world)


def test_a_plan_for_a_protected_resource_has_nothing_to_wait_for() -> None:
    world = with_database(deletionProtection=True)
    plan = {"mode": "Plan", "planFor": "db", "deletionProtection": True}
    world.api.put(KIND.type, resource(KIND, "what-if", **plan))
    world.settle()
    assert not world.api.objects[Ref(KIND.type, "ns", "what-if")]["metadata"].get("finalizers")


def test_another_resources_claim_of_this_name_keeps_its_label() -> None:
    """An earlier resource's, that is being deleted: what it has is not this one's."""
    world = with_database(deletionProtection=True, deletionPolicy="Delete")
    world.api.edit(CLAIM, {"metadata": {"finalizers": ["test/slow"]}})
    ends(world)
    world.settle()
    assert CR not in world.api.objects
    world.api.edit(CLAIM, {"metadata": {"labels": {LABEL: "true"}}})
    world.api.put(KIND.type, resource(KIND, "db", deletionProtection=True))
    world.settle()
    ends(world)
    world.settle()
    assert CR not in world.api.objects
    assert is_labelled(world)


@EACH_FAULT
@pytest.mark.parametrize("write", range(3))
def test_whatever_fails_the_claim_is_let_go(fault: Fault, write: int) -> None:
    world = with_database(deletionProtection=True)
    world.faulty.writes.extend([None] * write + [fault])
    ends(world)
    world.settle()
    world.wait_long()
    assert CR not in world.api.objects
    assert not is_labelled(world)


@pytest.mark.parametrize("write", range(3))
def test_it_may_be_deleted_before_any_write_that_ends_the_protection(write: int) -> None:
    world = with_database(deletionProtection=True)
    world.faulty.writes.extend([None] * write + [lambda: world.api.remove(CR)])
    world.api.edit(CR, {"spec": {"deletionProtection": False}})
    world.settle()
    world.wait_long()
    if CR in world.api.objects:
        world.api.remove(CR)
        world.settle()
    assert CR not in world.api.objects
    assert not is_labelled(world)
