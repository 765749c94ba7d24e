"""One measurement: one operator, one kind, so many resources, from their creation to their end.

The phases follow each other on the same resources, as they would in a cluster's life; between them nothing
is measured until nothing is written any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kindling.kube.client import Client
from kindling.kube.resources import POD, VOLUME_CLAIM, Ref

from bench import process
from bench.kinds import Asked
from bench.load import at_once, client, watching
from bench.result import RequestCounter, Result
from bench.stats import percentile
from bench.subjects import Subject
from bench.testbed import Testbed
from bench.timeline import ObjectTimes, Timeline, called_early

QUIET_SECONDS = 3.0
POLL_SECONDS = 0.02
RESTORED = 100

Say = Callable[[str], None]


class TooSlow(Exception):
    """A phase that did not end in the time it was given."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """`create_only`: until all are made and at rest, and no further."""

    rest_seconds: float
    in_flight: int
    create_only: bool = False


def phase_timeout(count: int) -> float:
    """How long a phase may take: the slowest setting needs a third of a second for each."""
    return 120.0 + 0.6 * count


class Trial:
    """`run` once. `namespace` is its own and exists; `result` fills as the phases end."""

    def __init__(
        self,
        *,
        stage: Testbed,
        subject: Subject,
        asked: Asked,
        count: int,
        namespace: str,
        settings: Settings,
        directory: Path,
        say: Say,
    ) -> None:
        self.result = Result()
        self._stage, self._subject, self._asked = stage, subject, asked
        self._settings, self._directory, self._say = settings, directory, say
        self._namespace, self._count = namespace, count
        self._names = [f"resource-{number}" for number in range(count)]
        self._uids: dict[str, str] = {}
        self._tally = RequestCounter(stage.log, user=subject.way(stage).user)
        self._timeline = Timeline(kind=asked.type.kind, condition=asked.condition, expected=1)
        self._client: Client
        self._last_event: Callable[[], float]

    async def run(self) -> None:
        """:raises TooSlow: what was measured until then stands in `result`."""
        types = (self._asked.type, *self._asked.children, POD)
        async with (
            client(self._stage.client.plane, in_flight=self._settings.in_flight) as self._client,
            watching(self._stage.admin, self._timeline, types, namespace=self._namespace) as self._last_event,
        ):
            async with self._running() as pid:
                await self._first()
                await self._create(pid)
                if self._settings.create_only:
                    self._cost("first process", pid)
                    # Not measured; but what has a finalizer goes only while its operator runs.
                    await self._each(self._names, self._delete_one)
                    await self._until(lambda: not self._timeline.existing())
                    return
                await self._rest(pid)
                self._cost("first process", pid)
            began = self._now()
            await self._make("again")
            async with self._running() as pid:
                await self._restart(pid, began)
                await self._change(pid)
                await self._restore()
                await self._delete(pid)
                self._cost("second process", pid)

    async def _first(self) -> None:
        """One resource before all others: the caches fill, and its children are counted."""
        self._say("the first")
        await self._make("first")
        await self._until(lambda: self._life("first").exists, 1)
        await self._quiet()
        self._timeline.expected = len(self._life("first").children)
        await self._unmake("first")

    async def _create(self, pid: int) -> None:
        self._say("create")
        figures, timeline = self.result.figures, self._timeline
        figures["idle MiB"] = process.memory(pid)
        figures["children"] = timeline.expected
        began, cpu = self._now(), process.cpu_seconds(pid)
        creating = asyncio.create_task(self._each(self._names, self._make))
        if timeline.expected:
            await self._until(lambda: timeline.complete() == self._count)
            figures["create: children exist s"] = self._now() - began
            figures["create: cpu s until children exist"] = process.cpu_seconds(pid) - cpu
        if self._asked.reachable:
            await self._until(lambda: timeline.ready() == self._count)
            figures["create: ready s"] = self._now() - began
        elif timeline.expected:
            # Half a minute after its Pod is ready it is reported that nobody can log in: no rest before.
            await self._until(lambda: timeline.faulty() == self._count)
        await creating
        await self._quiet()
        figures["create: cpu s"] = process.cpu_seconds(pid) - cpu
        figures["at rest MiB"] = process.memory(pid)
        self._tally.close(self.result, "create")
        lives = list(timeline.lives.values())
        self._percentiles("children exist", [_taken(life, life.complete_at) for life in lives])
        self._percentiles("ready", [_taken(life, life.ready_at) for life in lives])
        if timeline.expected and self._asked.reachable:
            early = [called_early(life.called_ready, life.pods_ready) for life in lives]
            figures["ready before its Pods"] = sum(early)
            early = [called_early(life.called_ready, life.available) for life in lives]
            figures["ready before its Deployment said so"] = sum(early)

    async def _rest(self, pid: int) -> None:
        self._say("rest")
        cpu = process.cpu_seconds(pid)
        await asyncio.sleep(self._settings.rest_seconds)
        self.result.figures["rest: cpu s per minute"] = (
            (process.cpu_seconds(pid) - cpu) * 60.0 / self._settings.rest_seconds
        )
        self._tally.close(self.result, "rest")

    async def _restart(self, pid: int, began: float) -> None:
        """A resource was made while it was away; how long until it has its children (or status)."""
        self._say("restart")
        life = self._life("again")
        if self._timeline.expected:
            await self._until(lambda: len(life.children) >= self._timeline.expected)
        else:
            await self._until(lambda: life.ready)
        self.result.figures["restart: back at work s"] = self._now() - began
        await self._quiet()
        self.result.figures["restart: cpu s"] = process.cpu_seconds(pid)
        await self._unmake("again", phase="restart")

    async def _change(self, pid: int) -> None:
        self._say("change")
        began, cpu = self._now(), process.cpu_seconds(pid)
        changing = asyncio.create_task(self._each(self._names, self._patch))
        await self._until(lambda: self._timeline.changed() == self._count)
        self.result.figures["change: children changed s"] = self._now() - began
        await changing
        await self._quiet()
        self.result.figures["change: cpu s"] = process.cpu_seconds(pid) - cpu
        self._tally.close(self.result, "change")

    async def _restore(self) -> None:
        """All children of some resources are deleted, but for volumes, which are bound to their Pods."""
        timeline = self._timeline
        if not timeline.expected:
            return
        self._say("restore")
        types = {type.kind: type for type in self._asked.children if type != VOLUME_CLAIM}
        timeline.expected = len(self._life(self._names[0]).children)
        lost = [
            (Ref(types[kind], self._namespace, name), uid)
            for resource in self._names[:RESTORED]
            for (kind, name), uid in self._life(resource).children.items()
            if kind in types
        ]
        before, began = timeline.removed, self._now()
        deleting = asyncio.create_task(self._each(lost, self._remove))
        await self._until(
            lambda: timeline.removed >= before + len(lost) and timeline.complete() == self._count
        )
        self.result.figures["restore: children exist s"] = self._now() - began
        await deleting
        await self._quiet()
        self._tally.close(self.result, "restore")

    async def _delete(self, pid: int) -> None:
        self._say("delete")
        began, cpu = self._now(), process.cpu_seconds(pid)
        deleting = asyncio.create_task(self._each(self._names, self._delete_one))
        await self._until(lambda: not self._timeline.existing())
        self.result.figures["delete: resources gone s"] = self._now() - began
        await deleting
        await self._quiet()
        self.result.figures["delete: all gone s"] = self._last_event() - began
        self.result.figures["delete: cpu s"] = process.cpu_seconds(pid) - cpu
        self._tally.close(self.result, "delete")

    def _cost(self, which: str, pid: int) -> None:
        self.result.figures[f"{which}: peak MiB"] = process.peak_memory(pid)

    def _percentiles(self, name: str, taken: Sequence[float | None]) -> None:
        known = [seconds for seconds in taken if seconds is not None]
        for percent in (50, 99):
            if known:
                self.result.figures[f"create: {name} p{percent} s"] = percentile(known, percent)

    async def _quiet(self) -> None:
        """Until for some seconds nothing has happened, and the subject has tried to write nothing."""
        deadline = self._now() + phase_timeout(self._count)
        since = self._now()
        while self._now() - max(since, self._last_event()) < QUIET_SECONDS:
            if self._now() > deadline:
                raise TooSlow("it does not come to rest")
            await asyncio.sleep(0.2)
            if self._tally.wrote():
                since = self._now()

    async def _until(self, true: Callable[[], bool], count: int | None = None) -> None:
        deadline = self._now() + phase_timeout(self._count if count is None else count)
        while not true():
            self._last_event()  # raises what became of the watches
            if self._now() > deadline:
                timeline = self._timeline
                raise TooSlow(
                    f"of {self._count}: {timeline.complete()} complete, {timeline.ready()} ready, "
                    f"{timeline.changed()} changed, {timeline.existing()} there"
                )
            await asyncio.sleep(POLL_SECONDS)

    async def _each(self, items: Sequence[object], do: Callable[..., object]) -> None:
        await at_once(items, do, in_flight=self._settings.in_flight)  # type: ignore[arg-type]

    async def _make(self, name: str) -> None:
        body = self._asked.body(namespace=self._namespace, name=name)
        made = await self._client.create(self._asked.type, body)
        self._uids[name] = made["metadata"]["uid"]

    async def _unmake(self, name: str, *, phase: str = "") -> None:
        """One that was made to look at; then it is as if it had not been."""
        if phase:
            self._tally.close(self.result, phase)
        await self._delete_one(name)
        await self._until(partial(self._is_gone, name), 1)
        await self._quiet()
        self._tally.forget()
        del self._timeline.lives[name]

    def _is_gone(self, name: str) -> bool:
        return not self._life(name).exists

    async def _patch(self, name: str) -> None:
        ref = Ref(self._asked.type, self._namespace, name)
        await self._client.merge(ref, {"spec": dict(self._asked.change)})

    async def _delete_one(self, name: str) -> None:
        await self._client.delete(Ref(self._asked.type, self._namespace, name), uid=self._uids[name])

    async def _remove(self, child: tuple[Ref, str]) -> None:
        await self._client.delete(child[0], uid=child[1])

    def _life(self, name: str) -> ObjectTimes:
        return self._timeline.life(name)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    @asynccontextmanager
    async def _running(self) -> AsyncIterator[int]:
        """The subject's process, started and stopped while the watches go on."""
        started = self._subject.start(self._stage, self._directory)
        pid = await asyncio.to_thread(started.__enter__)
        try:
            yield pid
        finally:
            await asyncio.to_thread(started.__exit__, None, None, None)


def _taken(life: ObjectTimes, until: float | None) -> float | None:
    return None if until is None or life.created_at is None else until - life.created_at
