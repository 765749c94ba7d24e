"""The Go programs of operator/images/exporters, compiled for this machine, each run on a port of its own."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from infra.bootstrap.toolchain import build
from infra.bootstrap.toolchain.golang import Go
from infra.bootstrap.toolchain.tools import Tool
from tests.ports import wait_listening

IMAGE = Path(__file__).parents[3] / "operator" / "images" / "exporters"


def compiled(name: str) -> Path:
    """The executable, kept in the cache by a key of its sources."""
    tool = Tool(name=name, version="1", folder=str(IMAGE / name), package=".", seconds=15)
    found = build.location(tool)
    return found if found.exists() else build.build(tool, Go.ensure())


@contextmanager
def serving(name: str, words: Sequence[str], *, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Once it listens on that port; stopped afterwards as a container is."""
    with subprocess.Popen([compiled(name), *words]) as process:
        try:
            wait_listening(port, process)
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=10)
