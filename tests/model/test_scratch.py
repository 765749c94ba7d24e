"""Which differences the comparison with a fresh world finds, and which it leaves out on purpose."""

from __future__ import annotations

from datetime import timedelta

from kindling.kinds.conditions import find_condition
from kindling.kube.resources import POD, SECRET, Ref

from tests.model.scratch import diff_from_fresh
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


def test_the_remaining_pod_of_a_refused_database_is_no_difference() -> None:
    """In a fresh world such a database has no Pod; here it keeps its own (found by the state machine)."""
    world = with_friend()
    world.api.edit(Ref(DATABASE.type, "ns", "a"), {"spec": {"version": "10"}})
    world.settle()
    assert Ref(POD, "ns", "a-0") in world.api.objects
    assert list(diff_from_fresh(world)) == []


def test_data_of_another_user_is_no_difference() -> None:
    """The volume says whose data it has, in a fresh world too (found by the state machine)."""
    world, database = World(), Ref(DATABASE.type, "ns", "a")
    world.api.put(DATABASE.type, resource(DATABASE, "a"))
    world.settle()
    world.api.remove(database, collect=False)
    world.api.put(DATABASE.type, resource(DATABASE, "a", defaultUser="A"))
    world.settle()
    assert find_condition(world.status(DATABASE, "a"), "Ready")["reason"] == "UserConflict"
    assert list(diff_from_fresh(world)) == []


def test_another_certificate_of_a_role_is_no_difference_and_a_missing_one_is() -> None:
    """It is of the moment at which it was made."""
    world, database = World(), Ref(DATABASE.type, "ns", "a")
    role = {"name": "app", "login": True, "clientCertificate": {"enabled": True}}
    world.api.put(DATABASE.type, resource(DATABASE, "a", roles=[role]))
    world.settle()
    world.wait_long()
    assert list(diff_from_fresh(world)) == []
    made = world.api.objects[Ref(SECRET, "ns", "a-role-app")]["data"]
    world.api.objects[database]["spec"]["roles"] = [{"name": "app", "login": True}]
    assert "tls.key" in made
    assert [
        name for name in ("tls.crt", "tls.key") if f".{name}:" not in " ".join(diff_from_fresh(world))
    ] == []


def test_a_status_that_reports_a_past_state_is_a_difference() -> None:
    world = with_friend()
    world.api.put(FRIENDLY.type, resource(FRIENDLY, "c", name="nobody"))
    world.settle()
    status = world.api.objects[Ref(FRIENDLY.type, "ns", "b")]["status"]
    world.api.set_status(Ref(FRIENDLY.type, "ns", "c"), status)
    assert len(list(diff_from_fresh(world))) == 1


def test_the_moment_of_a_replay_is_no_difference_and_another_subscription_is() -> None:
    """Its message says when the broker did it (found by the state machine)."""
    consumers = KINDS_BY_NAME["pulsarconsumer.pulsar.pulsarconsumer.krvarma.com"]
    world = World()
    spec = {"adminURL": "http://far.invalid:8080", "subscriptionName": "s"}
    world.now += timedelta(minutes=1)  # the fresh one's begins at another moment
    replay = {"replay": {"from": "2026-01-01T07:00:00Z"}}
    world.api.put(consumers.type, resource(consumers, "a", **spec, **replay))
    world.settle()
    world.wait_long()
    status = world.status(consumers, "a")
    assert status["replay"]["at"] in find_condition(status, "Replayed")["message"]
    assert list(diff_from_fresh(world)) == []
    wrong = [
        {**item, "message": item["message"].replace("subscription 's'", "subscription 't'")}
        if item["type"] == "Replayed"
        else item
        for item in status["conditions"]
    ]
    world.api.set_status(Ref(consumers.type, "ns", "a"), {**status, "conditions": wrong})
    assert len(list(diff_from_fresh(world))) == 1
