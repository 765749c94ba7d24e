"""The question whether we are refused, put to a listener that answers with a real broker's bytes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

import pytest
from pulsar_consumer.handshake import refused
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
heard: dict[int, bytes] = {}
NOT_READY = FAILED.replace(b"\x10\x03", b"\x10\x06")


@pytest.fixture
def listen() -> Iterator[Callable[[bytes], int]]:
    """Starts a listener that gives this answer to the first frame, which is kept in `heard`, by port."""
    servers = []

    def start(answer: bytes) -> int:
        server = socket.create_server(("127.0.0.1", 0))
        servers.append(server)

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                heard[server.getsockname()[1]] = connection.recv(4096)
                connection.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        return int(server.getsockname()[1])

    yield start
    for server in servers:
        server.close()


def broker(*ports: int) -> Broker:
    hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
    return Broker(server=f"pulsar://{hosts}/", topic="t", token_file=None)


@pytest.mark.parametrize(
    ("answer", "said"),
    [(FAILED, True), (CONNECTED, False), (NOT_READY, False), (b"", False), (b"\x08", False)],
)
def test_refused_is_what_the_broker_says(listen: Callable[[bytes], int], answer: bytes, said: bool) -> None:
    assert refused(broker(listen(answer)), token=None) is said


def test_one_host_that_refuses_is_enough(listen: Callable[[bytes], int]) -> None:
    assert refused(broker(listen(b""), listen(FAILED)), token="t")


@pytest.mark.parametrize("size", [1, 127, 128, 20_000])
def test_frame_is_what_it_says_it_is(listen: Callable[[bytes], int], size: int) -> None:
    port = listen(FAILED)
    refused(broker(port), token="t" * size)
    frame = heard[port]
    if size < 4096:
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        assert int.from_bytes(frame[4:8], "big") == len(frame) - 8
        assert frame.endswith(b"t" * size)


@pytest.mark.parametrize(
    "server",
    ["pulsar://127.0.0.1:1", "pulsar://no.invalid", "pulsar://:x", "pulsar+ssl://127.0.0.1:1", "pulsar://["],
)
def test_nobody_there_is_no_refusal(server: str) -> None:
    assert not refused(Broker(server=server, topic="t", token_file=None), token=None)
