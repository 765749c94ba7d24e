"""When the resync runs: on request, again soon after a failure, and how long it may fail unnoticed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from kindling.engine import resync as module
from kindling.engine.metrics import Metrics
from kindling.engine.queue import Queue
from kindling.engine.resync import Resync
from kindling.engine.store import Key, Store
from kindling.kube.errors import ServerError
from kindling.kube.resources import POD, ListPage, Object, Ref, ResourceType

from tests.unit.operator.watcher_kind import child_labels, new_store, obj

TYPE = ResourceType("example.com", "v1", "Thing", "things")
EVERY_SECONDS = 100.0
OVERDUE_SECONDS = 300.0
LISTED: Object = {"metadata": {"namespace": "ns", "name": "x", "uid": "u", "resourceVersion": "1"}}


class Server:
    """Fails so many times, then lists one resource."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.version, self.items = 1, [LISTED]
        self.asked = asyncio.Event()

    async def pages(
        self, type: ResourceType, *, namespace: str | None, selector: str = "", metadata: bool = False
    ) -> AsyncIterator[ListPage]:
        if self.failures:
            self.failures -= 1
            raise ServerError(status=500, reason="", message="down")
        self.asked.set()
        yield ListPage(self.version, self.items)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def resync_of(server: Server, queue: Queue[Key], clock: Clock) -> Resync:
    return Resync(
        api=server,
        store=Store([TYPE]),
        queue=queue,
        metrics=Metrics(),
        resources=[TYPE],
        children=[],
        namespaces=[],
        selector="",
        every_seconds=EVERY_SECONDS,
        monotonic=clock,
    )


def test_a_request_that_fails_is_made_up_for_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DEBOUNCE_SECONDS", 0.01)
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.01)

    async def scenario() -> Key:
        queue = Queue[Key]()
        server = Server(failures=2)
        resync = resync_of(server, queue, Clock())
        running = asyncio.create_task(resync.run())
        resync.request()
        await asyncio.wait_for(server.asked.wait(), 10)
        key = await asyncio.wait_for(queue.get(), 10)
        running.cancel()
        return key

    assert asyncio.run(scenario()).name == "x"


def test_it_is_overdue_when_none_went_well_for_long() -> None:
    async def scenario() -> list[str | None]:
        clock = Clock()
        server = Server(failures=1)
        resync = resync_of(server, Queue[Key](), clock)
        clock.now = OVERDUE_SECONDS + 1
        said = [resync.overdue]
        with pytest.raises(ServerError):
            await resync.once()
        said.append(resync.overdue)
        await resync.once()
        said.append(resync.overdue)
        return said

    late = f"no full resync has succeeded for {OVERDUE_SECONDS + 1:.0f} s"
    assert asyncio.run(scenario()) == [late, late, None]


def test_what_is_newer_than_a_list_is_not_gone_by_it() -> None:
    """A server that lags behind lists an older state, and no later event would report the newer objects."""

    async def scenario() -> list[int]:
        server = Server(failures=0)
        resync = resync_of(server, Queue[Key](), Clock())
        await resync.once()
        server.items = []
        left = []
        for server.version in (0, 1):
            await resync.once()
            left.append(len(resync._store.refs(TYPE)))
        return left

    assert asyncio.run(scenario()) == [1, 0]


@pytest.mark.parametrize("watched", [True, False])
def test_others_objects_are_listed_by_their_metadata_while_they_are_watched(watched: bool) -> None:
    """Ours whole, by our label; of the others what went unseen is dropped, and what was missed taken in."""

    async def scenario() -> tuple[set[str], Object | None]:
        store, queue = new_store(), Queue[Key]()
        ours = obj("ours", 3, metadata={"labels": child_labels("a")}, status={"phase": "Running"})
        store.upsert(POD, ours)
        if watched:
            store.upsert(POD, obj("missed", 2))

        class Pods:
            async def pages(
                self, type: ResourceType, *, namespace: str | None, selector: str = "", metadata: bool = False
            ) -> AsyncIterator[ListPage]:
                if type == POD and metadata:
                    assert selector == ""
                    yield ListPage(9, [{"metadata": ours["metadata"]}, obj("stranger", 4)])
                elif type == POD:
                    assert selector == "a=b"
                    yield ListPage(9, [ours])

        resync = Resync(
            api=Pods(),
            store=store,
            queue=queue,
            metrics=Metrics(),
            resources=[],
            children=[POD],
            namespaces=[],
            selector="a=b",
            watched_on_demand=lambda _: watched,
        )
        await resync.once()
        return {ref.name for ref in store.refs(POD)}, store.get(Ref(POD, "ns", "ours"))

    names, ours = asyncio.run(scenario())
    assert names == ({"ours", "stranger"} if watched else {"ours"})
    assert ours is not None
    assert ours["status"] == {"phase": "Running"}
