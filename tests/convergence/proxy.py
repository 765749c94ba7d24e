"""A proxy in front of the API server, which passes all on, numbers what is written, and does harm on request.

Apart from the tests, because a fault between the operator and the API server is nothing that either of
the two can do by itself. It answers with the API server's own certificate. What can go wrong with a
watch, or with an older view, is in `streams`; here is what can go wrong with a write, or with any request.
"""

from __future__ import annotations

import asyncio
import json
import random
import ssl
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import aiohttp
from aiohttp import web

from tests.apiserver.support.audit import APART
from tests.apiserver.support.controlplane import ControlPlane
from tests.convergence.forward_target import ForwardTarget
from tests.convergence.watch_faults import Streams

READS = frozenset({"GET", "HEAD"})
LONGEST_LINE = 2**22
PASSED = ("Authorization", "Content-Type", "Accept", "User-Agent")


FROM_PODS = ("/status", "-servers")
"""How the paths end of what follows from Pods, which a view may not have yet."""


@dataclass(frozen=True, kw_only=True)
class ProxiedRequest:
    """One request, as it came."""

    method: str
    path: str
    query: dict[str, list[str]]

    @property
    def watches(self) -> bool:
        return self.query.get("watch") == ["true"]

    @property
    def namespace(self) -> str:
        """The namespace it is about; empty for the whole cluster."""
        return self.path.partition("/namespaces/")[2].partition("/")[0]

    @property
    def plural(self) -> str:
        """What it is about: the resource's name in the path."""
        parts = self.path.split("/")
        start = 3 if parts[1] == "api" else 4
        if parts[start : start + 1] == ["namespaces"] and len(parts) > start + 2:
            start += 2
        return parts[start] if len(parts) > start else ""

    @property
    def writes(self) -> bool:
        """Whether for a resource: an Event reports a write, a Lease is the process's own."""
        return self.method not in READS and self.plural not in APART


@dataclass(frozen=True, kw_only=True)
class Write:
    """One that was answered by the API server. `effective`: whether anything is other than it was."""

    asked: ProxiedRequest
    status: int
    effective: bool

    def __str__(self) -> str:
        path = self.asked.path.partition("/namespaces/")[2].partition("/")[2]
        return f"{self.asked.method} {path} {self.status}{'' if self.effective else ' (no effect)'}"


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What becomes of a write: passed on or not (`commits`), then answered so, or not at all.

    Without an `answer`, the connection ends, or, if it `hangs`, the client waits in vain. `first` is
    done before that, as killing who asked.
    """

    commits: bool
    answer: int | None = None
    retry_after: int | None = None
    hangs: bool = False
    first: Callable[[], None] = lambda: None


@dataclass
class Proxy:
    """`plane` is the control plane as seen through it. Its methods may be called from any thread."""

    plane: ControlPlane
    streams: Streams
    database: ForwardTarget | None = None
    """Where every Pod's port leads to, if anywhere."""
    asked: list[ProxiedRequest] = field(default_factory=list)
    says_version: str = ""
    """What it calls itself where it is asked for its version; empty for what the API server says."""
    _upstream: str = ""
    _writes: defaultdict[str, list[Write | None]] = field(default_factory=lambda: defaultdict(list))
    _faults: dict[tuple[str, int], Fault] = field(default_factory=dict)
    _fired: set[tuple[str, int]] = field(default_factory=set)
    _dice: random.Random = field(default_factory=random.Random)
    _shares: Sequence[tuple[int, float]] = ()
    _held: Sequence[tuple[str, str]] = ()

    def stall(self, path: str) -> None:
        """From now on no watch on this path brings anything, nor ends: as when a firewall forgot it."""
        self.streams.stall(path)

    def expire(self, path: str) -> None:
        """End the stall as an API server does that has forgotten what happened meanwhile: 410 Gone."""
        self.streams.expire(path)

    def cut(self) -> None:
        """End every watch here and now, with whatever was on its way."""
        self.streams.cut()

    def refuse(self, *shares: tuple[int, float]) -> None:
        """From now on answer that share of all requests with that status; with no shares, none."""
        self._shares = shares

    def hold(self, *which: tuple[str, str]) -> None:
        """Keep back the answers to these, a method and a part of the path each; with none, no longer."""
        self._held = which
        self.streams.notify()

    def writes(self, namespace: str) -> list[Write]:
        """Those that were answered, in order."""
        return [write for write in list(self._writes[namespace]) if write is not None]

    def written(self, namespace: str) -> int:
        """How many there were, answered or not."""
        return len(self._writes[namespace])

    def changes(self, namespace: str, *, since: int) -> list[str]:
        """What was written after the first `since` writes and changed anything but what follows from Pods and
        from what servers answer: a status, and a Memcached's list of servers.
        """
        writes = [write for write in self._writes[namespace][since:] if write is not None and write.effective]
        return [str(write) for write in writes if not write.asked.path.endswith(FROM_PODS)]

    def at_write(self, namespace: str, number: int, fault: Fault) -> None:
        """The harm to do to that write of this namespace, the first since its beginning being 1."""
        self._faults[namespace, number] = fault

    def spare(self, namespace: str, number: int) -> bool:
        """No harm to that write after all; False if it has begun."""
        return self._faults.pop((namespace, number), None) is not None

    def fired(self, namespace: str, number: int) -> bool:
        """Whether that harm was done: committed what was to be, and `first` is over."""
        return (namespace, number) in self._fired

    async def _pass_on(self, request: web.Request, session: aiohttp.ClientSession) -> web.StreamResponse:
        split = urlsplit(request.raw_path)
        asked = ProxiedRequest(method=request.method, path=split.path, query=parse_qs(split.query))
        self.asked.append(asked)
        if (status := self._share()) is not None:
            return _refusal(status, retry_after=1)
        if asked.path == "/version" and self.says_version:
            return web.json_response({"gitVersion": self.says_version})
        if asked.path.endswith("/portforward") and self.database is not None:
            return await self.database.forward(request)
        if asked.writes:
            return await self._write(request, session, asked)
        if asked.watches:
            await self.streams.may_begin(asked.path)
        target, version = request.raw_path, self.streams.version
        lists = not asked.watches and asked.plural == split.path.rpartition("/")[2]
        if lists and version is not None and "continue" not in asked.query:
            past = {"resourceVersion": [str(version)], "resourceVersionMatch": ["Exact"]}
            target = f"{split.path}?{urlencode({**asked.query, **past}, doseq=True)}"
        body = await request.read() or None
        async with session.request(
            asked.method, self._upstream + target, data=body, headers=_passed(request)
        ) as found:
            await self._release(asked)
            response = web.StreamResponse(status=found.status, headers=_head(found))
            await response.prepare(request)
            if asked.watches and found.status == 200:
                await self.streams.carry(asked.path, asked.plural, found, response)
            else:
                await response.write(await found.read())
        return response

    async def _write(
        self, request: web.Request, session: aiohttp.ClientSession, asked: ProxiedRequest
    ) -> web.StreamResponse:
        written = self._writes[asked.namespace]
        written.append(None)
        place = asked.namespace, len(written)
        fault = self._faults.pop(place, None)
        if fault is None:
            committed = await self._commit(request, session, asked, place)
            await self._release(asked)
            return committed
        answer: web.StreamResponse | None = None
        if fault.commits:
            answer = await self._commit(request, session, asked, place)
        fault.first()
        self._fired.add(place)
        if fault.answer is not None:
            return _refusal(fault.answer, retry_after=fault.retry_after)
        if fault.hangs:
            await asyncio.Event().wait()  # until the client goes
        if request.transport is not None:
            request.transport.abort()
        return answer or web.Response(status=502)

    def _share(self) -> int | None:
        """The status to refuse a request with, if it has drawn one."""
        drawn = self._dice.random()
        for status, share in self._shares:
            drawn -= share
            if drawn < 0:
                return status
        return None

    async def _release(self, asked: ProxiedRequest) -> None:
        """Once nothing keeps the answer back any longer."""
        while any(asked.method == method and part in asked.path for method, part in self._held):
            await self.streams.notified()

    async def _commit(
        self,
        request: web.Request,
        session: aiohttp.ClientSession,
        asked: ProxiedRequest,
        place: tuple[str, int],
    ) -> web.Response:
        headers, target = _passed(request), self._upstream + request.raw_path
        before = b""
        if asked.method in ("PATCH", "PUT"):
            path = self._upstream + asked.path.removesuffix("/status")
            quiet = {"Authorization": headers["Authorization"]}
            async with session.get(path, headers=quiet, skip_auto_headers=["User-Agent"]) as found:
                before = await found.read()
        body = await request.read()
        async with session.request(asked.method, target, data=body or None, headers=headers) as found:
            raw = await found.read()
            changed = asked.method in ("POST", "DELETE") or _version(raw) != _version(before)
            write = Write(asked=asked, status=found.status, effective=found.status < 300 and changed)
            self._writes[place[0]][place[1] - 1] = write
            return web.Response(status=found.status, headers=_head(found), body=raw)


def _passed(request: web.Request) -> dict[str, str]:
    headers = {name: request.headers[name] for name in PASSED if name in request.headers}
    headers["Accept-Encoding"] = "identity"  # What is passed on is not looked into.
    return headers


def _head(found: aiohttp.ClientResponse) -> dict[str, str]:
    return {name: found.headers[name] for name in ("Content-Type", "Retry-After") if name in found.headers}


def _version(raw: bytes) -> str:
    try:
        return str(json.loads(raw)["metadata"]["resourceVersion"])
    except (ValueError, KeyError):
        return ""


def _refusal(status: int, *, retry_after: int | None) -> web.Response:
    reason = {409: "Conflict", 429: "TooManyRequests", 500: "InternalError"}[status]
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": status}
    headers = {"Retry-After": str(retry_after)} if retry_after is not None else {}
    return web.json_response({**body, "message": "as the test asks"}, status=status, headers=headers)


@contextmanager
def proxy(plane: ControlPlane, *, directory: Path, database: ForwardTarget | None = None) -> Iterator[Proxy]:
    """Start one, on a thread of its own; its kubeconfig goes to `directory`."""
    ready, stop = threading.Event(), threading.Event()
    running = Proxy(plane, Streams(), database=database, _upstream=plane.url)

    async def serve() -> None:
        running.streams.begin()
        upstream = ssl.create_default_context(cafile=plane.ca)
        own = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        own.load_cert_chain(plane.ca, plane.ca.with_suffix(".key"))
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=upstream, limit=0, keepalive_timeout=600),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
            read_bufsize=LONGEST_LINE,
        ) as session:

            async def answer(request: web.Request) -> web.StreamResponse:
                try:
                    return await running._pass_on(request, session)
                except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, ConnectionResetError):
                    if request.transport is not None:
                        request.transport.abort()
                    return web.Response()  # Which nobody reads: the connection is no more.

            app = web.Application(client_max_size=LONGEST_LINE)
            app.router.add_route("*", "/{path:.*}", answer)
            runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
            await runner.setup()
            site = web.TCPSite(runner, host="127.0.0.1", port=0, ssl_context=own)
            await site.start()
            kubeconfig = directory / "proxy.kubeconfig"
            url = f"https://127.0.0.1:{runner.addresses[0][1]}"
            kubeconfig.write_text(plane.kubeconfig.read_text().replace(plane.url, url))
            running.plane = replace(plane, url=url, kubeconfig=kubeconfig)
            ready.set()
            await asyncio.to_thread(stop.wait)
            await runner.cleanup()

    thread = threading.Thread(target=asyncio.run, args=(serve(),), daemon=True)
    thread.start()
    try:
        assert ready.wait(10), "the proxy did not start"
        yield running
    finally:
        stop.set()
        thread.join(10)
