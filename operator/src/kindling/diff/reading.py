"""The API server as `kindling.diff` has it: what it reads is what the operator reads, and it cannot write.

It lists as a full resync does, into a cache of its own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NoReturn

from kindling.config import Config
from kindling.engine.dependencies import Dependencies
from kindling.engine.event_lookups import EventLookups
from kindling.engine.external import ExternalState
from kindling.engine.metrics import Metrics
from kindling.engine.optional_types import OptionalTypes
from kindling.engine.queue import Queue
from kindling.engine.resync import Resync
from kindling.engine.store import Key, Store
from kindling.kinds.base import ExternalResult
from kindling.kinds.metadata import SELECTOR
from kindling.kube.client import Client
from kindling.kube.resources import ListPage, Object, Ref, ResourceType
from kindling.served import Served


class WriteAttempted(Exception):
    """Something was about to be written, by a program that only reads."""


def refuse() -> NoReturn:
    """For `Client(before_write=...)`: no write is sent, whoever asks for it."""
    raise WriteAttempted("kindling.diff writes nothing")


class ReadOnlyApi:
    """`engine.dependencies.Api` and `engine.resync.Lister` by a client; what would write raises."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def get(self, ref: Ref) -> Object:
        return await self._client.get(ref)

    def pages(
        self, type: ResourceType, *, namespace: str | None, selector: str = "", metadata: bool = False
    ) -> AsyncIterator[ListPage]:
        return self._client.pages(type, namespace=namespace, selector=selector, metadata=metadata)

    async def warnings(self, ref: Ref, *, uid: str) -> list[Object]:
        return []  # They are for a status, and none is written.

    async def apply(self, type: ResourceType, body: Object) -> Object:
        refuse()

    async def create(self, type: ResourceType, body: Object) -> Object:
        refuse()

    async def merge(self, ref: Ref, patch: Object, *, subresource: str | None = None) -> Object:
        refuse()

    async def delete(self, ref: Ref, *, uid: str, resource_version: str | None = None) -> None:
        refuse()


async def read(api: ReadOnlyApi, config: Config, *, served: Served, missing: list[ResourceType]) -> Store:
    """A cache of all that the operator would have in its own; none of the `missing` types is there to list.

    :raises ApiError: when something cannot be listed.
    """
    kinds = served.by_name
    store = Store(
        served.resources,
        watches=served.watches,
        watched_objects={label: kind.watched_objects for label, kind in kinds.items()},
    )
    queue: Queue[Key] = Queue()
    resync = Resync(
        api=api,
        store=store,
        queue=queue,
        metrics=Metrics(),
        resources=[type for type in served.resources if type not in missing],
        children=list(dict.fromkeys([*served.children, *served.on_demand, *served.optional])),
        namespaces=config.watch_namespaces,
        selector=SELECTOR,
        watches=served.unselected,
        watched_on_demand=lambda type: type in served.on_demand and store.is_watched(type),
        is_served=lambda type: type not in missing,
    )
    await resync.once()
    queue.shut_down()
    return store


def dependencies(api: ReadOnlyApi, store: Store, optional: OptionalTypes | None = None) -> Dependencies:
    """No server is asked or changed: of each member, no answer is known."""

    async def answer(request: object) -> ExternalResult:
        refuse()

    return Dependencies(
        api=api,
        store=store,
        optional=optional or OptionalTypes(),
        external_state=ExternalState(send=answer, run=answer, requeue=lambda key: None),
        event_lookups=EventLookups(api=api),
        status_changed=lambda type, cr, before, after: refuse(),
    )
