"""What others say of a resource in trouble comes into its status: the server's answers, others' Events."""

from __future__ import annotations

import itertools
from datetime import timedelta

import pytest
from kindling.engine.store import key_of
from kindling.engine.warnings import newest
from kindling.kinds.conditions import find_condition, rfc3339
from kindling.kube.errors import ServerError
from kindling.kube.resources import SERVICE, STATEFUL_SET, Object, Ref, ResourceType

from tests.model.world import KINDS, World, resource

KIND = KINDS[0]
RESOURCE, WORKLOAD = Ref(KIND.type, "ns", "db"), Ref(STATEFUL_SET, "ns", "db")
QUOTA = 'pods "db-0" is forbidden: exceeded quota'


def without_a_pod() -> World:
    """A database whose StatefulSet's controller has tried, and makes no Pod."""
    world = World()
    world.api.put(KIND.type, resource(KIND, "db"))
    world.settle(pods=False)
    world.api.set_status(WORKLOAD, {"observedGeneration": 1, "replicas": 0})
    world.settle(pods=False)
    uid = world.api.objects[WORKLOAD]["metadata"]["uid"]
    said = {"reason": "FailedCreate", "note": QUOTA, "deprecatedLastTimestamp": rfc3339(world.now)}
    world.api.warned[WORKLOAD, uid] = [said]
    return world


def look(world: World, *, after: float) -> Object:
    """Ready after so many seconds, when the resource is looked at again."""
    world.now += timedelta(seconds=after)
    world.queue.add(key_of(RESOURCE))
    world.settle(pods=False)
    return find_condition(world.status(KIND, "db"), "Ready")


def degraded(world: World) -> bool:
    return bool(find_condition(world.status(KIND, "db"), "Degraded")["status"] == "True")


def test_why_a_pod_is_missing_is_said_in_its_words_and_a_fault_after_the_deadline() -> None:
    world = without_a_pod()
    assert look(world, after=19)["reason"] == "Reconciling"
    found = look(world, after=1)
    assert (found["reason"], degraded(world)) == ("PodMissing", False)
    assert QUOTA in found["message"]
    assert (look(world, after=580)["reason"], degraded(world)) == ("PodMissing", True)
    writes = world.api.writes.total()
    look(world, after=6000)
    assert world.api.writes.total() == writes
    world.settle()
    assert find_condition(world.status(KIND, "db"), "Ready")["status"] == "True"


def test_where_events_can_not_be_read_the_status_does_without_and_they_are_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = without_a_pod()

    async def failing(ref: Ref, *, uid: str) -> list[Object]:
        raise ServerError(status=500, reason="InternalError", message="no")

    with monkeypatch.context() as patch:
        patch.setattr(world.faulty, "warnings", failing)
        assert look(world, after=600)["reason"] == "PodMissing"
        assert degraded(world)
        assert world.failures
        assert key_of(RESOURCE) in world.later
    assert QUOTA in look(world, after=1)["message"]


@pytest.mark.parametrize("edited", [False, True])
def test_what_the_server_can_not_do_is_said_in_its_words(
    edited: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    world.api.put(KIND.type, resource(KIND, "db"))
    made, numbers = world.faulty.create, itertools.count()

    async def full(type: ResourceType, body: Object) -> Object:
        if type == SERVICE:
            said = f"failed to allocate a serviceIP: range is full (request {next(numbers)})"
            raise ServerError(status=500, reason="InternalError", message=said)
        return await made(type, body)

    if edited:
        world.settle()
    with monkeypatch.context() as patch:
        patch.setattr(world.faulty, "create", full)
        if edited:
            world.api.remove(Ref(SERVICE, "ns", "db"))
            world.api.edit(RESOURCE, {"spec": {"parameters": {"work_mem": "8MB"}}})
        world.settle()
        found = find_condition(world.status(KIND, "db"), "Ready")
        assert (found["reason"], degraded(world)) == ("ServerError", False)
        assert "range is full" in found["message"]
        # Other words for the same are not worth a write, which would be an event to try again at once.
        assert look(world, after=599) == found
        assert (look(world, after=1)["reason"], degraded(world)) == ("ServerError", True)
    look(world, after=1)
    world.settle()
    assert find_condition(world.status(KIND, "db"), "Ready")["status"] == "True"


def test_the_newest_is_the_one_said_last_wherever_its_author_puts_the_time() -> None:
    old: Object = {"reason": "A", "note": "a", "eventTime": "2026-01-01T00:00:09.000000Z"}
    series = {**old, "reason": "B", "series": {"lastObservedTime": "2026-01-01T00:00:11.000000Z"}}
    counted = {"reason": "C", "deprecatedLastTimestamp": "2026-01-01T00:00:10Z", "eventTime": None}
    bare = {"metadata": {"creationTimestamp": "2026-01-01T00:00:08Z"}}
    found = newest([old, series, counted, bare])
    assert found is not None
    assert (found.reason, found.note) == ("B", "a")
    assert newest([counted, old]) is not None
    assert newest([bare]) == ("", "", "2026-01-01T00:00:08Z")
    assert newest([]) is None
