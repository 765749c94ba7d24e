"""What the consumers say of their handler is written when it shows, and under a steady load never."""

from __future__ import annotations

import json
from typing import Any

from kindling.kinds.base import ExternalResult
from kindling.kinds.conditions import find_condition
from kindling.kinds.http import HttpRequest

from tests.model.world import KINDS_BY_NAME, World, resource

KIND = KINDS_BY_NAME["pulsarconsumer.pulsar.pulsarconsumer.krvarma.com"]
SPEC = {
    "serverAddress": "pulsar://far",
    "topic": "t",
    "subscriptionName": "s",
    "replicas": 3,
    "handler": {"http": {"url": "http://orders:8080"}},
}
BAD = {"id": "5:1:-1", "topic": "t", "error": "ValueError", "since": "2026-01-01T00:00:00Z"}


def test_a_steady_load_writes_nothing_and_a_message_that_fails_is_written_at_once() -> None:
    world, asked, said = World(), [], {"calls": 1000, "failures": 0, "p99Milliseconds": 20}

    def answer(request: Any) -> ExternalResult:
        assert isinstance(request, HttpRequest)
        asked.append((request.pod, request.port, request.path))
        return ExternalResult(ok=True, facts={"status": 200, "body": json.dumps(said)})

    world.answer = answer
    world.api.put(KIND.type, resource(KIND, "c", **SPEC))
    world.settle()
    world.writes_of_probes()
    found = world.status(KIND, "c")["handler"]
    assert (found["consumers"], found["calls"], found["p99Milliseconds"]) == (3, 3000, 20)
    assert {(port, path) for _, port, path in asked} == {(8080, "/handler")}
    assert len({pod for pod, _, _ in asked}) == 3
    for calls in (1020, 980, 1050, 990):
        said["calls"] = calls
        assert world.writes_of_probes() == 0
    said["poison"] = [BAD]  # type: ignore[assignment]
    assert world.writes_of_probes() == 1
    status = world.status(KIND, "c")
    assert find_condition(status, "Ready")["reason"] == "PoisonMessage"
    world.restart()
    world.settle()
    assert world.status(KIND, "c") == status, "kept by a leader that knows nothing yet"
    assert world.writes_of_probes() == 0
    del said["poison"]
    assert world.writes_of_probes() == 1
    assert find_condition(world.status(KIND, "c"), "Ready")["reason"] == "Connected"
