"""Ports for what a test starts, and the wait until it listens there.

Below the kernel's ephemeral range: a port from that range may become some client's own between the moment it
was found free and the moment the server binds it. Each worker of a run has ports of its own, and gives none
again soon, for the same reason.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import socket
import subprocess
import time
from collections import deque

RANGE = range(20_000, 30_000)
"""Neither ephemeral (from 32,768 on) nor a NodePort (from 30,000 on)."""
_given: deque[int] = deque(maxlen=1000)


def free_port(address: str = "127.0.0.1") -> int:
    """A port of this address, and of all addresses, that nobody listens at. OSError where there is none."""
    return free_ports(1, address)[0]


def free_ports(count: int, address: str = "127.0.0.1") -> list[int]:
    """So many of them, each another."""
    own = _own()
    candidates = (
        port for port in random.sample(own, len(own)) if port not in _given and _is_free(address, port)
    )
    found = list(itertools.islice(candidates, count))
    if len(found) < count:
        raise OSError(f"{count} ports from {own.start} to {own.stop - 1} are not free at {address}")
    _given.extend(found)
    return found


def _own() -> range:
    """This worker's part of them."""
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    width = len(RANGE) // max(4, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))
    return RANGE[number * width : (number + 1) * width]


def wait_listening(port: int, process: subprocess.Popen[bytes], *, seconds: float = 30.0) -> None:
    """Until somebody listens at that port of 127.0.0.1; AssertionError where the process ends before."""
    deadline = time.monotonic() + seconds
    while True:
        with contextlib.suppress(ConnectionError):
            socket.create_connection(("127.0.0.1", port), 5).close()
            return
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _is_free(address: str, port: int) -> bool:
    try:
        for each in (address, "0.0.0.0"):
            with socket.socket() as probe:
                probe.bind((each, port))
    except OSError:
        return False
    return True
