"""How a pass makes, changes and removes children, in which order, and at what cost in requests."""

from __future__ import annotations

import pytest
from kindling.kinds.conditions import find_condition
from kindling.kube.resources import (
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    NETWORK_POLICY,
    SERVICE,
    Object,
    Ref,
    ref_of,
)

from tests.model.faults import Fault
from tests.model.world import KINDS_BY_NAME, World, resource

MEMCACHED = KINDS_BY_NAME["memcached.cache.example.com"]


def test_an_edit_is_in_the_status_before_any_child_is_written() -> None:
    """A client that waits for Ready after an edit must not be satisfied by the state before the edit."""
    cr, workload = Ref(MEMCACHED.type, "ns", "m"), Ref(DEPLOYMENT, "ns", "m")
    world = World()
    world.api.put(MEMCACHED.type, resource(MEMCACHED, "m"))
    world.settle()
    assert find_condition(world.status(MEMCACHED, "m"), "Ready")["status"] == "True"
    world.api.edit(cr, {"spec": {"memoryMB": 128}})
    seen = len(world.api.events)
    world.settle(pods=False)
    (_, type, first), *later = world.api.events[seen:]
    assert (ref_of(type, first), find_condition(first["status"], "Ready")["status"]) == (cr, "False")
    assert workload in [ref_of(type, obj) for _, type, obj in later]


def test_a_new_resource_costs_no_look_at_what_may_be_there() -> None:
    """The server refuses to create over it. Asked is once, whether the resource is still there."""
    world = World()
    world.api.put(MEMCACHED.type, resource(MEMCACHED, "m"))
    world.settle()
    assert find_condition(world.status(MEMCACHED, "m"), "Ready")["status"] == "True"
    assert (world.faulty.asked, world.api.writes.total()) == (1, 5)


def test_children_of_all_come_before_the_status_of_any() -> None:
    world = World()
    for name in ("a", "b", "c"):
        world.api.put(MEMCACHED.type, resource(MEMCACHED, name))
    seen = len(world.api.events)
    world.settle(pods=False)
    types = [type for _, type, _ in world.api.events[seen:]]
    assert types == [NETWORK_POLICY, SERVICE, DEPLOYMENT] * 3 + [MEMCACHED.type] * 3


def test_a_new_resource_whose_children_fail_again_and_again_says_that_it_is_on_its_way() -> None:
    """A webhook that is down, say: the server answers 500 for the child, and would take a status."""
    world = World()
    world.api.put(MEMCACHED.type, resource(MEMCACHED, "m"))
    world.faulty.writes.append(Fault.SERVER_ERROR)
    world.settle(pods=False)
    assert world.failures == 1
    assert find_condition(world.status(MEMCACHED, "m"), "Ready")["reason"] == "Reconciling"


def test_two_kinds_of_one_name_are_both_named_with_the_remedy() -> None:
    postgresql = KINDS_BY_NAME["postgresql.database.db.example.com"]
    world = World()
    world.api.put(postgresql.type, resource(postgresql, "shop"))
    world.settle()
    world.api.put(MEMCACHED.type, resource(MEMCACHED, "shop"))
    world.settle()
    ready = find_condition(world.status(MEMCACHED, "shop"), "Ready")
    assert ready["reason"] == "NameConflict"
    for words in (
        "NetworkPolicy ns/shop, which Memcached shop needs",
        "belongs to the postgresql.database.db.example.com of this name",
        "Create this Memcached under another name, or delete that Postgresql shop.",
    ):
        assert words in ready["message"], ready["message"]
    assert find_condition(world.status(postgresql, "shop"), "Ready")["reason"] != "NameConflict"


def test_nothing_is_laid_over_a_strangers_object_of_a_childs_name() -> None:
    """Whatever is made before it turns up stays; from then on nothing is tried that could not be."""
    cr, taken = Ref(MEMCACHED.type, "ns", "m"), Ref(SERVICE, "ns", "m")
    world = World()
    world.api.put(SERVICE, {"metadata": {"namespace": "ns", "name": "m"}, "spec": {"mine": True}})
    stranger = world.api.objects[taken]
    world.api.put(MEMCACHED.type, resource(MEMCACHED, "m"))
    world.settle()
    assert find_condition(world.status(MEMCACHED, "m"), "Ready")["reason"] == "NameConflict"
    assert world.api.objects[taken] == stranger
    refused = world.faulty.refused
    world.wait_long()
    assert (world.writes_at_rest(), world.faulty.refused, world.failures) == (0, refused, 0)
    world.api.remove(taken)
    world.resync()
    world.wait_long()
    assert find_condition(world.status(MEMCACHED, "m"), "Ready")["status"] == "True"
    world.api.remove(cr)
    assert not world.api.objects


def test_a_child_missing_from_the_cache_is_found_again() -> None:
    """After a crash, for example: it exists, it is ours, and only the server has it."""
    world = World()
    world.api.put(MEMCACHED.type, resource(MEMCACHED, "m"))
    world.deliver()
    world.faulty.writes.extend([None, None, Fault.LOST])  # the second child is created, the answer is lost
    world.work()
    world.forget(*MEMCACHED.children)
    world.wait_long()
    assert find_condition(world.status(MEMCACHED, "m"), "Ready")["reason"] != "NameConflict"
    world.resync()
    world.wait_long()
    assert find_condition(world.status(MEMCACHED, "m"), "Ready")["status"] == "True"


@pytest.mark.parametrize("meanwhile", [False, True], ids=["by us", "by another writer meanwhile"])
def test_a_child_that_is_no_longer_desired_is_deleted(meanwhile: bool) -> None:
    """One replica needs no PodDisruptionBudget, and must not keep that of three."""
    cr, budget = Ref(MEMCACHED.type, "ns", "m"), Ref(DISRUPTION_BUDGET, "ns", "m")
    world = World()
    world.api.put(MEMCACHED.type, resource(MEMCACHED, "m", size=3))
    world.settle()
    assert budget in world.api.objects
    world.api.edit(cr, {"spec": {"size": 1}})
    if meanwhile:
        # Its status first, then its Deployment, then the budget.
        world.faulty.writes.extend([None, None, lambda: world.api.remove(budget)])
    world.settle()
    assert budget not in world.api.objects
    assert not world.faulty.writes
    assert world.failures == 0
    assert find_condition(world.status(MEMCACHED, "m"), "Ready")["status"] == "True"


def test_a_field_that_was_created_goes_once_it_is_no_longer_wanted() -> None:
    """No apply takes it away, being ours by creation: it is declared to have been applied first."""
    cr, workload = Ref(MEMCACHED.type, "ns", "m"), Ref(DEPLOYMENT, "ns", "m")
    world = World()
    world.api.put(MEMCACHED.type, resource(MEMCACHED, "m", resources={"limits": {"cpu": "1"}}))
    world.settle()

    def container() -> Object:
        found: Object = world.api.objects[workload]["spec"]["template"]["spec"]["containers"][0]
        return found

    assert container()["resources"]["limits"]["cpu"] == "1"
    asked = world.faulty.asked
    world.api.edit(cr, {"spec": {"memoryMB": 128}})
    world.settle()
    assert world.faulty.asked == asked  # nothing goes: it is applied, and that is all
    world.api.edit(cr, {"spec": {"resources": {"limits": {"cpu": None}}}})
    world.settle()
    assert "cpu" not in container()["resources"]["limits"]
    assert world.writes_at_rest() == 0
