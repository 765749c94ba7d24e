"""The kubelet's part of a port-forward: each Pod's port leads to one port on this machine.

So that the operator logs in to a real PostgreSQL, though no Pod here runs one. One at a time for each server:
to make a database, its template must be nobody else's, and here several share one.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

import aiohttp
from aiohttp import web
from kindling.kube.portforward import CHUNK, DATA, ERRORS, PROTOCOL


@dataclass
class ForwardTarget:
    """The way to the port of a Pod, for one at a time. Both functions get the namespace and Pod of each
    connection.
    """

    port_of: Callable[[str, str], int]
    enters: Callable[[str, str], None]
    _alone: defaultdict[int, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))
    # A login that is given up leaves its thread behind, at work with the connection that `enters` has.
    _turn: defaultdict[int, threading.Lock] = field(default_factory=lambda: defaultdict(threading.Lock))

    async def forward(self, request: web.Request) -> web.WebSocketResponse:
        *_, namespace, _, pod, _ = request.path.split("/")
        port = await asyncio.to_thread(self.port_of, namespace, pod)
        turn = self._turn[port]
        async with self._alone[port]:
            await asyncio.to_thread(self._let_in, turn, namespace, pod)
            return await _forward(request, port=port)

    def _let_in(self, turn: threading.Lock, namespace: str, pod: str) -> None:
        with turn:
            self.enters(namespace, pod)


async def _forward(request: web.Request, *, port: int) -> web.WebSocketResponse:
    """Carry bytes both ways until either side ends."""
    socket = web.WebSocketResponse(protocols=(PROTOCOL,), max_msg_size=0)
    await socket.prepare(request)
    asked = int(request.query["ports"]).to_bytes(2, "little")
    for channel in (DATA, ERRORS):
        await socket.send_bytes(bytes([channel]) + asked)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def back() -> None:
        while data := await reader.read(CHUNK):
            await socket.send_bytes(bytes([DATA]) + data)
        await socket.close()

    returning = asyncio.create_task(back())
    try:
        async for message in socket:
            if message.type == aiohttp.WSMsgType.BINARY and message.data[0] == DATA:
                writer.write(message.data[1:])
                await writer.drain()
    finally:
        returning.cancel()
        writer.close()
        with contextlib.suppress(asyncio.CancelledError, OSError):
            await returning
    return socket
