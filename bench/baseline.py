"""The least that it could take: the same objects applied by a bare client, while the controllers run.

No operator runs meanwhile. First the resources, then their children, as many requests in flight as are
best, which is tried out beforehand: what any operator needs beyond that is its own. A second floor lies
lower: there the children are created, which costs the API server half of an apply.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

from kindling.kinds.base import Child, Observed
from kindling.kube.resources import POD, Object, Ref

from bench.kinds import KINDS_BY_NAME, MEMCACHED
from bench.load import at_once, client, namespace, watching
from bench.result import Result
from bench.testbed import Testbed
from bench.timeline import Timeline
from bench.trial import Say, TooSlow, phase_timeout

CANDIDATES = (8, 16, 32, 64)
TRIAL = 60


class Baseline:
    """`run` once, as a `Trial`; with `trial` or `create`, until the children exist and no further."""

    def __init__(
        self, *, stage: Testbed, count: int, namespace: str, in_flight: int, say: Say, create: bool = False
    ) -> None:
        self.result = Result()
        self._create = create
        self._stage, self._count, self._say = stage, count, say
        self._namespace, self._in_flight = namespace, in_flight
        self._kind = KINDS_BY_NAME[MEMCACHED.type.group_kind]
        self._made: list[Object] = []

    async def run(self, *, trial: bool = False) -> None:
        """:raises TooSlow: as a cell does."""
        timeline = Timeline(kind=MEMCACHED.type.kind, condition=MEMCACHED.condition, expected=3)
        types = (MEMCACHED.type, *MEMCACHED.children, POD)
        async with (
            client(self._stage.client.plane, in_flight=self._in_flight) as api,
            watching(self._stage.admin, timeline, types, namespace=self._namespace),
        ):
            figures = self.result.figures

            async def make(number: int) -> None:
                body = MEMCACHED.body(namespace=self._namespace, name=f"resource-{number}")
                self._made.append(await api.create(MEMCACHED.type, body))

            async def write(child: Child) -> None:
                await (api.create if self._create else api.apply)(child.type, child.body)

            async def delete(made: Object) -> None:
                meta = made["metadata"]
                ref = Ref(MEMCACHED.type, self._namespace, meta["name"])
                await api.delete(ref, uid=meta["uid"])

            self._say("create")
            began = _now()
            await at_once(range(self._count), make, in_flight=self._in_flight)
            figures["create: resources exist s"] = _now() - began
            children = [child for made in self._made for child in self._children(made)]
            applying = _now()
            await at_once(children, write, in_flight=self._in_flight)
            await self._until(lambda: timeline.complete() == self._count)
            figures["create: children alone s"] = _now() - applying
            figures["create: children exist s"] = _now() - began
            if trial or self._create:
                return
            await self._until(lambda: all(life.available for life in timeline.lives.values()))
            figures["create: ready s"] = _now() - began
            self._say("delete")
            began = _now()
            await at_once(self._made, delete, in_flight=self._in_flight)
            await self._until(lambda: not timeline.remaining())
            figures["delete: all gone s"] = _now() - began

    def _children(self, made: Object) -> list[Child]:
        observed = Observed(objects={}, now=datetime.now(UTC), entropy=b"")
        return self._kind.desired(made, observed)

    async def _until(self, true: Callable[[], bool]) -> None:
        deadline = _now() + phase_timeout(self._count)
        while not true():
            if _now() > deadline:
                raise TooSlow("the cluster does not come to it")
            await asyncio.sleep(0.02)


async def best_in_flight(stage: Testbed, *, say: Say) -> int:
    """The number of requests in flight with which the children exist soonest."""
    taken: dict[int, float] = {}
    for number in CANDIDATES:
        say(f"{number} in flight")
        name = f"trial-{number}"
        async with namespace(stage.admin, name):
            trial = Baseline(stage=stage, count=TRIAL, namespace=name, in_flight=number, say=say)
            await trial.run(trial=True)
        taken[number] = trial.result.figures["create: children exist s"]
    return min(taken, key=lambda number: taken[number])


def _now() -> float:
    return asyncio.get_running_loop().time()
