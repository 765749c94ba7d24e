"""The HTTP side: /healthz, /readyz, /metrics, /debug/decisions and, where it is asked for, /debug/store.

Ours, for kopf's own probe server knows liveness alone.

It is answered by the one event loop that does all the work: one that is held up answers too late, and
the kubelet's time limit is the measure of its lag.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from typing import Any

import orjson
from aiohttp import web

from kindling.engine.metrics import CONTENT_TYPE

Probe = Callable[[], str | None]
"""None when well, else what is wrong, in a sentence."""


async def serve(
    *,
    port: int,
    alive: Probe,
    ready: Probe,
    metrics: Callable[[], str],
    versions: Callable[[], Mapping[str, str]] | None = None,
    decisions: Callable[[str], Mapping[str, Any] | None] | None = None,
) -> web.AppRunner:
    """Serve in the background; the runner's `cleanup` ends it. Without `versions`, there is no such page.

    :raises OSError: when the port is taken.
    """

    def probe(check: Probe) -> Callable[[web.Request], object]:
        async def answer(_: web.Request) -> web.Response:
            wrong = check()
            return web.Response(text=wrong or "ok", status=503 if wrong else 200)

        return answer

    async def exposition(_: web.Request) -> web.Response:
        return web.Response(text=metrics(), headers={"Content-Type": CONTENT_TYPE})

    async def store(_: web.Request) -> web.Response:
        return web.Response(
            body=orjson.dumps(versions() if versions else {}), content_type="application/json"
        )

    async def recorded(request: web.Request) -> web.Response:
        # By `kubectl port-forward`, which takes a right: no other Pod may read what was decided.
        if not ipaddress.ip_address(request.remote or "0.0.0.0").is_loopback:
            return web.Response(text="only from this Pod: use `kubectl port-forward`", status=403)
        key = request.query.get("key", "")
        if decisions is None or (found := decisions(key)) is None:
            text = f"nothing is recorded of key {key!r}: it is KIND.GROUP/NAMESPACE/NAME"
            return web.Response(text=text, status=404)
        return web.Response(body=orjson.dumps(found), content_type="application/json")

    app = web.Application()
    app.router.add_get("/healthz", probe(alive))  # type: ignore[arg-type]
    app.router.add_get("/readyz", probe(ready))  # type: ignore[arg-type]
    app.router.add_get("/metrics", exposition)
    app.router.add_get("/debug/decisions", recorded)
    if versions is not None:
        app.router.add_get("/debug/store", store)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, port=port).start()
    return runner
