"""However passwords change and whatever is lost, the password of the binding is one that every cache accepts.

The caches here read their file whenever the kubelet has brought it: at once, late, one before the other.
"""

from __future__ import annotations

import base64
import random
from datetime import timedelta
from typing import Any

import pytest
from kindling.kinds.base import ExternalResult
from kindling.kinds.memcached import auth
from kindling.kinds.memcached.access import AccessRequest
from kindling.kube.resources import POD, SECRET, Ref

from tests.model.faults import Fault
from tests.model.world import KINDS_BY_NAME, World, resource

KIND = KINDS_BY_NAME["memcached.cache.example.com"]
CR, USERS, BINDING = Ref(KIND.type, "ns", "m"), Ref(SECRET, "ns", "m-auth"), Ref(SECRET, "ns", "m-binding")


def values(world: World, ref: Ref) -> dict[str, str]:
    data = (world.api.objects.get(ref) or {}).get("data") or {}
    return {name: base64.b64decode(value).decode() for name, value in data.items()}


class Caches:
    """What each Pod's memcached has read: its logins, by the Pod's address."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.read: dict[str, list[str]] = {}
        world.answer = self.answer

    def start(self) -> None:
        """Those that are new read the file as it is."""
        for ref, obj in self.world.api.objects.items():
            host = (obj.get("status") or {}).get("podIP") if ref.type == POD else None
            if host and host not in self.read:
                self.bring(host)

    def bring(self, host: str) -> None:
        lines = values(self.world, USERS).get("users", "").split()
        self.read[host] = [line.partition(":")[2] for line in lines]

    def answer(self, request: Any) -> ExternalResult:
        assert isinstance(request, AccessRequest)
        self.start()
        for number, password in enumerate(request.passwords):
            if password in self.read.get(request.host, []):
                return ExternalResult(ok=True, facts={"login": number == 0})
        return ExternalResult(ok=False, reason="LoginFailed", message="No.")

    def let_in(self) -> None:
        """Whoever reads the binding now gets into every cache."""
        self.start()
        running = {
            obj["status"]["podIP"]
            for ref, obj in self.world.api.objects.items()
            if ref.type == POD and obj["status"].get("podIP") in self.read
        }
        password = values(self.world, BINDING)["password"]
        assert [host for host in running if password not in self.read[host]] == []


@pytest.mark.parametrize("seed", range(20))
def test_whoever_reads_the_binding_gets_in(seed: int) -> None:
    dice, world = random.Random(seed), World()
    caches = Caches(world)
    world.api.put(KIND.type, resource(KIND, "m", size=2, auth={"enabled": True}))
    world.settle()
    caches.let_in()
    for number in range(15):
        act = dice.randrange(6)
        if act == 0:
            world.api.edit(CR, {"metadata": {"annotations": {auth.REQUEST: str(number)}}})
        elif act == 1:
            for host in dice.sample(sorted(caches.read), dice.randrange(len(caches.read) + 1)):
                caches.bring(host)
        elif act == 2:
            world.now += timedelta(minutes=dice.choice([1, 6, 11]))
            # The kubelet needs less than the time for which the one before is valid.
            for host in caches.read if dice.random() < 0.5 else ():
                caches.bring(host)
        elif act == 3:
            world.faulty.writes.append(dice.choice([Fault.CONFLICT, Fault.LOST, Fault.CRASH_AFTER]))
        elif act == 4:
            world.api.objects.pop(BINDING, None)
            world.restart()
        else:
            world.restart()
        world.repeat_probes()
        world.settle()
        if BINDING in world.api.objects:
            caches.let_in()
    for _ in range(3):
        for host in caches.read:
            caches.bring(host)
        world.resync()
        world.wait_long()
    caches.let_in()
    found = values(world, USERS)
    assert found["users"] == f"memcached:{found['password']}\n"
    assert values(world, BINDING)["password"] == found["password"]
    assert world.writes_at_rest() == 0
