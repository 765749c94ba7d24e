"""What the comparison with a world anew takes for a difference, and what it leaves out on purpose."""

from __future__ import annotations

from kindling.kinds.conditions import find_condition
from kindling.kube.resources import POD, Ref

from tests.model.scratch import told_apart
from tests.model.world import KINDS_BY_NAME, World, resource

DATABASE = KINDS_BY_NAME["postgresql.database.technotuesday.io"]
FRIENDLY = KINDS_BY_NAME["mycustomresource.poc.test.domain"]


def with_friend() -> World:
    """One that has found its friend, which is a database's Pod."""
    world = World()
    world.api.put(DATABASE.type, resource(DATABASE, "a"))
    world.settle()
    world.api.put(FRIENDLY.type, resource(FRIENDLY, "b", name="a-0"))
    world.settle()
    assert find_condition(world.status(FRIENDLY, "b"), "Ready")["reason"] == "FriendFound"
    return world


def test_a_friend_that_a_refused_database_has_left_is_no_difference() -> None:
    """Made anew, such a database has no Pod; what it had, it leaves (drawn by the state machine)."""
    world = with_friend()
    world.api.edit(Ref(DATABASE.type, "ns", "a"), {"spec": {"version": "10"}})
    world.settle()
    assert Ref(POD, "ns", "a-0") in world.api.objects
    assert list(told_apart(world)) == []


def test_a_status_that_tells_of_the_past_is_one() -> None:
    world = with_friend()
    world.api.put(FRIENDLY.type, resource(FRIENDLY, "c", name="nobody"))
    world.settle()
    status = world.api.objects[Ref(FRIENDLY.type, "ns", "b")]["status"]
    world.api.set_status(Ref(FRIENDLY.type, "ns", "c"), status)
    assert len(list(told_apart(world))) == 1
