"""Servers of one connection on this machine, and what any protocol's may do to the prober."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kindling.prober.pool import QUICK_SECONDS

MARGIN_SECONDS = 4.0


@contextmanager
def serving(act: Callable[[socket.socket], None]) -> Iterator[int]:
    """The port at which the first client is given to `act`."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with contextlib.suppress(OSError):
                client, _ = listening.accept()
                with client:
                    act(client)

        threading.Thread(target=serve, daemon=True).start()
        yield listening.getsockname()[1]


def hang(client: socket.socket) -> None:
    client.recv(1)
    time.sleep(QUICK_SECONDS + MARGIN_SECONDS)


def garbage(client: socket.socket) -> None:
    client.sendall(b"\xff" * 4096)
