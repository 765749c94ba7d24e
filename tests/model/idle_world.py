"""A Postgresql that nobody uses, in the model: its server knows since when, and time passes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from kindling.engine.store import key_of
from kindling.kinds.base import ExternalResult
from kindling.kinds.conditions import rfc3339
from kindling.kinds.postgresql import idle
from kindling.kinds.postgresql.login import Login
from kindling.kube.resources import POD, Object, Ref

from tests.model.world import KINDS, World, resource

KIND = KINDS[0]
CR = Ref(KIND.type, "ns", "db")
DB_POD = Ref(POD, "ns", "db-0")


class Server:
    """Lets everybody in, and knows since when nobody has been there."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.used = world.now
        self.looked = 0
        self.process: object = None
        world.answer = self.answer

    def answer(self, request: Any) -> ExternalResult:
        facts: dict[str, Any] = {"login": True, "system_identifier": "7000000000000000001"}
        if isinstance(request, Login) and request.check and request.looks:
            if self.process is not self.world.reconciler:  # of the time before, it knows nothing
                self.process, self.used = self.world.reconciler, self.world.now
            self.looked += 1
            unused = (self.world.now - self.used).total_seconds()
            facts[idle.FACT] = rfc3339(self.used) if unused >= idle.QUIET_SECONDS else ""
        return ExternalResult(ok=True, facts=facts)


def with_database(**spec: object) -> tuple[World, Server]:
    world = World()
    server = Server(world)
    world.api.put(KIND.type, resource(KIND, "db", **spec))
    world.settle()
    return world, server


def phase(world: World) -> str:
    found: str = world.status(KIND, "db")["pgPhase"]
    return found


def pass_time(world: World, **time: float) -> None:
    """As it passes: with a health check every ten seconds, and what is requeued."""
    end = world.now + timedelta(**time)
    while world.now < end:
        world.now = min(end, world.now + timedelta(seconds=10))
        world.repeat_probes()
        world.settle()
        world.queue.add(key_of(CR))
        world.settle()


def wake(world: World, value: str) -> None:
    world.api.edit(CR, {"metadata": {"annotations": {idle.WAKE: value}}})
    world.settle()


def record(world: World) -> Object:
    found: Object = world.status(KIND, "db").get("idle", {})
    return found
