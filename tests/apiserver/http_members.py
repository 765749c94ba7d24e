"""HTTP servers as docs/work-on-members.md describes them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

DOWN_SECONDS = 1.0
"""For how long a server answers 503 after a restart."""


class Member(ThreadingHTTPServer):
    """One server of an ensemble, as the guide describes them; after a restart it is down for a moment."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.state = {"version": "1", "role": "replica"}
        self.changes: list[str] = []
        self.restarted = 0.0
        self.hangs = threading.Event()


class _Handler(BaseHTTPRequestHandler):
    server: Member

    def do_GET(self) -> None:
        while self.server.hangs.is_set():
            time.sleep(0.1)
        if time.monotonic() < self.server.restarted + DOWN_SECONDS:
            self.send_error(503)
            return
        body = json.dumps(self.server.state).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.server.changes.append(self.path)
        verb, _, version = self.path.removeprefix("/").partition("?version=")
        if verb == "restart":
            self.server.state["version"], self.server.restarted = version, time.monotonic()
            self.send_response(204)
            self.end_headers()
        else:
            self.server.state["role"] = "primary" if verb == "promote" else "replica"
            self.do_GET()

    def log_message(self, format: str, *args: object) -> None:
        """Not here: the test says what was wrong."""


@contextmanager
def members(count: int) -> Iterator[list[Member]]:
    with ExitStack() as stack:
        servers = [stack.enter_context(Member()) for _ in range(count)]
        for server in servers:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            stack.callback(server.shutdown)
        yield servers
        for server in servers:
            server.hangs.clear()
