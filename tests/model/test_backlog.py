"""A backlog that moves all the time is written when a figure shows it, and one at rest never."""

from __future__ import annotations

from typing import Any

from kindling.kinds.base import ExternalResult
from kindling.kinds.pulsarconsumer.backlog import BacklogRequest

from tests.model.world import KINDS_BY_NAME, World, resource

KIND = KINDS_BY_NAME["pulsarconsumer.pulsar.pulsarconsumer.krvarma.com"]
SPEC = {"serverAddress": "pulsar://far", "topic": "t", "subscriptionName": "s", "replicas": 2}


def made(**spec: Any) -> World:
    world = World()
    world.api.put(KIND.type, resource(KIND, "c", **SPEC, **spec))
    world.settle()
    return world


def test_a_busy_subscription_is_written_when_a_figure_shows_and_one_at_rest_never() -> None:
    world = made(adminURL="http://far:8080")
    count, asked = 0, []

    def answer(request: Any) -> ExternalResult:
        assert isinstance(request, BacklogRequest)
        asked.append(request)
        figures = {"messages": 120_000 + count, "unacknowledged": 20, "consumers": 2, "quiet": False}
        return ExternalResult(ok=True, facts=figures)

    world.answer = answer
    assert world.writes_of_probes() == 1
    said = world.status(KIND, "c")["backlog"]
    assert (said["messages"], said["unacknowledged"], said["consumers"]) == (120_000, 20, 2)
    for count in range(20):  # noqa: B007 what the broker counts meanwhile
        assert world.writes_of_probes() == 0
    count = 10_000
    assert world.writes_of_probes() == 1
    assert world.status(KIND, "c")["backlog"]["messages"] == 130_000
    world.restart()
    world.settle()
    assert world.status(KIND, "c")["backlog"]["messages"] == 130_000, (
        "kept by a leader that knows nothing yet"
    )
    assert world.writes_of_probes() == 0
    assert asked


def test_without_an_address_nobody_is_asked() -> None:
    world = made()

    def answer(request: Any) -> ExternalResult:
        raise AssertionError(request)

    world.answer = answer
    world.repeat_probes()
    world.settle()
    assert "backlog" not in world.status(KIND, "c")
