"""A watch that is not restarted is reported stalled, and a second list of a kind is counted as a relist."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import kopf
from aiohttp import web
from aiohttp.test_utils import TestServer
from kindling.kube.credentials import Credentials
from kindling.kube.resources import POD, SECRET, ResourceType
from kindling.kube.watch_monitor import WatchMonitor, paths_of

SECONDS = 120
PODS, SECRETS = "/api/v1/pods", "/api/v1/secrets"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Watching:
    """WatchMonitor over Pods and Secrets behind a real session; `ask` is what kopf would."""

    def __init__(self, clock: Clock) -> None:
        self.relisted: list[ResourceType] = []
        self.monitor = WatchMonitor(
            paths_of([POD, SECRET], []), seconds=SECONDS, relisted=self.relisted.append, monotonic=clock
        )
        self.status = 200
        self._session: Callable[[str], Awaitable[None]]

    async def ask(self, path: str) -> None:
        await self._session(path)

    def run(self, scenario: Callable[[], Awaitable[None]]) -> None:
        async def answer(_: web.Request) -> web.Response:
            return web.json_response({"items": []}, status=self.status)

        async def main() -> None:
            app = web.Application()
            app.router.add_route("*", "/{path:.*}", answer)
            async with TestServer(app) as server:
                credentials = Credentials(info=kopf.ConnectionInfo(server=str(server.make_url("/"))))
                async with credentials.session(limit=4, middleware=self.monitor.middleware) as session:

                    async def get(path: str) -> None:
                        async with session.get(credentials.server + path):
                            pass

                    self._session = get
                    await scenario()

        asyncio.run(main())


def test_paths_of_the_cluster_and_of_namespaces() -> None:
    assert paths_of([POD], []) == {PODS: POD}
    assert paths_of([POD], ["a", "b"]) == {
        "/api/v1/namespaces/a/pods": POD,
        "/api/v1/namespaces/b/pods": POD,
    }


def test_all_must_be_watched_once() -> None:
    watching = Watching(Clock())

    async def scenario() -> None:
        await watching.ask(f"{PODS}?limit=500")
        assert watching.monitor.not_started == f"not watched yet: {PODS}, {SECRETS}"
        await watching.ask(f"{PODS}?watch=true&timeoutSeconds=120")
        assert watching.monitor.not_started == f"not watched yet: {SECRETS}"
        await watching.ask(f"{SECRETS}?watch=true")
        assert watching.monitor.not_started is None

    watching.run(scenario)


def test_a_watch_that_is_not_restarted_is_named_with_its_age() -> None:
    clock = Clock()
    watching = Watching(clock)

    async def scenario() -> None:
        await watching.ask(f"{PODS}?watch=true")
        await watching.ask(f"{SECRETS}?watch=true")
        clock.now = 2 * SECONDS
        assert watching.monitor.stalled is None
        await watching.ask(f"{SECRETS}?watch=true")
        await watching.ask(PODS)  # a list is not a watch
        clock.now += 1
        assert watching.monitor.stalled == f"watch stalled: no watch for {2 * SECONDS + 1} s on {PODS}"
        await watching.ask(f"{PODS}?watch=true")
        assert watching.monitor.stalled is None

    watching.run(scenario)


def test_a_watch_that_never_started_is_stalled_too() -> None:
    clock = Clock()
    monitor = Watching(clock).monitor
    clock.now = 2 * SECONDS + 1
    assert monitor.stalled is not None
    assert PODS in monitor.stalled
    assert SECRETS in monitor.stalled


def test_a_refused_watch_does_not_count() -> None:
    watching = Watching(Clock())
    watching.status = 403

    async def scenario() -> None:
        await watching.ask(f"{PODS}?watch=true")
        assert PODS in str(watching.monitor.not_started)

    watching.run(scenario)


def test_each_list_but_the_first_is_one_relist_whatever_its_pages() -> None:
    watching = Watching(Clock())

    async def scenario() -> None:
        watching.status = 500
        await watching.ask(f"{PODS}?limit=500")
        watching.status = 200
        for _ in range(2):
            await watching.ask(f"{PODS}?limit=500")
            await watching.ask(f"{PODS}?limit=500&continue=more")
        await watching.ask(SECRETS)
        await watching.ask("/api/v1/nodes")
        await watching.ask("/api/v1/nodes")
        assert watching.relisted == [POD]

    watching.run(scenario)
