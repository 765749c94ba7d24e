"""In the place of a broker's admin API: every topic has no figures, and any subscription can be deleted.

At an address of this machine that is not the loopback, which the operator asks nothing.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_running: list[ThreadingHTTPServer] = []


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self._answer(404, json.dumps({"reason": "Topic not found"}).encode())

    def do_DELETE(self) -> None:
        self._answer(204, b"")

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None: ...


def url() -> str:
    """While one is `running`."""
    host, port = _running[0].server_address[:2]
    return f"http://{host!s}:{port}"


@contextmanager
def running() -> Iterator[None]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        asked.connect(("192.0.2.1", 9))  # which sends nothing, and says by which address that would be
        address = asked.getsockname()[0]
    with ThreadingHTTPServer((address, 0), _Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        _running.append(server)
        try:
            yield
        finally:
            _running.remove(server)
            server.shutdown()
