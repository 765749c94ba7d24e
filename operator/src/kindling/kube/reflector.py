"""A reflector lists, then watches for ever, and passes each event to a handler, which fills the cache.

Children are watched beside kopf, which watches the resources: an event costs kopf a worker, a memory, a
logger and two handlers for each object, and three in four events of a resource are its children's. Deletions
while no watch was open are not noticed here: each list but the first requests a resync, which finds them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import aiohttp
import orjson

from kindling.kube.credentials import METADATA_ONLY
from kindling.kube.errors import ApiError, error_from
from kindling.kube.resources import PAGE_SIZE, Object, ResourceType

log = logging.getLogger(__name__)

GRACE_SECONDS = 10.0
"""How much longer than requested a server may keep a watch open before we close it."""
BASE_DELAY_SECONDS = 0.1
MAX_DELAY_SECONDS = 10.0
YIELD_EVERY = 20
"""Events after which other tasks run: a burst of events must not delay the renewal of the Lease."""
HTTP_GONE, HTTP_NOT_FOUND = 410, 404
HTTP_NO_RIGHT = (401, 403)

EventHandler = Callable[[ResourceType, str, Object], None]
"""Called for each event: the type, the event (ADDED, MODIFIED or DELETED), the object."""


class Reflector:
    """Reflects the objects of one type at one path. `synced` is set once the first list is complete."""

    def __init__(
        self,
        *,
        session: aiohttp.ClientSession,
        url: str,
        type: ResourceType,
        selector: str,
        seconds: int,
        on_event: EventHandler,
        page_lock: asyncio.Lock,
        metadata: bool = False,
        optional: bool = False,
    ) -> None:
        """A watch is restarted after so many seconds; an empty `selector` selects all. With `metadata`,
        objects come as PartialObjectMetadata; with `optional`, it ends once the type is not served.

        All reflectors share the `page_lock`: only its holder has a parsed page of a list in memory.
        """
        self.synced = asyncio.Event()
        self._page_lock = page_lock
        self._session, self._url, self._type, self._on_event = session, url, type, on_event
        self._selected = {"labelSelector": selector} if selector else {}
        self._seconds = seconds
        self._metadata, self._optional = metadata, optional
        self._version: str | None = None
        self._pause = BASE_DELAY_SECONDS

    async def run(self) -> None:
        """Run for ever, but for what is optional. After an error, watch again from the last version, or list
        again if it has expired.

        The delays grow while there are no events. An event resets them, so that a watch which is cut off
        again and again does not fall behind.
        """
        while True:
            try:
                if self._version is None:
                    self._version = await self._list()
                    self.synced.set()
                await self._watch()
                self._pause = BASE_DELAY_SECONDS
            except (aiohttp.ClientError, TimeoutError, ApiError) as error:
                status = error.status if isinstance(error, ApiError) else None
                if status == HTTP_NOT_FOUND and self._optional:
                    return
                if status == HTTP_GONE:
                    self._version = None
                # Without the right to it nothing is seen until somebody grants that again.
                level = logging.WARNING if status in HTTP_NO_RIGHT else logging.INFO
                log.log(level, f"restarting watch of {self._type.plural} in {self._pause:.1f} s: {error!r}")
            await asyncio.sleep(self._pause)
            self._pause = min(2 * self._pause, MAX_DELAY_SECONDS)

    async def _list(self) -> str:
        query = {**self._selected, "limit": str(PAGE_SIZE)}
        while True:
            async with self._session.get(self._url, params=query, headers=self._accept("List")) as response:
                raw = await response.read()
            async with self._page_lock:
                meta = await self._handle_page(response.status, raw)
            if not meta.get("continue"):
                return str(meta["resourceVersion"])
            query["continue"] = meta["continue"]

    async def _handle_page(self, status: int, raw: bytes) -> Object:
        """Returns its metadata. Nothing else of it is left: that would lie beside the next page."""
        page = _decoded(status, raw)
        for number, obj in enumerate(page.get("items") or ()):
            self._on_event(self._type, "ADDED", obj)
            if number % YIELD_EVERY == 0:
                await asyncio.sleep(0)
        meta: Object = page["metadata"]
        return meta

    async def _watch(self) -> None:
        """Until the server ends it; the next one goes on from the last event or bookmark."""
        query = {
            **self._selected,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": str(self._version),
            "timeoutSeconds": str(self._seconds),
        }
        timeout = aiohttp.ClientTimeout(total=self._seconds + GRACE_SECONDS, sock_connect=GRACE_SECONDS)
        accept = self._accept("")
        async with self._session.get(self._url, params=query, timeout=timeout, headers=accept) as response:
            if response.status != 200:
                _decoded(response.status, await response.read())
            rest = b""
            async for piece in response.content.iter_any():
                *lines, rest = (rest + piece).split(b"\n")
                for number, line in enumerate(lines):
                    self._handle(orjson.loads(line))
                    if number % YIELD_EVERY == YIELD_EVERY - 1:
                        await asyncio.sleep(0)

    def _accept(self, suffix: str) -> dict[str, str]:
        return {"Accept": METADATA_ONLY.format(suffix=suffix)} if self._metadata else {}

    def _handle(self, event: Object) -> None:
        obj: Object = event["object"]
        if event["type"] == "ERROR":
            raise error_from(status=int(obj.get("code") or 500), body=obj)
        if event["type"] != "BOOKMARK":
            self._on_event(self._type, event["type"], obj)
        self._version = obj["metadata"]["resourceVersion"]
        self._pause = BASE_DELAY_SECONDS


def _decoded(status: int, raw: bytes) -> Object:
    """:raises ApiError: for all but a success."""
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError:
        body = {"message": raw[:200].decode(errors="replace")}
    if status != 200:
        raise error_from(status=status, body=body)
    found: Object = body
    return found


async def follow(
    reflectors: Sequence[Reflector],
    *,
    synced: Callable[[], None],
    until: Sequence[Coroutine[Any, Any, None]] = (),
) -> None:
    """Run them until one of them, or of `until`, ends; what that raises is raised. `synced` is called once
    all of them have listed.
    """

    async def report() -> None:
        for reflector in reflectors:
            await reflector.synced.wait()
        synced()

    tasks = [asyncio.create_task(part) for part in (*(each.run() for each in reflectors), *until)]
    reporting = asyncio.create_task(report())
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in (*tasks, reporting):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task
