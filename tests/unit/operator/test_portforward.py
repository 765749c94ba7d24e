"""Bytes to and from a Pod's port, against a server that speaks the kubelet's side of the protocol."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp
import kopf
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kindling.kube.credentials import Credentials
from kindling.kube.portforward import PROTOCOL, PortForwarder

PREFIX = (5432).to_bytes(2, "little")


@dataclass(frozen=True)
class To:
    namespace: str = "ns"
    pod: str = "mydb-0"
    port: int = 5432


Serve = Callable[[web.WebSocketResponse], Awaitable[None]]


@asynccontextmanager
async def api_server(
    serve: Serve, *, protocol: str = PROTOCOL
) -> AsyncIterator[tuple[PortForwarder, list[str]]]:
    asked: list[str] = []

    async def forward(request: web.Request) -> web.WebSocketResponse:
        asked.append(str(request.rel_url))
        socket = web.WebSocketResponse(protocols=(protocol,))
        await socket.prepare(request)
        for channel in (0, 1):
            await socket.send_bytes(bytes([channel]) + PREFIX)
        await serve(socket)
        await socket.close()
        return socket

    app = web.Application()
    app.router.add_get("/api/v1/namespaces/{ns}/pods/mydb-0/portforward", forward)
    async with TestServer(app) as server:
        yield PortForwarder(Credentials(info=kopf.ConnectionInfo(server=str(server.make_url("/"))))), asked


async def echo(socket: web.WebSocketResponse) -> None:
    async for message in socket:
        if message.type == aiohttp.WSMsgType.BINARY and message.data[0] == 0:
            await socket.send_bytes(message.data)


def test_bytes_go_both_ways_unchanged() -> None:
    sent = os.urandom(300_000)

    async def scenario() -> tuple[bytes, list[str]]:
        async with api_server(echo) as (tunnel, asked), tunnel.dial(To()) as (host, port):
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(sent)
            got = await asyncio.wait_for(reader.readexactly(len(sent)), 20)
            writer.close()
            return got, asked

    got, asked = asyncio.run(scenario())
    assert got == sent
    assert asked == ["/api/v1/namespaces/ns/pods/mydb-0/portforward?ports=5432"]


def test_each_connection_has_a_tunnel_of_its_own() -> None:
    async def scenario() -> list[bytes]:
        async with api_server(echo) as (tunnel, _), tunnel.dial(To()) as (host, port):
            pairs = [await asyncio.open_connection(host, port) for _ in range(3)]
            for number, (_, writer) in enumerate(pairs):
                writer.write(b"%d" % number)
            return [await asyncio.wait_for(reader.readexactly(1), 20) for reader, _ in pairs]

    assert asyncio.run(scenario()) == [b"0", b"1", b"2"]


def test_leaving_ends_what_is_still_open() -> None:
    async def scenario() -> tuple[bytes, int]:
        async with api_server(echo) as (tunnel, _):
            async with tunnel.dial(To()) as (host, port):
                reader, writer = await asyncio.open_connection(host, port)
                writer.write(b"x")
                await asyncio.wait_for(reader.readexactly(1), 20)
            rest = await asyncio.wait_for(reader.read(), 20)
            with pytest.raises(OSError, match="Connect"):
                await asyncio.open_connection(host, port)
            own = asyncio.current_task()
            return rest, sum("accept" in repr(task) for task in asyncio.all_tasks() if task is not own)

    assert asyncio.run(scenario()) == (b"", 0)


async def refuse(socket: web.WebSocketResponse) -> None:
    await socket.send_bytes(b"\x01error forwarding port 5432: connection refused")


def test_a_port_where_nobody_listens_closes_the_connection_and_says_why(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> bytes:
        async with api_server(refuse) as (tunnel, _), tunnel.dial(To()) as (host, port):
            reader, _ = await asyncio.open_connection(host, port)
            return await asyncio.wait_for(reader.read(), 20)

    assert asyncio.run(scenario()) == b""
    assert "port 5432 of Pod ns/mydb-0" in caplog.text
    assert "connection refused" in caplog.text


@pytest.mark.parametrize(("pod", "protocol"), [("other", PROTOCOL), ("mydb-0", "v5.channel.k8s.io")])
def test_what_the_api_server_refuses_closes_the_connection(
    pod: str, protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> bytes:
        async with api_server(echo, protocol=protocol) as (tunnel, _), tunnel.dial(To(pod=pod)) as address:
            reader, _ = await asyncio.open_connection(*address)
            return await asyncio.wait_for(reader.read(), 20)

    assert asyncio.run(scenario()) == b""
    assert f"no port-forward to port 5432 of Pod ns/{pod}" in caplog.text
