"""The way to the prober, in whose processes servers are spoken to: this one has the token, and waits.

In the cluster it is a container beside this one, reached by a socket that both have mounted. Elsewhere it
is a child of this process, started with the first job and gone with us.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TypeAlias

from kindling.kinds.base import ExternalResult, Request
from kindling.prober.jobs import MAX_RESULT_BYTES, AnyRequest, Job, read

log = logging.getLogger(__name__)

Address: TypeAlias = tuple[str, int]
Dial: TypeAlias = Callable[[Request], AbstractAsyncContextManager[Address]]
"""Gives an address that leads to the server, for as long as the context lasts."""

START_SECONDS = 30.0
RETRY_SECONDS = 1.0


class Unanswered(Exception):
    """The prober gave no answer, which says nothing of the server."""


@asynccontextmanager
async def direct(request: Request) -> AsyncIterator[Address]:
    """The Service's own address, which leads there from anywhere in the cluster."""
    yield request.host, request.port


class ProberClient:
    """`run` and `send` put jobs to the prober at that socket, about servers that `dial` leads to."""

    def __init__(self, path: Path, *, dial: Dial = direct) -> None:
        self._path = path
        self._dial = dial

    async def run(self, request: AnyRequest) -> ExternalResult:
        """The outcome of an action. Waits for a prober that is not there; never gives up."""
        logged = False
        while True:
            try:
                return await self._put(request)
            except Unanswered as error:
                log.log(logging.INFO if logged else logging.WARNING, f"the prober does not answer: {error}")
                logged = True
                await asyncio.sleep(RETRY_SECONDS)

    async def send(self, request: AnyRequest) -> ExternalResult | None:
        """The answer to a probe; None where the prober is not there."""
        try:
            return await self._put(request)
        except Unanswered as error:
            log.info(f"no probe: {error}")
            return None

    async def start(self) -> None:
        """Nothing to start: the kubelet did.

        :raises OSError: never here.
        """

    async def _put(self, request: AnyRequest) -> ExternalResult:
        """:raises Unanswered: also for what is no answer."""
        writer: asyncio.StreamWriter | None = None
        try:
            await self.start()
            async with self._dial(request) as (host, port):
                reader, writer = await asyncio.open_unix_connection(self._path, limit=MAX_RESULT_BYTES)
                writer.write(Job(request=request, host=host, port=port).line())
                answer = read(await reader.readline())
        except (OSError, ValueError) as error:
            raise Unanswered(f"{type(error).__name__}: {error}") from error
        finally:
            if writer is not None:
                writer.close()
        if answer is None:
            raise Unanswered("it broke off")
        return answer


class ChildProber(ProberClient):
    """A prober that is a child of this process; close it in the end."""

    def __init__(self, *, dial: Dial = direct) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="kindling-prober-"))
        super().__init__(self._folder / "socket", dial=dial)
        self._process: asyncio.subprocess.Process | None = None
        self._starting = asyncio.Lock()

    async def start(self) -> None:
        """Started where it is not running; it ends with its standard input, so with this process.

        :raises OSError: when it does not come up.
        """
        async with self._starting:
            if self._process is not None and self._process.returncode is None:
                return
            self._path.unlink(missing_ok=True)
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "kindling.prober",
                str(self._path),
                stdin=asyncio.subprocess.PIPE,
                # No variable of ours is its business, least of all one that leads to the API server.
                env={
                    "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
                    "LANG": "C.UTF-8",
                    **{name: value for name, value in os.environ.items() if name == "RES_OPTIONS"},
                },
            )
            async with asyncio.timeout(START_SECONDS):
                while not await self._listens():
                    if self._process.returncode is not None:
                        raise ConnectionError(f"it ended with status {self._process.returncode}")
                    await asyncio.sleep(0.02)

    async def _listens(self) -> bool:
        """The socket's file is there a moment before anybody listens: a connection is the only proof."""
        try:
            _, writer = await asyncio.open_unix_connection(self._path)
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        writer.close()
        return True

    async def close(self) -> None:
        if self._process is not None and self._process.returncode is None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(5):
                    await self._process.wait()
            if self._process.returncode is None:
                self._process.kill()
        shutil.rmtree(self._folder, ignore_errors=True)
