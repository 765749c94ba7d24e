"""A service as a handler, over real HTTP: what it gets, and what its answer means for the message."""

from __future__ import annotations

import json
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from pulsar_consumer.decoded import Decoded
from pulsar_consumer.handler import Delayed, Failed, Handled, HandlerUnavailable, Rejected
from pulsar_consumer.http_handler import HttpHandler, headers_of, verdict_of
from pulsar_consumer.settings import Http
from pulsar_consumer.unix_socket import ABANDONED_SECONDS, Socket

from tests.unit.consumer.messages import Message

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Service:
    """Answers as it should, and notes its requests."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, str], bytes]] = []
        self.connections: set[Any] = set()
        self.answer: tuple[int, dict[str, str], bytes] = (204, {}, b"")
        self.delay = 0.0
        self.hang_up = self.breaks_off = False
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                service.asked.append((self.path, dict(self.headers.items()), body))
                service.connections.add(self.client_address)
                time.sleep(service.delay)
                status, headers, content = service.answer
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                if status != 204 and not service.breaks_off:
                    self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                if status != 204:
                    self.wfile.write(content)
                if service.hang_up or service.breaks_off:
                    # Without a word: the other side finds out at its next request.
                    self.close_connection = True

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def handler(service: Service) -> Callable[[Message], object]:
    return HttpHandler(Http(url=f"{service.url}/events", timeout_seconds=1))


def test_message_is_a_cloud_event_in_binary_mode(service: Service, handler: HttpHandler) -> None:
    sent = {
        "tenant": "a b",
        "Order-Id": "ü",
        "id": "mine",
        "traceparent": "00-1-2-01",
        "content-type": "text/x",
    }
    message = Message(b"\x00hello", entry=3, index=1, key="größe 1%", sent=sent, event=1_767_225_600_123)
    assert handler(message) == Handled(None)
    [(path, headers, body)] = service.asked
    assert (path, body) == ("/events", b"\x00hello")
    found = {name.lower(): value for name, value in headers.items() if name.lower().startswith("ce-")}
    assert {name: unquote(value) for name, value in found.items() if name != "ce-pulsarproperties"} == {
        "ce-specversion": "1.0",
        "ce-id": "7:3:-1:1",
        "ce-source": "persistent://public/default/t",
        "ce-type": "dev.kindling.pulsar.message",
        "ce-time": "2026-01-01T00:00:00.123+00:00",
        "ce-subject": "größe 1%",
        "ce-tenant": "a b",
        "ce-traceparent": "00-1-2-01",
    }
    assert json.loads(unquote(found["ce-pulsarproperties"])) == {"Order-Id": "ü", "id": "mine"}
    assert headers["Content-Type"] == "text/x"
    assert headers["traceparent"] == "00-1-2-01"


@pytest.mark.parametrize(
    ("is_json", "sent"), [(True, b'{ "id": 7 }'), (False, '{"id":7,"name":"Zoë"}'.encode())]
)
def test_with_a_schema_the_body_is_json_and_the_event_says_which(
    service: Service, handler: HttpHandler, is_json: bool, sent: bytes
) -> None:
    message = Message(
        b'{ "id": 7 }', topic="persistent://a/b/t-partition-2", sent={"content-type": "avro/binary"}
    )
    value = {"id": 7, "name": "Zoë"}
    assert handler(Decoded(message, value, version=300, is_json=is_json)) == Handled(None)
    [(_, headers, body)] = service.asked
    assert body == sent
    assert headers["Content-Type"] == "application/json"
    assert headers["ce-dataschema"] == "persistent://a/b/t?schemaVersion=300"
    assert headers["ce-source"] == "persistent://a/b/t-partition-2"


def test_headers_are_printable_ascii_whatever_a_message_has() -> None:
    sent = {"a": 'x\r\nEvil: "1"', "é\n": "\x00", "content-type": "a\r\nb: c", "z" * 40: "long"}
    for name, value in headers_of(Message(key="\r\n", sent=sent)).items():
        assert f"{name}: {value}".isascii()
        assert f"{name}: {value}".isprintable()


@pytest.mark.parametrize(
    ("status", "retry_after", "verdict"),
    [
        (200, None, Handled(b"body")),
        (202, None, Handled(b"body")),
        (302, None, Failed("HTTP 302 why")),
        (400, None, Rejected("HTTP 400 why")),
        (404, "5", Rejected("HTTP 404 why")),
        (408, None, Failed("HTTP 408 why")),
        (422, None, Rejected("HTTP 422 why")),
        (429, None, Failed("HTTP 429 why")),
        (429, "5", Delayed(5.0, "HTTP 429 why")),
        (503, "0", Delayed(0.0, "HTTP 503 why")),
        (503, "Thu, 01 Jan 2026 00:00:30 GMT", Delayed(30.0, "HTTP 503 why")),
        (503, "Thu, 01 Jan 1970 00:00:30 GMT", Delayed(0.0, "HTTP 503 why")),
        (503, "9" * 400, Delayed(3600.0, "HTTP 503 why")),
        (503, "soon", Failed("HTTP 503 why")),
        (503, "-5", Failed("HTTP 503 why")),
        (503, None, Failed("HTTP 503 why")),
        (500, "5", Failed("HTTP 500 why")),
        (599, None, Failed("HTTP 599 why")),
    ],
)
def test_the_status_decides(status: int, retry_after: str | None, verdict: object) -> None:
    assert verdict_of(status, "why", retry_after=retry_after, body=b"body", now=NOW) == verdict


def test_answers_come_as_they_are_sent(service: Service, handler: HttpHandler) -> None:
    service.answer = (201, {}, b"output")
    assert handler(Message()) == Handled(b"output")
    service.answer = (503, {"Retry-After": "7"}, b"busy")
    assert handler(Message()) == Delayed(7.0, "HTTP 503 Service Unavailable")
    service.answer = (422, {}, b"what")
    assert handler(Message()) == Rejected("HTTP 422 Unprocessable Entity")
    assert len(service.connections) == 1


def test_no_answer_in_time_is_a_failure_and_the_next_call_is_not_harmed(
    service: Service, handler: HttpHandler
) -> None:
    service.delay = 1.5
    verdict = handler(Message(b"first"))
    assert isinstance(verdict, Failed)
    assert "Timeout" in verdict.error
    service.delay = 0
    assert handler(Message(b"second")) == Handled(None)
    assert [body for _, _, body in service.asked] == [b"first", b"second"]


def test_connection_that_was_closed_meanwhile_is_opened_again(service: Service, handler: HttpHandler) -> None:
    service.hang_up = True
    assert [handler(Message()) for _ in range(3)] == [Handled(None)] * 3
    assert len(service.connections) == 3


def test_service_that_goes_is_a_failure_of_each_message(service: Service, handler: HttpHandler) -> None:
    service.server.shutdown()
    service.server.server_close()
    verdict = handler(Message())
    assert isinstance(verdict, Failed)
    assert "refused" in verdict.error


def test_an_answer_that_breaks_off_is_no_output(service: Service, handler: HttpHandler) -> None:
    """The service was killed while it answered; what it did not say would be lost."""
    for said in (b"", b"out"):
        service.answer, service.breaks_off = (200, {"Content-Length": "6"}, said), True
        verdict = handler(Message())
        assert isinstance(verdict, Failed)
        assert "IncompleteRead" in verdict.error
    service.answer, service.breaks_off = (200, {}, b"output"), False
    assert handler(Message()) == Handled(b"output")


def test_service_that_nobody_hears_of_is_unavailable() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(HandlerUnavailable, match=f"nobody answers at {url}: ConnectionRefusedError"):
            HttpHandler(Http(url=f"{url}/secret-path", timeout_seconds=1), wait_seconds=0)


class Beside:
    """A program in a container of the same Pod, at a unix socket: it starts, and is killed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.asked: list[bytes] = []
        self._server: ThreadingHTTPServer | None = None

    def start(self) -> None:
        beside = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                beside.asked.append(self.rfile.read(int(self.headers["Content-Length"])))
                if beside.asked[-1] == b"poison":
                    self.connection.shutdown(socket.SHUT_RDWR)  # as one that is killed by it
                    return
                self.send_response(204)
                self.end_headers()

            def address_string(self) -> str:
                return "beside"

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        class Server(ThreadingHTTPServer):
            address_family = socket.AF_UNIX

            def server_bind(self) -> None:
                self.socket.bind(str(self.server_address))

        self._server = Server(str(self.path), Handler)  # type: ignore[arg-type]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def kill(self) -> None:
        """The file stays, as that of a killed program does."""
        assert self._server is not None
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def beside() -> Iterator[Beside]:
    # Not pytest's folder, whose name is too long for a socket's path.
    with tempfile.TemporaryDirectory(prefix="kindling-") as folder:
        made = Beside(Path(folder) / "handler.sock")
        made.start()
        yield made
        made.kill()


def by_socket(beside: Beside, **more: Any) -> HttpHandler:
    settings = Http(url="http://localhost/", beside=True, socket=beside.path, timeout_seconds=1)
    return HttpHandler(settings, **more)


def test_a_container_of_the_pod_is_asked_by_its_socket(beside: Beside) -> None:
    handler = by_socket(beside)
    assert [handler(Message(body)) for body in (b"first", b"second")] == [Handled(None)] * 2
    assert beside.asked == [b"first", b"second"]


def test_one_that_does_not_listen_yet_is_waited_for_and_then_unavailable(beside: Beside) -> None:
    beside.kill()
    beside.path.unlink()
    with pytest.raises(HandlerUnavailable, match=f"nobody answers at the socket {beside.path}: FileNotFound"):
        by_socket(beside, wait_seconds=0)
    threading.Timer(0.3, beside.start).start()
    assert by_socket(beside, wait_seconds=10)(Message()) == Handled(None)


def test_one_that_stays_away_ends_the_consumer(beside: Beside) -> None:
    """Also while no message comes."""
    handler = by_socket(beside)
    handler.check(away_seconds=1.5)
    beside.kill()
    time.sleep(4)
    with pytest.raises(HandlerUnavailable, match=f"nobody answers at the socket {beside.path} for [0-9]+ s"):
        handler.check(away_seconds=3)
    assert not beside.path.exists(), "the next program could not bind"
    beside.start()
    time.sleep(3)
    handler.check(away_seconds=2)


def test_a_restart_is_no_failure_of_the_messages_that_wait_for_it(beside: Beside) -> None:
    handler = by_socket(beside)
    beside.kill()
    began = time.monotonic()
    # A process that is just being forked has the socket too, until it is another program.
    while beside.path.exists():
        assert isinstance(handler(Message()), Delayed)
        assert time.monotonic() - began < 30, "the next program could not bind"
    assert time.monotonic() - began > ABANDONED_SECONDS, "one that is bound may listen in an instant"
    threading.Timer(1.0, beside.start).start()
    began = time.monotonic()
    assert isinstance(handler(Message()), Delayed)
    assert 0.9 < time.monotonic() - began < 4.9, "it waits for the program, and no longer"
    assert handler(Message()) == Handled(None)


def test_a_program_with_a_full_queue_of_connections_is_waited_for() -> None:
    with tempfile.TemporaryDirectory(prefix="kindling-") as folder:
        path = Path(folder) / "handler.sock"
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(path))
            listening.listen(0)
            made = Socket(path)
            with made.connect(timeout=1):
                with pytest.raises(BlockingIOError):
                    made.connect(timeout=0.2)
                threading.Timer(0.3, lambda: listening.accept()[0].close()).start()
                made.connect(timeout=5).close()
        assert path.exists(), "it was full, not abandoned"


def test_a_message_that_kills_it_is_the_messages_failure(beside: Beside) -> None:
    handler = by_socket(beside)
    verdict = handler(Message(b"poison"))
    assert isinstance(verdict, Failed), "or it would come for ever"
    assert handler(Message()) == Handled(None)


def test_one_at_a_port_of_the_pod_is_waited_for_alike(service: Service) -> None:
    handler = HttpHandler(Http(url=service.url, beside=True, timeout_seconds=1))
    service.server.shutdown()
    service.server.server_close()
    assert isinstance(handler(Message()), Delayed)
