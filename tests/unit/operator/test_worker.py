"""The worker's loop: outcomes become requeues, errors back-off, and no error of a key ends a worker."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from kindling.engine.flight_recorder import FlightRecorder
from kindling.engine.leader_election import LeaseLost
from kindling.engine.metrics import Metrics
from kindling.engine.queue import POLLS_A_SECOND, Queue
from kindling.engine.resource_writer import Outdated
from kindling.engine.resync import Resync
from kindling.engine.store import Key, Store
from kindling.engine.tracer import NoTracer
from kindling.engine.worker import work
from kindling.kinds.base import Done, RequeueAfter, Terminal
from kindling.kube.errors import Conflict, Rejected, ServerError, Unreachable
from kindling.kube.resources import SERVICE, ListPage, Object, Ref, ResourceType

KEY = Key("toy.example.com", "ns", "x")
TYPE = ResourceType("example.com", "v1", "Toy", "toys")
LABELS = {"kindling.dev/kind": "toy.example.com", "app.kubernetes.io/instance": "x"}


class Scripted:
    """A reconciler with a given result for each reconciliation."""

    def __init__(self, *results: Any) -> None:
        self.results = list(results)
        self.kinds = {KEY.group_kind: SimpleNamespace(type=TYPE)}
        self.dependencies = SimpleNamespace(recorder=FlightRecorder(), tracer=NoTracer())
        self.passes = 0

    async def reconcile(self, key: Key) -> Any:
        self.passes += 1
        result = self.results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result


@pytest.mark.parametrize(
    ("first", "passes", "result"),
    [
        (Done(), 1, "success"),
        (Terminal("InvalidSpec"), 1, "terminal"),
        (RequeueAfter(0.01), 2, "requeue_after"),
        (RequeueAfter(60), 1, "requeue_after"),
        (ServerError(status=500, reason="", message="down"), 2, "error"),
        (KeyError("a bug"), 2, "error"),
    ],
)
def test_outcomes(first: Any, passes: int, result: str) -> None:
    async def run() -> None:
        queue: Queue[Key] = Queue()
        reconciler = Scripted(first, Done())
        metrics = Metrics()
        working = asyncio.create_task(work(reconciler, queue, metrics))  # type: ignore[arg-type]
        queue.add(KEY)
        await asyncio.sleep(0.15)
        assert reconciler.passes == passes
        assert not working.done()
        assert queue.idle
        labels = r'\{group="example.com",kind="Toy",result="(\w+)"\}'
        counts = re.findall(f"kindling_reconcile_duration_seconds_count{labels} (.+)", metrics.render())
        assert counts[0][0] == result
        assert sum(float(count) for _, count in counts) == passes
        working.cancel()
        queue.shut_down()

    asyncio.run(run())


def test_what_polls_waits_the_longer_the_more_does() -> None:
    async def run() -> None:
        queue: Queue[Key] = Queue()
        for number in range(POLLS_A_SECOND):
            queue.add_poll(KEY._replace(name=str(number)), 60)
        reconciler = Scripted(RequeueAfter(0.01, polls=True), Done())
        working = asyncio.create_task(work(reconciler, queue, Metrics()))  # type: ignore[arg-type]
        queue.add(KEY)
        await asyncio.sleep(0.8)
        assert reconciler.passes == 1
        await asyncio.sleep(0.5)
        assert reconciler.passes == 2
        working.cancel()
        queue.shut_down()

    asyncio.run(run())


def test_an_outdated_view_waits_for_no_back_off() -> None:
    """A resource whose children are rejected for minutes is edited in the midst of a reconciliation."""

    async def run() -> None:
        queue: Queue[Key] = Queue()
        for _ in range(12):
            queue.add_rate_limited(KEY)
        reconciler = Scripted(Outdated("it has changed since it was read"), Done(), Done())
        working = asyncio.create_task(work(reconciler, queue, Metrics()))  # type: ignore[arg-type]
        queue.add(KEY)
        await asyncio.sleep(0.09)
        assert reconciler.passes == 2
        working.cancel()
        queue.shut_down()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("error", "level", "counted"),
    [
        (Conflict(status=409, reason="Conflict", message="m"), "INFO", "Conflict"),
        (Unreachable("m"), "INFO", "Unreachable"),
        (ServerError(status=500, reason="", message="m"), "WARNING", "ServerError"),
        (Rejected(status=403, reason="Forbidden", message="m"), "WARNING", "Rejected"),
        (
            Rejected(
                status=403,
                reason="Forbidden",
                message="unable to create new content in namespace shop because it is being terminated",
            ),
            "INFO",
            "Rejected",
        ),
        (KeyError("m"), "ERROR", "UnhandledException"),
    ],
)
def test_a_failed_reconciliation_is_logged_and_counted_by_its_error(
    error: Exception, level: str, counted: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A transient error is no warning; our own bugs are counted apart from the API server's errors."""

    async def run() -> str:
        queue, metrics = Queue[Key](), Metrics()
        working = asyncio.create_task(work(Scripted(error), queue, metrics))  # type: ignore[arg-type]
        queue.add(KEY)
        await asyncio.sleep(0.01)
        working.cancel()
        queue.shut_down()
        return metrics.render()

    with caplog.at_level(logging.INFO, logger="kindling.engine.worker"):
        shown = asyncio.run(run())
    assert [(record.levelname, vars(record)["key"]) for record in caplog.records] == [(level, str(KEY))]
    labels = f'{{error="{counted}",group="example.com",kind="Toy"}}'
    assert f"kindling_reconcile_errors_total{labels} 1.0" in shown


def test_a_lost_lease_ends_the_worker() -> None:
    async def run() -> None:
        queue: Queue[Key] = Queue()
        queue.add(KEY)
        with pytest.raises(LeaseLost):
            await asyncio.wait_for(work(Scripted(LeaseLost("gone")), queue, Metrics()), 10)  # type: ignore[arg-type]

    asyncio.run(run())


def test_resync_drops_missed_deletes_and_keeps_newer_objects() -> None:
    def obj(name: str, version: int) -> Object:
        meta = {
            "namespace": "ns",
            "name": name,
            "uid": name,
            "resourceVersion": str(version),
            "labels": LABELS,
        }
        return {"metadata": meta}

    async def run() -> None:
        store, queue = Store([TYPE]), Queue[Key]()
        store.upsert(
            TYPE, {"metadata": {"namespace": "ns", "name": "x", "uid": "cr", "resourceVersion": "1"}}
        )
        store.upsert(SERVICE, obj("missed", 2))
        store.upsert(SERVICE, obj("there", 3))

        class Server:
            async def pages(
                self, type: ResourceType, *, namespace: str | None, selector: str = "", metadata: bool = False
            ) -> AsyncIterator[ListPage]:
                if type == TYPE:
                    x = {"metadata": {"namespace": "ns", "name": "x", "uid": "cr", "resourceVersion": "1"}}
                    yield ListPage(9, [x])
                    return
                assert selector == "a=b"
                store.upsert(SERVICE, obj("made-meanwhile", 9))
                yield ListPage(9, [obj("there", 3)])
                yield ListPage(9, [obj("unseen", 4)])

        resync = Resync(
            api=Server(),
            store=store,
            queue=queue,
            metrics=Metrics(),
            resources=[TYPE],
            children=[SERVICE],
            namespaces=[],
            selector="a=b",
        )
        await resync.once()
        assert {ref.name for ref in store.refs(SERVICE)} == {"there", "unseen", "made-meanwhile"}
        assert store.get(Ref(SERVICE, "ns", "missed")) is None
        assert await queue.get() == KEY

    asyncio.run(run())
