"""Many requests at once, so many in flight: what users do to a cluster, and what a bare client could.

It is the operator's own client, since nothing barer is at hand: no cache, no queue, no comparison.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, closing
from typing import Any, TypeVar

import aiohttp
import kopf
import orjson
from kindling.kube.client import Client
from kindling.kube.credentials import Credentials
from kindling.kube.resources import ResourceType

from bench.timeline import Timeline
from tests.apiserver.support.apiclient import Api
from tests.apiserver.support.controlplane import ControlPlane

T = TypeVar("T")

NAMESPACES = "/api/v1/namespaces"
WATCH_SECONDS = 4 * 3600
FOR_EVER = aiohttp.ClientTimeout(total=None)


def access(plane: ControlPlane) -> Credentials:
    return Credentials(info=kopf.ConnectionInfo(server=plane.url, ca_path=str(plane.ca), token=plane.token))


async def at_once(items: Iterable[T], do: Callable[[T], Awaitable[object]], *, in_flight: int) -> None:
    """Do it for each item, in order, with so many under way; the first error ends it."""
    waiting = iter(items)

    async def worker() -> None:
        for item in waiting:
            await do(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(in_flight):
            group.create_task(worker())


@asynccontextmanager
async def client(plane: ControlPlane, *, in_flight: int) -> AsyncIterator[Client]:
    async with Client(access(plane), limit=in_flight) as made:
        yield made


@asynccontextmanager
async def namespace(plane: ControlPlane, name: str) -> AsyncIterator[None]:
    """A namespace of that name, gone on leaving with all that is in it."""
    with closing(Api(plane)) as api:
        api.create(NAMESPACES, {"metadata": {"name": name}}).accepted()
        yield  # Where this raises, the measurement ends, and the server with it.
        api.delete(f"{NAMESPACES}/{name}")
        while api.get(f"{NAMESPACES}/{name}").status != 404:
            await asyncio.sleep(0.1)


@asynccontextmanager
async def watching(
    plane: ControlPlane, timeline: Timeline, types: Iterable[ResourceType], *, namespace: str
) -> AsyncIterator[Callable[[], float]]:
    """Record the watch events of these types in the namespace, which holds no object of them yet.

    Yields a function that returns when the last event came, by the loop's clock.
    """
    loop = asyncio.get_running_loop()
    types = list(dict.fromkeys(types))
    last = loop.time()
    session = access(plane).session(limit=len(types))
    started = [asyncio.Event() for _ in types]

    async def watch(type: ResourceType, ready: asyncio.Event) -> None:
        """The server ends a watch that falls behind; the next one goes on from where that was."""
        nonlocal last
        url = plane.url + type.path(namespace=namespace)
        async with session.get(url, raise_for_status=True) as listed:
            version = (await listed.json())["metadata"]["resourceVersion"]
        while True:
            query = {"watch": "true", "resourceVersion": version, "timeoutSeconds": str(WATCH_SECONDS)}
            async with session.get(url, params=query, timeout=FOR_EVER, raise_for_status=True) as response:
                ready.set()
                rest = b""
                async for piece in response.content.iter_any():
                    *lines, rest = (rest + piece).split(b"\n")
                    last = loop.time()
                    for line in lines:
                        event: dict[str, Any] = orjson.loads(line)
                        if event["type"] == "ERROR":
                            raise ConnectionError(f"the watch on {type.plural} broke: {event['object']}")
                        version = event["object"]["metadata"]["resourceVersion"]
                        timeline.see(type.kind, event["type"], event["object"], last)

    async with session:
        tasks = [asyncio.create_task(watch(*each)) for each in zip(types, started, strict=True)]
        try:
            await _unless_failed(started, tasks)
            yield lambda: _checked(tasks, last)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def _checked(tasks: list[asyncio.Task[None]], last: float) -> float:
    for task in tasks:
        if task.done():
            task.result()
    return last


async def _unless_failed(events: list[asyncio.Event], tasks: list[asyncio.Task[None]]) -> None:
    """Until all are set, or one of the tasks fails."""
    while not all(event.is_set() for event in events):
        _checked(tasks, 0.0)
        await asyncio.sleep(0.01)
