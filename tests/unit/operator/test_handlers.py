"""What kopf's events come to: a key in the queue, ahead of others where its user waits for us."""

from __future__ import annotations

import asyncio
from typing import Any

import kopf
from kindling.engine.queue import Queue
from kindling.engine.store import Key, Store
from kindling.engine.worker import WORKERS
from kindling.handlers import Glue
from kindling.kube.access import Access
from kindling.kube.client import POOL
from kindling.kube.resources import ResourceType
from kindling.kube.watches import Watches

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


def test_what_is_new_or_changed_comes_before_what_has_a_new_status() -> None:
    async def run() -> None:
        queue: Queue[Key] = Queue()
        glue = Glue(
            access=Access(info=kopf.ConnectionInfo(server="https://example.com")),
            store=Store([TYPE]),
            queue=queue,
            watches=Watches({}, seconds=60, relisted=lambda type: None),
            types=[TYPE],
        )
        glue.notice(TYPE, "MODIFIED", resource("settling", generation=1, observed=1))
        glue.notice(TYPE, "MODIFIED", resource("changed", generation=2, observed=1))
        glue.notice(TYPE, "ADDED", resource("new", generation=1, observed=None))
        assert [(await queue.get()).name for _ in range(3)] == ["changed", "new", "settling"]

    asyncio.run(run())


def test_a_request_that_hangs_takes_no_other_workers_connection() -> None:
    assert POOL >= WORKERS
