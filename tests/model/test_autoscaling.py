"""The backlog decides how many consumers there are: up at once, down after a while, and as before while it is
not known.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from kindling.kinds.base import ExternalResult
from kindling.kinds.conditions import find_condition
from kindling.kinds.pulsarconsumer.backlog import BacklogRequest
from kindling.kube.resources import DEPLOYMENT, Ref

from tests.model.faults import Fault
from tests.model.world import KINDS_BY_NAME, World, resource

KIND = KINDS_BY_NAME["pulsarconsumer.pulsar.pulsarconsumer.krvarma.com"]
REF, WORKLOAD = Ref(KIND.type, "ns", "c"), Ref(DEPLOYMENT, "ns", "c-deployment")
SCALING = {"min": 0, "max": 10, "targetBacklog": 100}
WINDOW = 300


@dataclass
class Broker:
    """What it says of the subscription; `reason` where it says nothing."""

    messages: int = 0
    quiet: bool = False
    partitions: int = 0
    reason: str = ""

    def __call__(self, request: Any) -> ExternalResult:
        assert isinstance(request, BacklogRequest)
        if self.reason:
            return ExternalResult(ok=False, reason=self.reason, message="m")
        facts = {"messages": self.messages, "unacknowledged": 0, "consumers": int(self.quiet)}
        return ExternalResult(ok=True, facts={**facts, "quiet": self.quiet, "partitions": self.partitions})


def made(broker: Broker, *, replicas: int = 1, scaling: Any = None, **spec: Any) -> World:
    world = World()
    world.answer = broker
    wanted = {
        "serverAddress": "pulsar://far",
        "adminURL": "http://far:8080",
        "topic": "t",
        "subscriptionName": "s",
        "replicas": replicas,
        "autoscaling": SCALING | (scaling or {}),
    }
    world.api.put(KIND.type, resource(KIND, "c", **wanted, **spec))
    world.settle()
    return world


def consumers(world: World, *, after: int = 0) -> int:
    """How many there are once the broker was asked, so many seconds later."""
    world.now += timedelta(seconds=after)
    world.repeat_probes()
    world.settle()
    later, world.later = world.later, set()
    for key in later:
        world.queue.add(key)
    world.settle()
    found: int = world.api.objects[WORKLOAD]["spec"]["replicas"]
    return found


def test_it_begins_with_the_specs_number_within_the_bounds() -> None:
    for replicas, expected in ((0, 2), (3, 3), (50, 10)):
        world = made(Broker(reason="AdminUnreachable"), replicas=replicas, scaling={"min": 2})
        assert consumers(world) == expected
        assert world.writes_at_rest() == 0


def test_from_zero_to_a_backlog_and_back_to_zero() -> None:
    broker = Broker()
    broker.reason = "AdminUnreachable"
    world = made(broker, replicas=0)
    assert consumers(world) == 0
    assert "is not known" in find_condition(world.status(KIND, "c"), "Ready")["message"]
    broker.reason = ""
    assert consumers(world) == 0
    assert "No message waits" in find_condition(world.status(KIND, "c"), "Ready")["message"]
    broker.messages = 1
    assert consumers(world, after=60) == 1
    broker.messages = 950
    assert consumers(world, after=60) == 10
    scaled = world.status(KIND, "c")["autoscaling"]
    assert scaled["replicas"] == 10
    broker.messages = 0
    assert consumers(world, after=60) == 10
    assert consumers(world, after=WINDOW - 1) == 10
    assert consumers(world, after=1) == 0
    assert world.status(KIND, "c")["replicas"] == 0
    assert world.writes_at_rest() == 0
    assert "lowerSince" not in world.status(KIND, "c")["autoscaling"]


def test_fewer_are_the_most_that_were_asked_for_meanwhile() -> None:
    broker = Broker(messages=1000)
    world = made(broker)
    assert consumers(world) == 10
    for messages in (100, 400, 0, 200):
        broker.messages = messages
        assert consumers(world, after=60) == 10
    assert consumers(world, after=WINDOW) == 4
    # Peaks that come within the window keep all of them.
    for _ in range(10):
        broker.messages = 50
        assert consumers(world, after=WINDOW - 60) == 4
        broker.messages = 390
        assert consumers(world, after=30) == 4


def test_a_steady_load_scales_once_and_writes_nothing_more() -> None:
    broker = Broker(messages=300)
    world = made(broker)
    assert consumers(world) == 3
    before = dict(world.status(KIND, "c")["autoscaling"])
    for messages in (290, 300, 250, 299, 201, 300):
        broker.messages = messages
        assert consumers(world, after=120) == 3
    assert world.status(KIND, "c")["autoscaling"] == before


@pytest.mark.parametrize("reason", ["AdminUnreachable", "NotAuthorized"])
def test_while_nothing_is_known_there_are_as_many_as_before(reason: str) -> None:
    broker = Broker(messages=500)
    world = made(broker)
    assert consumers(world) == 5
    broker.reason = reason
    assert consumers(world, after=10 * WINDOW) == 5
    world.restart()
    world.settle()
    assert consumers(world) == 5
    assert world.writes_at_rest() == 0


def test_a_window_in_which_nothing_was_known_begins_again() -> None:
    broker = Broker(messages=500)
    world = made(broker)
    assert consumers(world) == 5
    broker.messages = 0
    assert consumers(world, after=60) == 5
    broker.reason = "AdminUnreachable"
    assert consumers(world, after=60) == 5
    assert "lowerSince" not in world.status(KIND, "c")["autoscaling"]
    broker.reason = ""
    assert consumers(world, after=WINDOW) == 5
    world.restart()
    world.settle()
    assert "lowerSince" in world.status(KIND, "c")["autoscaling"], (
        "kept by an operator that knows nothing yet"
    )
    assert consumers(world, after=WINDOW) == 0


@pytest.mark.parametrize("reason", ["SubscriptionNotFound", "TopicNotFound"])
def test_a_first_consumer_makes_the_subscription(reason: str) -> None:
    """Without it no message would ever wait."""
    world = made(Broker(reason=reason), replicas=0)
    assert consumers(world) == 1


def test_a_backlog_that_does_not_move_is_not_scaled_at() -> None:
    broker = Broker(messages=200)
    world = made(broker)
    assert consumers(world) == 2
    broker.quiet = True
    assert consumers(world, after=WINDOW) == 2
    assert find_condition(world.status(KIND, "c"), "BacklogMoving")["reason"] == "BacklogStuck"
    broker.messages = 900
    assert consumers(world, after=60) == 2
    broker.quiet = False
    assert consumers(world, after=60) == 9


def test_a_failover_subscription_has_no_more_than_partitions() -> None:
    broker = Broker(messages=900, partitions=3)
    assert consumers(made(broker, subscriptionType="Failover")) == 3
    broker.partitions = 0
    assert consumers(made(broker, subscriptionType="Failover")) == 1
    assert consumers(made(broker, subscriptionType="Key_Shared")) == 9


def test_without_it_the_spec_has_the_number_again() -> None:
    world = made(Broker(messages=900), replicas=2)
    assert consumers(world) == 9
    world.api.edit(REF, {"spec": {"autoscaling": None}})
    world.settle()
    assert consumers(world) == 2
    assert "autoscaling" not in world.status(KIND, "c")
    world.api.edit(REF, {"spec": {"autoscaling": {**SCALING, "max": 4}}})
    world.settle()
    assert consumers(world) == 4


@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.LOST, Fault.CONFLICT])
@pytest.mark.parametrize("far", range(6))
def test_whatever_fails_the_number_is_right_in_the_end(far: int, fault: Fault) -> None:
    broker = Broker(messages=500)
    world = made(broker, replicas=0)
    world.faulty.writes.extend([*[None] * far, fault])
    assert consumers(world) == 5 or consumers(world) == 5
    broker.messages = 0
    assert consumers(world, after=60) == 5
    # A new operator first asks the broker; the window begins when fewer are asked for.
    assert consumers(world, after=WINDOW) == 0 or consumers(world, after=WINDOW) == 0
