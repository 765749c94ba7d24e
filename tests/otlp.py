"""A collector of traces: it takes OTLP over HTTP, in the official types of the protocol."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

CONTENT = "application/x-protobuf"


@dataclass(frozen=True, kw_only=True)
class Received:
    """A span with its attributes as Python has them."""

    span: Span
    resource: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.span.name)

    @property
    def trace(self) -> str:
        return str(self.span.trace_id.hex())

    @property
    def attributes(self) -> dict[str, Any]:
        return {item.key: _value(item.value) for item in self.span.attributes}

    @property
    def failed(self) -> bool:
        return bool(self.span.status.code == 2)


@dataclass
class Collector:
    """`answer` is the status of its answers; it keeps a request for as long as `hangs` is set."""

    port: int
    answer: int = 200
    hangs: threading.Event = field(default_factory=threading.Event)
    held: threading.Event = field(default_factory=threading.Event)
    """Set with the first request that is kept."""
    requests: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    """Headers and body of each."""

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def spans(self) -> list[Received]:
        """All that it took in."""
        found = []
        for _, body in list(self.requests):
            for each in ExportTraceServiceRequest.FromString(body).resource_spans:
                resource = {item.key: _value(item.value) for item in each.resource.attributes}
                for scope in each.scope_spans:
                    found += [Received(span=span, resource=resource) for span in scope.spans]
        return found

    def trace(self, root: Callable[[Received], bool], *, seconds: float) -> list[Received]:
        """The spans of the first trace whose root is such a one, the root first; AssertionError where none
        comes.
        """
        deadline = time.monotonic() + seconds
        while True:
            spans = self.spans()
            if found := [span for span in spans if not span.span.parent_span_id and root(span)]:
                first = found[0]
                return [first, *(each for each in spans if each.trace == first.trace and each != first)]
            assert time.monotonic() < deadline, f"no such trace among {sorted({each.name for each in spans})}"
            time.sleep(0.05)


@contextmanager
def collector() -> Iterator[Collector]:
    """Listens at a port of its own until leaving."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            while running.hangs.is_set() and not over.is_set():
                running.held.set()
                over.wait(0.05)
            if self.path != "/v1/traces" or self.headers["Content-Type"] != CONTENT:
                self.send_error(400)
                return
            if running.answer == 200:
                running.requests.append((dict(self.headers), body))
            answer = ExportTraceServiceResponse().SerializeToString()
            try:
                self.send_response(running.answer)
                self.send_header("Content-Type", CONTENT)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)
            except OSError:
                pass  # the client has gone

        def log_message(self, format: str, *args: Any) -> None:
            pass

    over = threading.Event()
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        running = Collector(server.server_address[1])
        thread = threading.Thread(target=server.serve_forever, name="collector")
        thread.start()
        try:
            yield running
        finally:
            over.set()
            server.shutdown()
            thread.join()


def tree(spans: Sequence[Received]) -> str:
    """A trace as text: a line for each span below its parent, with what it is of, when it began, how long it
    took, and the status of an answer or the sort of a failure.
    """
    began = min(each.span.start_time_unix_nano for each in spans)
    lines = []

    def add(parent: bytes, depth: int) -> None:
        for each in sorted(spans, key=lambda each: int(each.span.start_time_unix_nano)):
            if each.span.parent_span_id != parent:
                continue
            start, end = each.span.start_time_unix_nano, each.span.end_time_unix_nano
            said = each.attributes
            name = said.get("kindling.object.name") or said.get("kindling.queue.cause", "")
            outcome = said.get("http.response.status_code") or said.get("error.type", "")
            label = f"{'  ' * depth}{each.name}"
            times = f"{(start - began) / 1e6:6.1f} {(end - start) / 1e6:6.1f}"
            lines.append(f"{label:46} {name:18} {times}  {outcome}")
            add(each.span.span_id, depth + 1)

    add(b"", 0)
    return "\n".join(line.rstrip() for line in lines)


def _value(value: AnyValue) -> Any:
    return getattr(value, str(value.WhichOneof("value")))
