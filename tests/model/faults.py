"""The API in memory as a network and a busy server make it: what the operator asks may fail, or kill it.

Apart from the API itself, whose users and controllers are served well, so that faults hit the operator alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from enum import Enum
from typing import TypeVar

from kindling.kube.errors import ApiError, Conflict, ServerError, TooManyRequests, Unreachable
from kindling.kube.resources import ListPage, Object, Ref, ResourceType

from tests.model.memory import MemoryApi

T = TypeVar("T")


class Fault(Enum):
    """The outcome of one request. LOST and CRASH_AFTER: it was carried out, but its answer was lost."""

    CONFLICT = "409"
    TOO_MANY = "429"
    SERVER_ERROR = "500"
    UNREACHABLE = "no connection"
    LOST = "no answer"
    CRASH_BEFORE = "the operator dies before it"
    CRASH_AFTER = "the operator dies after it"


class Crash(Exception):
    """The operator's process is no more."""


Meanwhile = Callable[[], None]
"""What another writer does just before the request is served."""


class FaultyApi:
    """The API as the operator sees it. `reads` and `writes`: the outcome of the next requests, in turn."""

    def __init__(self, api: MemoryApi, *, claimed: Callable[[Ref], None]) -> None:
        """`claimed` is called for each resource whose status was written."""
        self.reads: deque[Fault | None] = deque()
        self.writes: deque[Fault | Meanwhile | None] = deque()
        self.asked = 0
        """How many objects were read, one by one."""
        self.refused = 0
        """How many creations met what was there."""
        self.refuse_new: Callable[[], None] = lambda: None
        """Raises what the server answers to all that is to be created."""
        self._api = api
        self._claimed = claimed

    async def get(self, ref: Ref) -> Object:
        self.asked += 1
        return await _fated(self.reads.popleft() if self.reads else None, lambda: self._api.get(ref))

    async def apply(self, type: ResourceType, body: Object) -> Object:
        return await self._write(lambda: self._api.apply(type, body))

    async def create(self, type: ResourceType, body: Object) -> Object:
        self.refuse_new()
        try:
            return await self._write(lambda: self._api.create(type, body))
        except Conflict:
            self.refused += 1
            raise

    async def merge(self, ref: Ref, patch: Object, *, subresource: str | None = None) -> Object:
        async def write() -> Object:
            written = await self._api.merge(ref, patch, subresource=subresource)
            if subresource == "status":
                self._claimed(ref)
            return written

        return await self._write(write)

    async def delete(self, ref: Ref, *, uid: str, resource_version: str | None = None) -> None:
        await self._write(lambda: self._api.delete(ref, uid=uid, resource_version=resource_version))

    async def warnings(self, ref: Ref, *, uid: str) -> list[Object]:
        return await self._api.warnings(ref, uid=uid)

    def pages(
        self, type: ResourceType, *, namespace: str | None, selector: str = "", metadata: bool = False
    ) -> AsyncIterator[ListPage]:
        return self._api.pages(type, namespace=namespace, selector=selector, metadata=metadata)

    async def _write(self, write: Callable[[], Awaitable[T]]) -> T:
        fate = self.writes.popleft() if self.writes else None
        if fate is not None and not isinstance(fate, Fault):
            fate()
            fate = None
        return await _fated(fate, write)


async def _fated(fault: Fault | None, request: Callable[[], Awaitable[T]]) -> T:
    if fault is Fault.CRASH_BEFORE:
        raise Crash
    if fault is not None and fault not in (Fault.LOST, Fault.CRASH_AFTER):
        raise _error(fault)
    answer = await request()
    if fault is Fault.CRASH_AFTER:
        raise Crash
    if fault is Fault.LOST:
        raise _error(fault)
    return answer


def _error(fault: Fault) -> ApiError:
    match fault:
        case Fault.CONFLICT:
            return Conflict(status=409, reason="Conflict", message=fault.value)
        case Fault.TOO_MANY:
            return TooManyRequests(status=429, reason="TooManyRequests", message=fault.value)
        case Fault.SERVER_ERROR:
            return ServerError(status=500, reason="InternalError", message=fault.value)
        case _:
            return Unreachable(fault.value)
