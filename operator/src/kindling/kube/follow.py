"""Following the children: list, then watch for ever, each event straight to whoever keeps what was seen.

Beside kopf, which follows the resources themselves: an event costs it a worker, a memory, a logger and two
handlers for each object, and of each resource's events three in four are its children's. Deletions that
happened while no watch could see them are not noticed here either: the resync, asked for by each list but
the first, heals those.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import aiohttp
import orjson

from kindling.kube.access import METADATA_ONLY
from kindling.kube.errors import ApiError, error_from
from kindling.kube.resources import PAGE, Object, ResourceType

log = logging.getLogger(__name__)

GRACE_SECONDS = 10.0
"""How much longer than asked for a server may keep up a watch before we end it."""
FIRST_SECONDS = 0.1
LONGEST_SECONDS = 10.0
TURN = 20
"""Events after which others get their turn: a burst of them must not hold up the Lease."""
GONE = 410

See = Callable[[ResourceType, str, Object], None]
"""Told of each object: its type, what happened (ADDED, MODIFIED or DELETED), how it is."""


class Follower:
    """Follows the objects of one type at one path. `listed` is set once all that are there have been seen."""

    def __init__(
        self,
        *,
        session: aiohttp.ClientSession,
        url: str,
        type: ResourceType,
        selector: str,
        seconds: int,
        see: See,
        turn: asyncio.Lock,
        metadata: bool = False,
    ) -> None:
        """A watch begins anew after so many seconds; an empty `selector` selects all. With `metadata`,
        objects come as PartialObjectMetadata.

        The followers share the `turn`: whoever has it may have a page of a list in memory, parsed.
        """
        self.listed = asyncio.Event()
        self._turn = turn
        self._session, self._url, self._type, self._see = session, url, type, see
        self._selected = {"labelSelector": selector} if selector else {}
        self._seconds = seconds
        self._metadata = metadata
        self._version: str | None = None
        self._pause = FIRST_SECONDS

    async def run(self) -> None:
        """For ever: whatever goes wrong is tried again, from where it was if the server still knows that.

        The pauses grow as long as nothing comes of it. A watch that brought something before it broke off
        begins the count anew: cut off again and again, it must not fall behind.
        """
        while True:
            try:
                if self._version is None:
                    self._version = await self._list()
                    self.listed.set()
                await self._watch()
                self._pause = FIRST_SECONDS
            except (aiohttp.ClientError, TimeoutError, ApiError) as error:
                if isinstance(error, ApiError) and error.status == GONE:
                    self._version = None
                log.info(f"following {self._type.plural} anew in {self._pause:.1f} s: {error!r}")
            await asyncio.sleep(self._pause)
            self._pause = min(2 * self._pause, LONGEST_SECONDS)

    async def _list(self) -> str:
        query = {**self._selected, "limit": str(PAGE)}
        while True:
            async with self._session.get(self._url, params=query, headers=self._accept("List")) as response:
                raw = await response.read()
            async with self._turn:
                meta = await self._take_in_page(response.status, raw)
            if not meta.get("continue"):
                return str(meta["resourceVersion"])
            query["continue"] = meta["continue"]

    async def _take_in_page(self, status: int, raw: bytes) -> Object:
        """Returns its metadata. Nothing else of it is left: that would lie beside the next page."""
        page = _answer(status, raw)
        for number, obj in enumerate(page.get("items") or ()):
            self._see(self._type, "ADDED", obj)
            if number % TURN == 0:
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
                _answer(response.status, await response.read())
            rest = b""
            async for piece in response.content.iter_any():
                *lines, rest = (rest + piece).split(b"\n")
                for number, line in enumerate(lines):
                    self._take_in(orjson.loads(line))
                    if number % TURN == TURN - 1:
                        await asyncio.sleep(0)

    def _accept(self, suffix: str) -> dict[str, str]:
        return {"Accept": METADATA_ONLY.format(suffix=suffix)} if self._metadata else {}

    def _take_in(self, event: Object) -> None:
        obj: Object = event["object"]
        if event["type"] == "ERROR":
            raise error_from(status=int(obj.get("code") or 500), body=obj)
        if event["type"] != "BOOKMARK":
            self._see(self._type, event["type"], obj)
        self._version = obj["metadata"]["resourceVersion"]
        self._pause = FIRST_SECONDS


def _answer(status: int, raw: bytes) -> Object:
    """:raises ApiError: for all but a success."""
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError:
        body = {"message": raw[:200].decode(errors="replace")}
    if status != 200:
        raise error_from(status=status, body=body)
    found: Object = body
    return found
