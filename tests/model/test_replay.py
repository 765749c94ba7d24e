"""`spec.replay`: the subscription begins again at a moment, once for each value, for new consumers."""

from __future__ import annotations

from typing import Any

import pytest
from kindling.kinds.base import ExternalResult
from kindling.kinds.conditions import find_condition
from kindling.kinds.pulsarconsumer.replay import ReplayRequest
from kindling.kube.resources import Object

from tests.model import consumer_world
from tests.model.backup_world import EACH_FAULT
from tests.model.consumer_world import CONSUMER, KIND, WORKLOAD, AdminApi
from tests.model.faults import Fault
from tests.model.world import World

SEVEN, EIGHT = "2026-11-24T07:00:00Z", "2026-11-24T09:00:00+01:00"
MILLISECONDS = 1_795_503_600_000
"""Of SEVEN; EIGHT is an hour later."""


class Broker(AdminApi):
    """What it was asked to replay, and the images of the consumers at that time."""

    request_type = ReplayRequest

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.asked: list[int] = []
        self.images: list[str] = []

    def done(self, request: ReplayRequest) -> None:
        assert (request.topic, request.subscription) == ("t", "s")
        self.asked.append(request.milliseconds)
        status = self.world.api.objects[WORKLOAD].get("status") or {}
        assert status.get("availableReplicas", 0) == status.get("updatedReplicas", 0)
        template = self.world.api.objects[WORKLOAD]["spec"]["template"]["spec"]
        self.images.append(str(template["containers"][0]["image"]))


def made(**spec: Any) -> tuple[World, Broker]:
    return consumer_world.made(Broker, **spec)


def replay(world: World, moment: str | None, **spec: Any) -> None:
    world.api.edit(CONSUMER, {"spec": {"replay": moment and {"from": moment}, **spec}})
    world.settle()
    world.wait_long()


def said(world: World, type: str = "Replayed") -> Object:
    return find_condition(world.api.objects[CONSUMER]["status"], type)


def test_without_it_nothing_is_asked_or_said() -> None:
    world, broker = made()
    assert broker.asked == []
    assert said(world) == {}
    assert "replay" not in world.status(KIND, "c")


def test_each_value_is_replayed_once() -> None:
    world, broker = made()
    replay(world, SEVEN)
    assert broker.asked == [MILLISECONDS]
    assert world.status(KIND, "c")["replay"]["from"] == SEVEN
    assert (said(world)["status"], said(world)["reason"]) == ("True", "CursorReset")
    assert world.status(KIND, "c")["replay"]["at"] in said(world)["message"]
    assert world.writes_at_rest() == 0
    world.restart()
    world.settle()
    world.wait_long()
    assert broker.asked == [MILLISECONDS]
    replay(world, EIGHT)
    assert broker.asked == [MILLISECONDS, MILLISECONDS + 3_600_000]
    replay(world, None)
    assert "replay" not in world.status(KIND, "c")
    assert said(world) == {}
    replay(world, EIGHT)
    assert len(broker.asked) == 3, "the field was gone meanwhile"


def test_a_new_consumer_gets_the_messages_and_not_the_one_before() -> None:
    world, broker = made(image="broken:1")
    world.api.edit(CONSUMER, {"spec": {"image": "fixed:2", "replay": {"from": SEVEN}}})
    world.settle(pods=False)
    assert broker.asked == []
    assert (said(world)["status"], said(world)["reason"]) == ("False", "Reconciling")
    world.settle()
    world.wait_long()
    assert broker.asked == [MILLISECONDS]
    assert broker.images == ["fixed:2"]


def test_what_the_broker_refuses_is_said_and_retried_until_it_does() -> None:
    world, broker = made()
    broker.failing = ExternalResult(ok=False, reason="NotAuthorized", message="It answered 403.")
    replay(world, SEVEN)
    assert (said(world)["status"], said(world)["reason"]) == ("False", "NotAuthorized")
    assert said(world)["message"] == "Nothing is replayed yet. It answered 403."
    assert said(world, "Ready")["status"] == "True"
    broker.failing = None
    world.wait_long()
    assert broker.asked == [MILLISECONDS]
    assert said(world)["status"] == "True"


def test_no_consumer_is_needed() -> None:
    world, broker = made(replicas=0)
    replay(world, SEVEN)
    assert broker.asked == [MILLISECONDS]
    assert said(world)["status"] == "True"


@pytest.mark.parametrize("moment", ["2026-12-31T23:59:60Z", "0001-01-01T00:00:00+05:00"])
def test_what_is_no_moment_is_named(moment: str) -> None:
    """As the API server admits them: a leap second, and a day before the year 1."""
    world, broker = made()
    replay(world, moment)
    assert said(world, "Ready")["reason"] == "InvalidSpec"
    assert f"spec.replay.from {moment!r} is no moment" in said(world, "Ready")["message"]
    assert broker.asked == []


@EACH_FAULT
@pytest.mark.parametrize("far", range(5))
def test_whatever_fails_it_is_replayed_and_recorded(far: int, fault: Fault) -> None:
    world, broker = made()
    world.faulty.writes.extend([*[None] * far, fault])
    replay(world, SEVEN)
    world.wait_long()
    assert world.status(KIND, "c")["replay"]["from"] == SEVEN
    assert 1 <= len(broker.asked) <= 2, "again where the record was lost with the operator"
    assert said(world)["status"] == "True"
    again = len(broker.asked)
    world.wait_long()
    assert len(broker.asked) == again


def test_a_deleted_resource_replays_nothing() -> None:
    world, broker = made(deletionPolicy="Unsubscribe")
    broker.failing = ExternalResult(ok=False, reason="AdminUnreachable", message="No.")
    replay(world, SEVEN)
    world.api.remove(CONSUMER)
    world.settle()
    broker.failing = None
    world.wait_long()
    assert CONSUMER not in world.api.objects
    assert broker.asked == []
