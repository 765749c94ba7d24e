"""The way to a Pod's port from outside of the cluster: through the API server, as kubectl's port-forward.

For a developer's machine, from which neither a Service's name nor its address leads anywhere; in the
cluster nothing uses it. Spoken in the WebSocket form that the kubelet has for it (v4.channel.k8s.io):
each message begins with its channel, 0 for data and 1 for errors, and the first of each channel
repeats the port's number.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

import aiohttp

from kindling.kube.credentials import Credentials
from kindling.kube.resources import POD

log = logging.getLogger(__name__)

PROTOCOL = "v4.channel.k8s.io"
DATA, ERRORS = 0, 1
CHUNK = 32 * 1024
CLOSE_SECONDS = 5.0


class Destination(Protocol):
    """A port of a Pod."""

    @property
    def namespace(self) -> str: ...
    @property
    def pod(self) -> str: ...
    @property
    def port(self) -> int: ...


class PortForwarder:
    """`dial` gives an address on this machine that leads to a Pod's port, while its context lasts."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    @asynccontextmanager
    async def dial(self, to: Destination) -> AsyncIterator[tuple[str, int]]:
        """One tunnel for each connection that is made to the address; all end with the context.

        What the API server refuses shows as a connection that is closed at once, and in the log.
        """
        running: set[asyncio.Task[None]] = set()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.create_task(self._carry(to, reader, writer))
            running.add(task)
            task.add_done_callback(running.discard)

        server = await asyncio.start_server(accept, host="127.0.0.1", port=0)
        try:
            host, port = server.sockets[0].getsockname()[:2]
            yield host, port
        finally:
            server.close()
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _carry(
        self, to: Destination, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            async with self._open(to) as socket:
                sending = asyncio.create_task(_send(reader, socket))
                try:
                    await _receive(socket, writer)
                finally:
                    sending.cancel()
                    with contextlib.suppress(asyncio.CancelledError, OSError, aiohttp.ClientError):
                        await sending
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            log.warning(f"no port-forward to port {to.port} of Pod {to.namespace}/{to.pod}: {error}")
        finally:
            writer.close()

    @asynccontextmanager
    async def _open(self, to: Destination) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        path = POD.path(namespace=to.namespace, name=to.pod, subresource="portforward")
        async with (
            self._credentials.session(limit=1) as session,
            session.ws_connect(
                f"{self._credentials.server}{path}",
                params={"ports": str(to.port)},
                protocols=(PROTOCOL,),
                timeout=aiohttp.ClientWSTimeout(ws_close=CLOSE_SECONDS),
                max_msg_size=0,
            ) as socket,
        ):
            if socket.protocol != PROTOCOL:
                raise aiohttp.ClientError(f"the API server does not speak {PROTOCOL}")
            yield socket


async def _send(reader: asyncio.StreamReader, socket: aiohttp.ClientWebSocketResponse) -> None:
    while data := await reader.read(CHUNK):
        await socket.send_bytes(bytes([DATA]) + data)
    await socket.close()  # the protocol knows no half-closed connection


async def _receive(socket: aiohttp.ClientWebSocketResponse, writer: asyncio.StreamWriter) -> None:
    """Until either side ends.

    :raises ConnectionError: with the kubelet's words, when it cannot reach the port.
    """
    begun = set()
    async for message in socket:
        if message.type != aiohttp.WSMsgType.BINARY or not message.data:
            continue
        channel, data = message.data[0], message.data[1:]
        if channel not in begun:
            begun.add(channel)
            data = data[2:]
        if channel == ERRORS and data:
            raise ConnectionError(data.decode(errors="replace"))
        if channel == DATA and data:
            writer.write(data)
            await writer.drain()
