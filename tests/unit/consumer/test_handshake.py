"""The question whether we are refused, put to a listener that answers with a real broker's bytes."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from pulsar_consumer import handshake
from pulsar_consumer.handshake import Refusal, refusal
from pulsar_consumer.settings import Broker

# What Pulsar 4.0.4 sends when it refuses a token, and when it takes one.
FAILED = (
    b"\x00\x00\x00-\x00\x00\x00)\x08\x0er%\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x10\x03"
    b"\x1a\x16Failed to authenticate"
)
CONNECTED = (
    b"\x00\x00\x00+\x00\x00\x00'\x08\x03\x1a#\n\x12Pulsar Server4.0.4\x10\x13\x18\x80\x80\xc0\x02"
    b'"\x06 \x01(\x010\x01'
)
NOT_READY = FAILED.replace(b"\x10\x03", b"\x10\x06")


class Listener(socketserver.ThreadingTCPServer):
    """Keeps and answers each connection's first frame, in a thread each: a stranger takes no one's turn."""

    daemon_threads = True

    def __init__(self, answer: bytes) -> None:
        self.frames: Queue[bytes] = Queue()
        super().__init__(("127.0.0.1", 0), BrokerHandler)
        self.answer = answer

    @property
    def port(self) -> int:
        return int(self.server_address[1])


class BrokerHandler(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, Listener)
        with suppress(ConnectionError):
            if frame := self.request.recv(4096):
                self.server.frames.put(frame)
            self.request.sendall(self.server.answer)


Listen = Callable[[bytes], Listener]


@pytest.fixture
def listen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Listen]:
    """Starts a listener that gives this answer. On a machine however busy, it is waited for."""
    monkeypatch.setattr(handshake, "SECONDS", 60.0)
    with ExitStack() as stack:

        def start(answer: bytes) -> Listener:
            listener = stack.enter_context(Listener(answer))
            threading.Thread(target=listener.serve_forever, args=[0.01], daemon=True).start()
            stack.callback(listener.shutdown)
            return listener

        yield start


def broker(*listeners: Listener, **shown: Any) -> Broker:
    hosts = ",".join(f"127.0.0.1:{listener.port}" for listener in listeners)
    return Broker(server=f"pulsar://{hosts}/", **shown)


CREDENTIALS = Refusal.CREDENTIALS, ""


@pytest.mark.parametrize(
    ("answer", "said"),
    [(FAILED, CREDENTIALS), (CONNECTED, None), (NOT_READY, None), (b"", None), (b"\x08", None)],
)
def test_refused_is_what_the_broker_says(
    listen: Listen, answer: bytes, said: tuple[Refusal, str] | None
) -> None:
    assert refusal(broker(listen(answer))) == said


def test_one_host_that_refuses_is_enough(listen: Listen) -> None:
    assert refusal(broker(listen(b""), listen(FAILED))) == CREDENTIALS


@pytest.mark.parametrize("size", [1, 127, 128, 20_000])
def test_frame_is_what_it_says_it_is(listen: Listen, size: int, tmp_path: Path) -> None:
    listener, token = listen(FAILED), tmp_path / "token"
    token.write_text("t" * size)
    refusal(broker(listener, token_file=token))
    frame = listener.frames.get(timeout=60)
    if size < 4096:
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        assert int.from_bytes(frame[4:8], "big") == len(frame) - 8
        assert frame.endswith(b"t" * size)


@pytest.mark.parametrize(
    "server",
    ["pulsar://127.0.0.1:1", "pulsar://no.invalid", "pulsar://:x", "pulsar+ssl://127.0.0.1:1", "pulsar://["],
)
def test_nobody_there_is_no_refusal(server: str) -> None:
    assert refusal(Broker(server=server)) is None


def test_a_user_is_shown_as_pulsars_basic_method_has_it(listen: Listen, tmp_path: Path) -> None:
    for name, value in (("username", "ann"), ("password", "se:cret\n")):
        (tmp_path / name).write_text(value)
    listener = listen(FAILED)
    refusal(broker(listener, basic_files=tmp_path))
    frame = listener.frames.get(timeout=60)
    # Fields 5 and 3 of CommandConnect: auth_method_name, auth_data.
    assert frame.endswith(b"\x2a\x05basic\x1a\x0bann:se:cret")
