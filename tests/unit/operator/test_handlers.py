"""What kopf's events come to: a key in the queue, ahead of others where its user waits for us."""

from __future__ import annotations

import asyncio
from typing import Any

import kopf
from kindling.engine.queue import Queue
from kindling.engine.store import Key, Store
from kindling.engine.worker import WORKERS
from kindling.handlers import KopfWatcher
from kindling.kube.client import POOL
from kindling.kube.credentials import Credentials
from kindling.kube.resources import ResourceType
from kindling.kube.watch_monitor import WatchMonitor

TYPE = ResourceType("cache.example.com", "v1alpha1", "Memcached", "memcacheds")


def resource(name: str, *, generation: int, observed: int | None) -> dict[str, Any]:
    meta = {
        "namespace": "ns",
        "name": name,
        "uid": name,
        "resourceVersion": str(generation),
        "generation": generation,
    }
    return {"metadata": meta} | ({"status": {"observedGeneration": observed}} if observed else {})


def watcher_of(queue: Queue[Key]) -> KopfWatcher:
    return KopfWatcher(
        credentials=Credentials(info=kopf.ConnectionInfo(server="https://example.com")),
        store=Store([TYPE]),
        queue=queue,
        monitor=WatchMonitor({}, seconds=60, relisted=lambda type: None),
        types=[TYPE],
    )


def test_kopf_is_given_nothing_that_makes_it_write_or_hold_events_back() -> None:
    """With an index, a restart among 3,000 resources took ten times as long (decision 0013)."""
    registry: Any = watcher_of(Queue()).registry
    assert len(registry._watching.get_all_handlers()) == 1
    held = [registry._indexing, registry._changing, registry._spawning, registry._webhooks]
    assert [kind for kind in held if kind.get_all_handlers()] == []


def test_what_is_new_or_changed_comes_before_what_has_a_new_status() -> None:
    async def run() -> None:
        queue: Queue[Key] = Queue()
        watcher = watcher_of(queue)
        watcher.on_event(TYPE, "MODIFIED", resource("settling", generation=1, observed=1))
        watcher.on_event(TYPE, "MODIFIED", resource("changed", generation=2, observed=1))
        watcher.on_event(TYPE, "ADDED", resource("new", generation=1, observed=None))
        assert [(await queue.get()).name for _ in range(3)] == ["changed", "new", "settling"]

    asyncio.run(run())


def test_a_request_that_hangs_takes_no_other_workers_connection() -> None:
    assert POOL >= WORKERS
