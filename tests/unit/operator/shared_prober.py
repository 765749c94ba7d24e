"""One prober's process for many tests: to start one costs more than what most of them ask of it."""

from __future__ import annotations

import asyncio
import atexit
import functools
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kindling.kinds.base import ExternalResult, Request
from kindling.prober.client import ChildProber, direct
from kindling.prober.jobs import AnyRequest

ANSWER_SECONDS = 60.0


@asynccontextmanager
async def tunnel(request: Request) -> AsyncIterator[tuple[str, int]]:
    """The operator's way to a server from outside of the cluster, which here is on this machine."""
    yield "127.0.0.1", request.port


class SharedProber:
    """Runs on a loop of its own, since each test has another."""

    def __init__(self, *, tunnelled: bool) -> None:
        self._loop = asyncio.new_event_loop()
        self._prober = ChildProber(dial=tunnel if tunnelled else direct)
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        atexit.register(self._close)

    def run(self, request: AnyRequest) -> tuple[ExternalResult, float]:
        """What it answers, and after how many seconds."""

        async def steps() -> tuple[ExternalResult, float]:
            await self._prober.start()
            began = time.monotonic()
            return await self._prober.run(request), time.monotonic() - began

        return asyncio.run_coroutine_threadsafe(steps(), self._loop).result(ANSWER_SECONDS)

    def _close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._prober.close(), self._loop).result(ANSWER_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)


@functools.cache
def shared_prober(*, tunnelled: bool = False) -> SharedProber:
    """The same in all tests of this worker; started by the first."""
    return SharedProber(tunnelled=tunnelled)
