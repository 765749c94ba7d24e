"""The Go programs of operator/images/exporters, compiled for this machine, each run on a port of its own."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from infra.bootstrap.toolchain import build
from infra.bootstrap.toolchain.golang import Go
from infra.bootstrap.toolchain.tools import Tool

IMAGE = Path(__file__).parents[3] / "operator" / "images" / "exporters"


def compiled(name: str) -> Path:
    """The executable, kept in the cache by a key of its sources."""
    tool = Tool(name=name, version="1", folder=str(IMAGE / name), package=".", seconds=15)
    found = build.location(tool)
    return found if found.exists() else build.build(tool, Go.ensure())


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    return port


@contextmanager
def serving(name: str, words: Sequence[str], *, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Once it listens on that port; stopped afterwards as a container is."""
    with subprocess.Popen([compiled(name), *words]) as process:
        try:
            deadline = time.monotonic() + 30
            while True:
                with contextlib.suppress(ConnectionError):
                    socket.create_connection(("127.0.0.1", port), 5).close()
                    break
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.02)
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=10)
