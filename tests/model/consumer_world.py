"""A PulsarConsumer in the model, with a broker whose admin API does what it is asked, or fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from kindling.kinds.base import ExternalResult
from kindling.kube.resources import DEPLOYMENT, Ref

from tests.model.world import KINDS_BY_NAME, World, resource

KIND = KINDS_BY_NAME["pulsarconsumer.pulsar.pulsarconsumer.krvarma.com"]
WORKLOAD = Ref(DEPLOYMENT, "ns", "c-deployment")
CONSUMER = Ref(KIND.type, "ns", "c")
SPEC = {
    "serverAddress": "pulsar://far", "topic": "t", "subscriptionName": "s", "replicas": 2,
    "adminURL": "http://far:8080",
}  # fmt: skip


class AdminApi:
    """Answers `request_type` by `done`, unless it is `failing`; of what waits it always says the same."""

    request_type: type

    def __init__(self, world: World) -> None:
        self.world = world
        self.failing: ExternalResult | None = None
        world.answer = self.answer

    def answer(self, request: Any) -> ExternalResult:
        if not isinstance(request, self.request_type):
            return ExternalResult(ok=True, facts={"messages": 0, "unacknowledged": 0, "consumers": 2})
        if self.failing is not None:
            return self.failing
        self.done(request)
        return ExternalResult(ok=True)

    def done(self, request: Any) -> None:
        """Keep what is to be compared."""
        raise NotImplementedError


B = TypeVar("B", bound=AdminApi)


def made(broker: Callable[[World], B], **spec: Any) -> tuple[World, B]:
    """A world at rest with the resource in it."""
    world = World()
    admin = broker(world)
    world.api.put(KIND.type, resource(KIND, "c", **{**SPEC, **spec}))
    world.settle()
    return world, admin
