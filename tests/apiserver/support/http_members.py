"""HTTP servers as docs/work-on-members.md describes them."""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

DOWN_SECONDS = 1.0
"""For how long a member answers 503 after a restart."""


@dataclass
class Member:
    """`changes` has the path of each POST."""

    version: str = "1"
    role: str = "replica"
    changes: list[str] = field(default_factory=list)
    restarted: float = 0.0
    hangs: threading.Event = field(default_factory=threading.Event)


class Server(ThreadingHTTPServer):
    """Any number of members, each at the prefix of its paths."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.members: defaultdict[str, Member] = defaultdict(Member)


class _Handler(BaseHTTPRequestHandler):
    server: Server

    @property
    def _member(self) -> Member:
        return self.server.members[self.path.rpartition("/")[0]]

    def do_GET(self) -> None:
        while self._member.hangs.is_set():
            time.sleep(0.1)
        if time.monotonic() < self._member.restarted + DOWN_SECONDS:
            self.send_error(503)
            return
        body = json.dumps({"version": self._member.version, "role": self._member.role}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        change = self.path.rpartition("/")[2]
        self._member.changes.append(change)
        verb, _, version = change.partition("?version=")
        if verb == "restart":
            self._member.version, self._member.restarted = version, time.monotonic()
            self.send_response(204)
            self.end_headers()
        else:
            self._member.role = "primary" if verb == "promote" else "replica"
            self.do_GET()

    def log_message(self, format: str, *args: object) -> None:
        """Not here: the test says what was wrong."""


@contextmanager
def server() -> Iterator[Server]:
    with Server() as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        try:
            yield running
        finally:
            for member in running.members.values():
                member.hangs.clear()
            running.shutdown()


@contextmanager
def servers(count: int) -> Iterator[list[Server]]:
    with ExitStack() as stack:
        yield [stack.enter_context(server()) for _ in range(count)]
