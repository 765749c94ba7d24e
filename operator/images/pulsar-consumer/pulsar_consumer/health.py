"""The answers to the kubelet: /healthz (need this process be restarted?) and /readyz (is it connected now?).

And to the operator: /handler, how its calls went of late.

Standard library only, in threads of its own: the receive loop waits in the client and could not answer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

STUCK_SECONDS = 60.0
"""A turn of the loop takes half a second, an attempt to connect ten; printing may wait for its reader."""

LOST_SECONDS = 300.0
"""The client reconnects by itself, waiting up to a minute between attempts."""


class Health:
    """The receive loop reports each turn here, and the kubelet asks."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._turned = clock()
        self._connected: float | None = None
        self._is_connected: Callable[[], bool] = lambda: False
        self._slowest: Callable[[], float] = lambda: 0.0
        self._slowest_limit = 0.0
        self._failing: Callable[[], bool] = lambda: False
        self._poisoned: Callable[[], bool] = lambda: False
        self.page: Callable[[], bytes] | None = None
        """What /handler answers; None where there is no handler."""

    def watch(self, is_connected: Callable[[], bool]) -> None:
        """From now on, this says whether the broker is connected."""
        self._is_connected = is_connected

    def watch_handler(
        self,
        slowest: Callable[[], float],
        limit: float,
        *,
        failing: Callable[[], bool] = lambda: False,
        poisoned: Callable[[], bool] = lambda: False,
    ) -> None:
        """From now on, these say for how many seconds a call of the handler has taken, which a restart ends,
        whether it fails on every message, and whether one may come that has ended the process.
        """
        self._slowest, self._slowest_limit = slowest, limit
        self._failing, self._poisoned = failing, poisoned

    def turn(self) -> None:
        """The loop has come round."""
        self._turned = self._clock()
        if self._is_connected():
            self._connected = self._turned

    def unhealthy(self) -> str | None:
        """Why a restart would help, if so.

        One that has never been connected is not restarted: it makes a new client for each attempt.
        """
        now = self._clock()
        if now - self._turned > STUCK_SECONDS:
            return f"the receive loop has not turned for {now - self._turned:.0f} s"
        if (slowest := self._slowest()) > self._slowest_limit:
            return f"a call of the handler has taken {slowest:.0f} s"
        if self._connected is not None and now - self._connected > LOST_SECONDS:
            return f"the broker has been lost for {now - self._connected:.0f} s"
        return None

    def unready(self) -> str | None:
        """Why messages cannot come, if so."""
        if not self._is_connected():
            return "not connected to the broker"
        if self._failing():
            return "the handler fails on every message"
        return "a message has ended the process again and again" if self._poisoned() else None


def serve(health: Health, *, port: int) -> ThreadingHTTPServer:
    """Answer in the background, until the process ends.

    :raises OSError: when the port is taken.
    """
    probes = {"/healthz": health.unhealthy, "/readyz": health.unready}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/handler" and health.page is not None:
                self._answer(HTTPStatus.OK, "application/json", health.page())
                return
            probe = probes.get(self.path)
            if probe is None:
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            wrong = probe()
            status = HTTPStatus.SERVICE_UNAVAILABLE if wrong else HTTPStatus.OK
            self._answer(status, "text/plain", (wrong or "ok").encode())

        def _answer(self, status: HTTPStatus, type: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing: one line for each question would drown the messages."""

    server = ThreadingHTTPServer(("", port), Handler)
    threading.Thread(target=server.serve_forever, name="health", daemon=True).start()
    return server
