"""The API client: read, server-side apply, merge patch of /status, create, delete. Dicts in, dicts out.

Our own because the operator needs six verbs and nothing else, and every general client costs ten
times the processor time a request, or has kopf's habit of retrying inside the worker.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar
from types import TracebackType

import aiohttp
import orjson

from kindling.kube.credentials import METADATA_ONLY, Credentials
from kindling.kube.errors import Unreachable, error_from
from kindling.kube.resources import EVENT, FIELD_MANAGER, PAGE_SIZE, ListPage, Object, Ref, ResourceType

POOL = 32
"""Connections at most: one for each worker, so that a request that hangs takes nobody else's turn."""
TIMEOUT_SECONDS = 30.0
CONNECT_SECONDS = 5.0
MAX_RETRY_AFTER_SECONDS = 10.0
"""The longest Retry-After that is slept through in place; a longer one goes back to the queue."""
ATTEMPTS = 3
JSON = "application/json"
CREATED: ContextVar[str] = ContextVar("CREATED", default="")
"""For middleware: the name of the object that is being created, which is not in the path."""
_UNPRINTABLE = re.compile(rb"\x7f|\xc2[\x80-\x9f]|\xef\xbb\xbf|\xef\xbf[\xbe\xbf]")

Observer = Callable[[str, ResourceType], None]
"""Called with the verb and the type of what was written, for every write that the server answered."""


class Client:
    """One session to the API server. Use as an async context manager, or call `close`."""

    def __init__(
        self,
        credentials: Credentials,
        *,
        limit: int = POOL,
        on_write: Observer | None = None,
        before_write: Callable[[], None] = lambda: None,
        middleware: aiohttp.ClientMiddlewareType | None = None,
    ) -> None:
        """`middleware` sees each request and its response. `before_write` is called each time a write is
        about to be sent; what it raises keeps it back.

        Hence turns of our own: a request that waited for a connection would be sent unasked.
        """
        self._server = credentials.server
        self._session = credentials.session(limit=limit, middleware=middleware)
        self._slots = asyncio.Semaphore(limit)
        self._timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS, sock_connect=CONNECT_SECONDS)
        self._on_write = on_write
        self._before_write = before_write

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._session.close()

    async def get(self, ref: Ref) -> Object:
        return await self._call("GET", ref.type.path(namespace=ref.namespace, name=ref.name))

    async def warnings(self, ref: Ref, *, uid: str) -> list[Object]:
        """The Warning Events of this very object; the server looks through all of the namespace."""
        fields = f"type=Warning,regarding.kind={ref.type.kind},regarding.name={ref.name},regarding.uid={uid}"
        found = []
        async for page in self.pages(EVENT, namespace=ref.namespace, fields=fields):
            found += page.items
        return found

    async def pages(
        self,
        type: ResourceType,
        *,
        namespace: str | None,
        selector: str = "",
        fields: str = "",
        metadata: bool = False,
    ) -> AsyncIterator[ListPage]:
        """All objects, consistent as of one moment, page by page: thousands at once would not be small.

        With `metadata`, nothing of them but that.
        """
        accept = METADATA_ONLY.format(suffix="List") if metadata else JSON
        query = {"limit": str(PAGE_SIZE)} | ({"labelSelector": selector} if selector else {})
        query |= {"fieldSelector": fields} if fields else {}
        while True:
            page = await self._call("GET", type.path(namespace=namespace), query=query, accept=accept)
            yield ListPage(int(page["metadata"].get("resourceVersion") or 0), page.get("items") or [])
            token = page["metadata"].get("continue")
            if not token:
                return
            query["continue"] = token

    async def served(self, type: ResourceType) -> bool:
        """Whether the server knows this resource type (its CRD is established)."""
        path = f"/apis/{type.group}/{type.version}" if type.group else f"/api/{type.version}"
        try:
            known = await self._call("GET", path)
        except Exception as error:
            if getattr(error, "status", None) == 404:
                return False
            raise
        return any(item["name"] == type.plural for item in known.get("resources", ()))

    async def server_version(self) -> str:
        """The API server's version as it says it, `v1.34.4`."""
        return str((await self._call("GET", "/version")).get("gitVersion", ""))

    async def apply(self, type: ResourceType, body: Object) -> Object:
        """Server-side apply as `kindling`, by force: the fields in `body` become ours and so."""
        meta = body["metadata"]
        return await self._call(
            "PATCH",
            type.path(namespace=meta["namespace"], name=meta["name"]),
            body={"apiVersion": type.api_version, "kind": type.kind, **body},
            content="application/apply-patch+yaml",
            query={"fieldManager": FIELD_MANAGER, "force": "true"},
            wrote=("apply", type),
        )

    async def create(self, type: ResourceType, body: Object) -> Object:
        """:raises Conflict: when an object of that name exists."""
        token = CREATED.set(body["metadata"]["name"])
        try:
            return await self._call(
                "POST",
                type.path(namespace=body["metadata"]["namespace"]),
                body={"apiVersion": type.api_version, "kind": type.kind, **body},
                query={"fieldManager": FIELD_MANAGER},
                wrote=("create", type),
            )
        finally:
            CREATED.reset(token)

    async def merge(self, ref: Ref, patch: Object, *, subresource: str | None = None) -> Object:
        """JSON merge patch; `metadata.uid` or `resourceVersion` in it work as preconditions."""
        return await self._call(
            "PATCH",
            ref.type.path(namespace=ref.namespace, name=ref.name, subresource=subresource),
            body=patch,
            content="application/merge-patch+json",
            query={"fieldManager": FIELD_MANAGER},
            wrote=(subresource or "patch", ref.type),
        )

    async def delete(self, ref: Ref, *, uid: str, resource_version: str | None = None) -> None:
        """Delete that very object; :raises Conflict: when another took its name or it changed since.

        With its dependents, which by default a Job leaves behind.
        """
        preconditions = {"uid": uid} | ({"resourceVersion": resource_version} if resource_version else {})
        options = {"preconditions": preconditions, "propagationPolicy": "Background"}
        await self._call(
            "DELETE",
            ref.type.path(namespace=ref.namespace, name=ref.name),
            body={"apiVersion": "v1", "kind": "DeleteOptions", **options},
            wrote=("delete", ref.type),
        )

    async def _call(
        self,
        method: str,
        path: str,
        *,
        query: dict[str, str] | None = None,
        body: Object | None = None,
        content: str = JSON,
        accept: str = JSON,
        wrote: tuple[str, ResourceType] | None = None,
    ) -> Object:
        data = _encoded(body) if body is not None else None
        for attempt in range(1, ATTEMPTS + 1):
            async with self._slots:
                if wrote is not None:
                    self._before_write()
                try:
                    async with self._session.request(
                        method,
                        self._server + path,
                        params=query,
                        data=data,
                        headers={"Content-Type": content, "Accept": accept},
                        timeout=self._timeout,
                    ) as response:
                        raw = await response.read()
                        status, pause = response.status, _seconds(response.headers.get("Retry-After"))
                except (aiohttp.ClientError, TimeoutError) as error:
                    raise Unreachable(f"{method} {self._server}{path}: {error!r}") from error
            answer = _json(raw)
            if status < 300:
                if wrote is not None and self._on_write is not None:
                    self._on_write(*wrote)
                return answer
            # Only the server's own word makes us wait in place; all else is the queue's affair.
            if pause is None or pause > MAX_RETRY_AFTER_SECONDS or attempt == ATTEMPTS:
                raise error_from(status=status, body=answer, retry_after=pause)
            await asyncio.sleep(pause)
        raise AssertionError("unreachable: the last attempt returns or raises")


def _encoded(body: Object) -> bytes:
    """JSON that is YAML too, which an apply is read as: these characters only escaped."""
    return _UNPRINTABLE.sub(lambda found: b"\\u%04x" % ord(found[0].decode()), orjson.dumps(body))


def _seconds(retry_after: str | None) -> float | None:
    try:
        return max(0.0, float(retry_after)) if retry_after is not None else None
    except ValueError:
        return None  # the HTTP-date form, which no API server sends


def _json(raw: bytes) -> Object:
    try:
        answer = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return {"message": raw[:200].decode(errors="replace")}
    return answer if isinstance(answer, dict) else {"message": str(answer)[:200]}
