"""A real memcached for the tests, run by the very command that our Pods run."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from kindling.kinds.memcached import workload
from kindling.kinds.memcached.spec import read
from kindling.kinds.memcached.stats import COUNTERS

from tests.unit.operator.memcacheds import memcached

USER = "nobody" if os.geteuid() == 0 else getpass.getuser()
"""memcached refuses to be root."""


@dataclass(frozen=True)
class Cache:
    """A memcached of this machine."""

    host: str
    port: int

    def talk(self, *lines: str, ends: bytes) -> bytes:
        """What it answers to these lines, which it ends so."""
        said = b""
        with socket.create_connection((self.host, self.port), 10) as connection:
            connection.sendall("".join(f"{line}\r\n" for line in lines).encode())
            while not said.endswith(ends):
                part = connection.recv(65536)
                assert part, said
                said += part
        return said

    def counters(self) -> dict[str, int]:
        lines = self.talk("stats", ends=b"END\r\n").decode().split("\r\n")
        words = [line.split() for line in lines if line.startswith("STAT ")]
        return {name: int(value) for _, name, value in words if name in COUNTERS}


@contextmanager
def running(host: str) -> Iterator[Cache]:
    """On a free port of this address, with the least memory."""
    if shutil.which("memcached") is None:
        pytest.fail("memcached is missing: `python3 -m infra test` installs it")
    with socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET) as free:
        port: int = free.getsockname()[1]
    command = workload.command(read(memcached(memoryMB=16, containerPort=port)))
    with subprocess.Popen([*command, f"--user={USER}", f"--listen={host}"]) as process:
        try:
            deadline = time.monotonic() + 30
            while True:
                with contextlib.suppress(ConnectionError):
                    socket.create_connection((host, port), 5).close()
                    break
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.02)
            yield Cache(host, port)
        finally:
            process.kill()
