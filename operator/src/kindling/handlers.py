"""Kopf lists and watches the custom resources; its events fill the cache and enqueue the resources.

on.event alone. Kopf's other handlers react to edges, and write: annotations with the whole spec
(passwords too), finalizers, three requests a resource. An index writes nothing, but makes kopf hold back
all events until everything is listed, at a cost that grows with the square of it (decision 0013). What
the resources own or look at, `kube.reflector` sees.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import kopf

from kindling.engine.queue import Queue
from kindling.engine.store import Key, Store
from kindling.kinds.conditions import is_current
from kindling.kube.client import CONNECT_SECONDS, TIMEOUT_SECONDS
from kindling.kube.credentials import Credentials
from kindling.kube.resources import PAGE_SIZE, Object, ResourceType
from kindling.kube.watch_monitor import WatchMonitor

log = logging.getLogger(__name__)

GRACE_SECONDS = 10
"""How much longer than asked for a server may keep up a watch before kopf ends it."""
SPARE = 8
IDLE_SECONDS = 0.2
"""How long kopf keeps an object's worker, which takes as much memory as the object does."""
ERROR_DELAYS = (1, 1, 2, 3, 5, 8, 13)


def settings_for(*, watch_seconds: int) -> kopf.OperatorSettings:
    """Kopf's settings."""
    settings = kopf.OperatorSettings()
    settings.scanning.disabled = True  # no watch on all CRDs and namespaces
    settings.peering.standalone = True  # the Lease decides who works
    settings.posting.enabled = False  # Events are ours
    settings.networking.request_timeout = TIMEOUT_SECONDS
    settings.networking.connect_timeout = CONNECT_SECONDS
    settings.watching.server_timeout = watch_seconds
    settings.watching.client_timeout = watch_seconds + GRACE_SECONDS
    settings.watching.chunk_size = PAGE_SIZE
    settings.queueing.error_delays = ERROR_DELAYS
    settings.queueing.idle_timeout = IDLE_SECONDS
    settings.process.ultimate_exiting_timeout = 10
    settings.persistence.diffbase_storage = NullDiffBaseStorage()
    settings.persistence.progress_storage = NullProgressStorage()
    return settings


def connections(monitor: WatchMonitor) -> int:
    """For a session that watches. Each watch keeps one: with fewer than there are, some would never begin."""
    return len(monitor) + SPARE


class NullDiffBaseStorage(kopf.DiffBaseStorage):
    """Kopf works out at each event what has changed, for handlers that we do not have: two copies of the
    object, which cost more than all else that it does.
    """

    def build(self, **_: Any) -> kopf.BodyEssence:
        return kopf.BodyEssence()

    def fetch(self, **_: Any) -> None:
        return None

    def store(self, **_: Any) -> None:
        pass


class NullProgressStorage(kopf.ProgressStorage):
    """Nor is there any progress of such handlers to be kept, or to be cleared out of those copies."""

    def fetch(self, **_: Any) -> None:
        return None

    def store(self, **_: Any) -> None:
        pass

    def purge(self, **_: Any) -> None:
        pass

    def touch(self, **_: Any) -> None:
        pass

    def clear(self, *, essence: kopf.BodyEssence) -> kopf.BodyEssence:
        return essence


class KopfWatcher:
    """Registers the handlers of every kind in a registry of its own."""

    def __init__(
        self,
        *,
        credentials: Credentials,
        store: Store,
        queue: Queue[Key],
        monitor: WatchMonitor,
        types: Sequence[ResourceType],
    ) -> None:
        self._credentials = credentials
        self._store = store
        self._queue = queue
        self._monitor = monitor
        self.registry = kopf.OperatorRegistry()
        kopf.on.login(registry=self.registry)(self._login)
        for type in types:
            self._watch(type)

    async def _login(self, **_: Any) -> kopf.AiohttpSession:
        session = self._credentials.session(
            limit=connections(self._monitor), middleware=self._monitor.middleware
        )
        return kopf.AiohttpSession(server=self._credentials.server, aiohttp_session=session)

    def _watch(self, type: ResourceType) -> None:
        selector = (type.group, type.version, type.plural) if type.group else (type.version, type.plural)

        async def on_event(event: kopf.RawEvent, **_: Any) -> None:
            self.on_event(type, event["type"], dict(event["object"]))

        name = type.group_kind.replace(".", "-")
        kopf.on.event(*selector, id=f"event-{name}", registry=self.registry)(on_event)

    def on_event(self, type: ResourceType, event: str | None, obj: Object) -> None:
        """Put the event's object into the cache, and enqueue the resources that it concerns."""
        high_priority = not is_current(obj)
        for key in self._store.handle_event(type, event, obj):
            self._queue.add(key, high_priority=high_priority, cause=type.kind)
