"""Servers that harm whoever logs in: each speaks as much of PostgreSQL's protocol as its sort needs.

`SORTS` names them. They serve any number of clients, on a port of loopback, until the context ends.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[3]
ITERATIONS = 30_000_000
FLOOD_BYTES = 900_000_000
CHUNK = b"\0" * 1_000_000
OK, CLEARTEXT, MD5, SASL, SASL_CONTINUE, SASL_FINAL = 0, 3, 5, 10, 11, 12


class ClientClosed(Exception):
    """The client has ended."""


@dataclass
class Client:
    """One connection, after its startup message."""

    socket: socket.socket
    last_result: list[bytes]
    """All that any client has sent after its startup message."""
    password: str

    def send(self, kind: bytes, body: bytes) -> None:
        self.socket.sendall(kind + struct.pack(">I", len(body) + 4) + body)

    def authentication(self, code: int, body: bytes = b"") -> None:
        self.send(b"R", struct.pack(">I", code) + body)

    def read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            if not more:
                raise ClientClosed
            data += more
        return data

    def message(self) -> tuple[bytes, bytes]:
        head = self.read(5)
        body = self.read(struct.unpack(">I", head[1:])[0] - 4)
        self.last_result.append(body)
        return head[:1], body

    def flood(self, kind: bytes, head: bytes = b"") -> None:
        """Announce a message of FLOOD_BYTES, and send it for as long as it is taken."""
        self.socket.sendall(kind + struct.pack(">I", FLOOD_BYTES + 4) + head)
        for _ in range(FLOOD_BYTES // len(CHUNK)):
            self.socket.sendall(CHUNK)

    def scram(self, *, iterations: int = 4096) -> None:
        """The server's part of a login, which is good where the password is."""
        self.authentication(SASL, b"SCRAM-SHA-256\0\0")
        _, body = self.message()
        first = body.partition(b"\0")[2][4:].removeprefix(b"n,,")
        nonce = dict(part.split(b"=", 1) for part in first.split(b","))[b"r"] + b"server"
        salt = b"salt" * 4
        challenge = b"r=%s,s=%s,i=%d" % (nonce, base64.b64encode(salt), iterations)
        self.authentication(SASL_CONTINUE, challenge)
        _, body = self.message()
        without_proof = body.rpartition(b",p=")[0]
        salted = hashlib.pbkdf2_hmac("sha256", self.password.encode(), salt, iterations)
        key = hmac.digest(salted, b"Server Key", "sha256")
        signature = hmac.digest(key, b",".join((first, challenge, without_proof)), "sha256")
        self.authentication(SASL_FINAL, b"v=" + base64.b64encode(signature))
        self.authentication(OK)

    def welcome(self, *, version: bytes = b"17.5") -> None:
        """What follows a good login."""
        for name, value in ((b"server_version", version), (b"client_encoding", b"UTF8")):
            self.send(b"S", name + b"\0" + value + b"\0")
        self.ready()

    def ready(self) -> None:
        self.send(b"Z", b"I")

    def answer(self, value: bytes) -> None:
        """One row of one column."""
        column = b"it\0" + struct.pack(">IhIhih", 0, 0, 16, 1, -1, 0)
        self.send(b"T", struct.pack(">h", 1) + column)
        self.send(b"D", struct.pack(">hI", 1, len(value)) + value)
        self.send(b"C", b"SELECT 1\0")
        self.ready()


def hang(client: Client) -> None:
    client.read(1_000_000_000)


def cleartext(client: Client) -> None:
    client.authentication(CLEARTEXT)
    client.message()


def md5(client: Client) -> None:
    client.authentication(MD5, b"salt")
    client.message()


def trust(client: Client) -> None:
    """Lets anybody in, and so proves nothing of itself."""
    client.authentication(OK)
    client.welcome()
    client.message()


def iterations(client: Client) -> None:
    """Asks for a proof that takes its client a minute of processor time."""
    client.authentication(SASL, b"SCRAM-SHA-256\0\0")
    _, body = client.message()
    nonce = body.rpartition(b"r=")[2] + b"server"
    client.authentication(SASL_CONTINUE, b"r=%s,s=%s,i=%d" % (nonce, b"c2FsdHNhbHQ=", ITERATIONS))
    client.message()


def flood(client: Client) -> None:
    client.flood(b"R", struct.pack(">I", SASL))


def flood_of_errors(client: Client) -> None:
    client.flood(b"E")


def flood_of_notices(client: Client) -> None:
    """Each of an honest length, without an end."""
    while True:
        client.send(b"N", b"SNOTICE\0M" + b"x" * 20_000 + b"\0\0")


def flood_of_rows(client: Client) -> None:
    """A good login, whose first question is answered by a row that fits nowhere."""
    client.scram()
    client.welcome()
    client.message()
    client.send(b"T", struct.pack(">h", 1) + b"it\0" + struct.pack(">IhIhih", 0, 0, 25, -1, -1, 0))
    client.flood(b"D", struct.pack(">hI", 1, FLOOD_BYTES - 6))


def garbage(client: Client) -> None:
    client.socket.sendall(os.urandom(4096))


def odd_version(client: Client) -> None:
    """Answers every question with one word, which is right for one of them alone."""
    client.scram()
    client.welcome(version=b"\xff\xfe one.two" + b"9" * 200)
    while True:
        kind, _ = client.message()
        if kind == b"Q":
            client.answer(b"t")


SORTS: dict[str, Callable[[Client], None]] = {
    sort.__name__: sort
    for sort in (
        hang, cleartext, md5, trust, iterations, flood, flood_of_errors, flood_of_notices, flood_of_rows,
        garbage, odd_version,
    )
}  # fmt: skip


@dataclass
class Hostile:
    """A running server; `last_result` is what its clients sent after their startup messages."""

    port: int
    last_result: list[bytes] = field(default_factory=list)
    sockets: list[socket.socket] = field(default_factory=list)
    """Of all clients that came."""


@contextmanager
def hostile(sort: str, *, password: str = "lovelace-1815") -> Iterator[Hostile]:
    """`password` is what the server knows its clients to have, where it lets them in."""
    act = SORTS[sort]
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listening:
        running = Hostile(listening.getsockname()[1])

        def serve(taken: socket.socket) -> None:
            # Whatever the client does to the connection is its good right.
            with taken, contextlib.suppress(OSError, ClientClosed, struct.error, LookupError, ValueError):
                client = Client(taken, running.last_result, password)
                client.read(struct.unpack(">I", client.read(4))[0] - 4)
                act(client)

        def listen() -> None:
            with contextlib.suppress(OSError):
                while True:
                    taken, _ = listening.accept()
                    running.sockets.append(taken)
                    threading.Thread(target=serve, args=(taken,), daemon=True).start()

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        try:
            yield running
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            for taken in running.sockets:
                with contextlib.suppress(OSError):
                    taken.shutdown(socket.SHUT_RDWR)
            thread.join()


@contextmanager
def all_sorts() -> Iterator[dict[str, int]]:
    """One server of each sort, in a process of their own; gives their ports."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.unit.operator.hostile"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())
    finally:
        process.stdin.close()
        process.wait(timeout=30)


def _step_back() -> None:
    """Servers are on other nodes: what they compute must not be at the cost of whoever is measured."""
    os.setsid()
    os.nice(19)
    with contextlib.suppress(
        OSError
    ):  # Where the kernel shares out by sessions, nice does nothing between two.
        Path("/proc/self/autogroup").write_text("19")


if __name__ == "__main__":
    _step_back()
    with contextlib.ExitStack() as stack:
        print(json.dumps({sort: stack.enter_context(hostile(sort)).port for sort in SORTS}), flush=True)
        sys.stdin.read()
