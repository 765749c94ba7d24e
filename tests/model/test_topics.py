"""A PulsarConsumer of several topics in the model: replayed and unsubscribed topic by topic."""

from __future__ import annotations

from typing import Any

import pytest
from kindling.kinds.base import ExternalResult
from kindling.kinds.conditions import find_condition
from kindling.kinds.pulsarconsumer.deletion import UnsubscribeRequest
from kindling.kinds.pulsarconsumer.replay import ReplayRequest

from tests.model import consumer_world
from tests.model.backup_world import EACH_FAULT
from tests.model.consumer_world import CONSUMER, KIND, AdminApi
from tests.model.faults import Fault
from tests.model.world import World

SEVEN = "2026-11-24T07:00:00Z"
TOPICS = ["a", "b", "c"]
PATTERN = "persistent://public/default/orders-.*"


class Broker(AdminApi):
    """What it was asked to do, topic by topic; one topic may not be answered for."""

    request_type = ReplayRequest

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.replayed: list[str] = []
        self.deleted: list[tuple[str, str]] = []
        self.refused = ""

    def answer(self, request: Any) -> ExternalResult:
        if self.refused and getattr(request, "topic", "") == self.refused:
            return ExternalResult(ok=False, reason="NotAuthorized", message="It answered 403.")
        if isinstance(request, UnsubscribeRequest):
            self.deleted.append((request.topic, request.pattern))
            return ExternalResult(ok=True)
        return super().answer(request)

    def done(self, request: ReplayRequest) -> None:
        self.replayed.append(request.topic)


def made(**spec: Any) -> tuple[World, Broker]:
    world, broker = consumer_world.made(Broker, topic=None, **{"topics": TOPICS, **spec})
    return world, broker


def replay(world: World) -> None:
    world.api.edit(CONSUMER, {"spec": {"replay": {"from": SEVEN}}})
    world.settle()
    for _ in range(len(TOPICS)):
        world.wait_long()


def test_each_topic_is_replayed_once_and_in_order() -> None:
    world, broker = made()
    replay(world)
    assert broker.replayed == TOPICS
    known = world.status(KIND, "c")["replay"]
    assert (known["from"], "topic" in known) == (SEVEN, False)
    assert find_condition(world.status(KIND, "c"), "Replayed")["status"] == "True"
    assert world.writes_at_rest() == 0
    world.restart()
    world.settle()
    world.wait_long()
    assert broker.replayed == TOPICS


def test_what_is_done_is_not_done_again_while_another_topic_is_refused() -> None:
    world, broker = made()
    broker.refused = "b"
    replay(world)
    assert broker.replayed == ["a"]
    assert world.status(KIND, "c")["replay"]["topic"] == "a"
    said = find_condition(world.status(KIND, "c"), "Replayed")
    assert (said["status"], said["reason"]) == ("False", "NotAuthorized")
    assert said["message"] == "Topic 'b' is not replayed yet, others are. It answered 403."
    world.restart()
    broker.refused = ""
    for _ in TOPICS:
        world.settle()
        world.wait_long()
    assert broker.replayed == TOPICS


@EACH_FAULT
@pytest.mark.parametrize("far", range(6))
def test_whatever_fails_each_topic_is_replayed(far: int, fault: Fault) -> None:
    world, broker = made()
    world.faulty.writes.extend([*[None] * far, fault])
    replay(world)
    world.wait_long()
    assert sorted(set(broker.replayed)) == TOPICS
    assert len(broker.replayed) <= len(TOPICS) + 1, "again where the record was lost with the operator"
    assert "topic" not in world.status(KIND, "c")["replay"]


@pytest.mark.parametrize(
    ("spec", "deleted"),
    [
        ({}, [("a", ""), ("b", ""), ("c", "")]),
        ({"topics": None, "topicsPattern": PATTERN}, [("", PATTERN)]),
    ],
)
def test_the_subscription_is_deleted_from_each(spec: Any, deleted: list[tuple[str, str]]) -> None:
    world, broker = made(deletionPolicy="Unsubscribe", **spec)
    assert world.writes_at_rest() == 0
    world.api.remove(CONSUMER)
    world.settle()
    world.wait_long()
    assert CONSUMER not in world.api.objects
    assert broker.deleted == deleted


def test_one_topic_that_is_refused_keeps_the_resource_and_is_said() -> None:
    world, broker = made(deletionPolicy="Unsubscribe")
    broker.refused = "b"
    world.api.remove(CONSUMER)
    world.settle()
    world.wait_long()
    said = find_condition(world.api.objects[CONSUMER]["status"], "Ready")
    assert said["reason"] == "NotAuthorized"
    broker.refused = ""
    world.wait_long()
    assert CONSUMER not in world.api.objects
    assert [topic for topic, _ in broker.deleted] == TOPICS
