"""All of the glue to kopf: it lists and watches the resources, we take in what it saw and queue them.

on.event alone. Kopf's other handlers react to edges, and write: annotations with the whole spec
(passwords too), finalizers, three requests a resource. An index writes nothing, but makes kopf hold back
all events until everything is listed, at a cost that grows with the square of it (decision 0013). What
the resources own or look at, `kube.follow` sees.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import kopf

from kindling.engine.queue import Queue
from kindling.engine.store import Key, Store
from kindling.kinds.conditions import taken_up
from kindling.kube.access import Access
from kindling.kube.client import CONNECT_SECONDS, TIMEOUT_SECONDS
from kindling.kube.resources import PAGE, Object, ResourceType
from kindling.kube.watches import Watches

log = logging.getLogger(__name__)

GRACE_SECONDS = 10
"""How much longer than asked for a server may keep up a watch before kopf ends it."""
SPARE = 8
IDLE_SECONDS = 0.2
"""How long kopf keeps an object's worker, which takes as much room as the object does."""
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
    settings.watching.chunk_size = PAGE
    settings.queueing.error_delays = ERROR_DELAYS
    settings.queueing.idle_timeout = IDLE_SECONDS
    settings.process.ultimate_exiting_timeout = 10
    settings.persistence.diffbase_storage = NoDifferences()
    settings.persistence.progress_storage = NoProgress()
    return settings


def connections(watches: Watches) -> int:
    """For a session that watches. Each watch keeps one: with fewer than there are, some would never begin."""
    return len(watches) + SPARE


class NoDifferences(kopf.DiffBaseStorage):
    """Kopf works out at each event what has changed, for handlers that we do not have: two copies of the
    object, which cost more than all else that it does.
    """

    def build(self, **_: Any) -> kopf.BodyEssence:
        return kopf.BodyEssence()

    def fetch(self, **_: Any) -> None:
        return None

    def store(self, **_: Any) -> None:
        pass


class NoProgress(kopf.ProgressStorage):
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


class Glue:
    """Registers the handlers of every kind in a registry of its own."""

    def __init__(
        self,
        *,
        access: Access,
        store: Store,
        queue: Queue[Key],
        watches: Watches,
        types: Sequence[ResourceType],
    ) -> None:
        self._access = access
        self._store = store
        self._queue = queue
        self._watches = watches
        self.registry = kopf.OperatorRegistry()
        kopf.on.login(registry=self.registry)(self._login)
        for type in types:
            self._watch(type)

    async def _login(self, **_: Any) -> kopf.AiohttpSession:
        session = self._access.session(limit=connections(self._watches), observe=self._watches.observe)
        return kopf.AiohttpSession(server=self._access.server, aiohttp_session=session)

    def _watch(self, type: ResourceType) -> None:
        selector = (type.group, type.version, type.plural) if type.group else (type.version, type.plural)

        async def notice(event: kopf.RawEvent, **_: Any) -> None:
            self.notice(type, event["type"], dict(event["object"]))

        name = type.label.replace(".", "-")
        kopf.on.event(*selector, id=f"event-{name}", registry=self.registry)(notice)

    def notice(self, type: ResourceType, event: str | None, obj: Object) -> None:
        """Take in what happened to a resource."""
        urgent = not taken_up(obj)
        for key in self._store.take_in(type, event, obj):
            self._queue.add(key, urgent=urgent)
