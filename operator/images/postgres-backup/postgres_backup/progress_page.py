"""How far a run is, for the operator: one JSON object on a port that its Pods alone may reach.

What is served is what the Pod's log has too, and nothing secret. A run goes on without it.
"""

from __future__ import annotations

import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from postgres_backup import programs

PORT = 8433
VARIABLE = "KINDLING_PROGRESS_PORT"
"""Another port, where several runs share a network."""
PATH = "/progress"
SECONDS = 5.0
"""For each step of a request."""


class _Handler(BaseHTTPRequestHandler):
    timeout = SECONDS

    def do_GET(self) -> None:
        if self.path != PATH:
            self.send_error(404)
            return
        body = json.dumps(programs.latest()).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """The Pod's log is the run's own."""


def serve() -> ThreadingHTTPServer | None:
    """Serve from now on, in threads that end with the process; None where the port is taken."""
    port = int(os.environ.get(VARIABLE, PORT))
    try:
        server = ThreadingHTTPServer(("", port), _Handler)
    except OSError as error:
        programs.note(f"progress is in this log alone: port {port}: {error}", secrets=())
        return None
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
