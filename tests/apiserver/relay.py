"""A relay in front of the API server that remembers what was asked and can make watches fall silent.

Apart from the tests, because a fault between the operator and the API server is nothing that either of
the two can be told to have. It answers with the API server's own certificate.
"""

from __future__ import annotations

import asyncio
import json
import random
import ssl
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import aiohttp
from aiohttp import web

from tests.apiserver.controlplane import ControlPlane

POLL_SECONDS = 0.05
GONE = {
    "type": "ERROR",
    "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"},
}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One request, as it came."""

    method: str
    path: str
    query: dict[str, list[str]]

    @property
    def watches(self) -> bool:
        return self.query.get("watch") == ["true"]


@dataclass
class Relay:
    """`plane` is the control plane as seen through it. May be told things from any thread."""

    plane: ControlPlane
    asked: list[Asked] = field(default_factory=list)
    _refusals: list[tuple[int, float]] = field(default_factory=list)
    _held: Sequence[tuple[str, str]] = ()
    _cuts: int = 0
    _silent: set[str] = field(default_factory=set)
    _gone: set[str] = field(default_factory=set)

    def silence(self, path: str) -> None:
        """From now on no watch on this path brings anything, nor ends: as when a firewall forgot it."""
        self._silent.add(path)

    def expire(self, path: str) -> None:
        """End the silence as an API server does that has forgotten what happened meanwhile: 410 Gone."""
        self._gone.add(path)
        self._silent.discard(path)

    def hold(self, *which: tuple[str, str]) -> None:
        """Keep back the answers to these, a method and a part of the path each; with none, no longer."""
        self._held = which

    def _holds(self, asked: Asked) -> bool:
        return any(asked.method == method and part in asked.path for method, part in self._held)

    def cut(self) -> None:
        """End every watch here and now, with whatever was on its way."""
        self._cuts += 1

    def refuse(self, *shares: tuple[int, float]) -> None:
        """From now on answer that share of all requests with that status; with no shares, none."""
        self._refusals = list(shares)

    def _refusal(self) -> web.Response | None:
        drawn = random.random()
        for status, share in self._refusals:
            drawn -= share
            if drawn < 0:
                said = {"kind": "Status", "status": "Failure", "code": status, "message": "so it was told"}
                return web.json_response(said, status=status, headers={"Retry-After": "1"})
        return None

    async def _events(self, path: str, source: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """What the watch brings, as far as it may."""
        reading: asyncio.Task[bytes] | None = None
        cuts = self._cuts
        try:
            while True:
                reading = reading or asyncio.create_task(anext(source))  # type: ignore[arg-type]
                await asyncio.wait({reading}, timeout=POLL_SECONDS)
                if cuts != self._cuts:
                    raise ConnectionResetError("cut")
                if path in self._gone:
                    self._gone.discard(path)
                    yield json.dumps(GONE).encode() + b"\n"
                    return
                if path in self._silent:
                    await asyncio.sleep(POLL_SECONDS)
                elif reading.done():
                    try:
                        data = reading.result()
                    except StopAsyncIteration:
                        return
                    reading = None
                    yield data
        finally:
            if reading is not None:
                reading.cancel()

    async def _pass_on(
        self, request: web.Request, session: aiohttp.ClientSession, url: str
    ) -> web.StreamResponse:
        split = urlsplit(request.raw_path)
        asked = Asked(method=request.method, path=split.path, query=parse_qs(split.query))
        self.asked.append(asked)
        if (refusal := self._refusal()) is not None:
            return refusal
        while asked.watches and asked.path in self._silent:
            await asyncio.sleep(POLL_SECONDS)
        kept = ("Authorization", "Content-Type", "Accept", "User-Agent")
        headers = {name: request.headers[name] for name in kept if name in request.headers}
        headers["Accept-Encoding"] = "identity"  # What is passed on is not looked into.
        body = await request.read()
        async with session.request(
            request.method, url + request.raw_path, data=body or None, headers=headers
        ) as found:
            while self._holds(asked):
                await asyncio.sleep(POLL_SECONDS)
            passed = {
                name: found.headers[name] for name in ("Content-Type", "Retry-After") if name in found.headers
            }
            response = web.StreamResponse(status=found.status, headers=passed)
            await response.prepare(request)
            source = found.content.iter_any()
            async for data in self._events(asked.path, source) if asked.watches else source:
                await response.write(data)
        return response


@contextmanager
def relay(plane: ControlPlane, *, directory: Path) -> Iterator[Relay]:
    """Start one, on a thread of its own; its kubeconfig goes to `directory`."""
    ready, stop = threading.Event(), threading.Event()
    running = Relay(plane)

    async def serve() -> None:
        upstream = ssl.create_default_context(cafile=plane.ca)
        own = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        own.load_cert_chain(plane.ca, plane.ca.with_suffix(".key"))
        connector = aiohttp.TCPConnector(ssl=upstream, limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(
            connector=connector, timeout=timeout, auto_decompress=False
        ) as session:

            async def answer(request: web.Request) -> web.StreamResponse:
                try:
                    return await running._pass_on(request, session, plane.url)
                except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, ConnectionResetError):
                    if request.transport is not None:
                        request.transport.abort()
                    return web.Response()  # Which nobody reads: the connection is no more.

            app = web.Application()
            app.router.add_route("*", "/{path:.*}", answer)
            runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
            await runner.setup()
            site = web.TCPSite(runner, host="127.0.0.1", port=0, ssl_context=own)
            await site.start()
            port = runner.addresses[0][1]
            kubeconfig = directory / "relay.kubeconfig"
            url = f"https://127.0.0.1:{port}"
            kubeconfig.write_text(plane.kubeconfig.read_text().replace(plane.url, url))
            running.plane = replace(plane, url=url, kubeconfig=kubeconfig)
            ready.set()
            while not stop.is_set():
                await asyncio.sleep(POLL_SECONDS)
            await runner.cleanup()

    thread = threading.Thread(target=asyncio.run, args=(serve(),), daemon=True)
    thread.start()
    try:
        assert ready.wait(10), "the relay did not start"
        yield running
    finally:
        stop.set()
        thread.join(10)
