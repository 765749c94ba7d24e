"""The health check of a real PostgreSQL whose disk hangs: a file system of its own, frozen by the kernel."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kindling.prober.client import ChildProber
from kindling.prober.pool import QUICK_SECONDS

from tests.unit.operator.conftest import Files
from tests.unit.operator.test_postgres_port import login
from tests.unit.operator.test_prober import MARGIN_SECONDS, run

CAP_SYS_ADMIN = 1 << 21


def may_mount() -> bool:
    words = dict(line.split(":\t") for line in Path("/proc/self/status").read_text().splitlines())
    return os.path.exists("/dev/loop-control") and bool(int(words["CapEff"], 16) & CAP_SYS_ADMIN)


def call(*words: str | Path) -> None:
    subprocess.run(words, check=True, timeout=60)


@contextmanager
def disk(files: Files) -> Iterator[None]:
    """The Pod's volume is a disk of its own."""
    image = files.root / "disk"
    call("truncate", "--size=512M", image)
    call("mkfs.ext4", "-q", image)
    call("mount", "-o", "loop", image, files.mount)
    try:
        files.mount.chmod(0o777)
        yield
    finally:
        call("umount", "--lazy", files.mount)  # a server that was killed may take a moment to go


@contextmanager
def hung(place: Path) -> Iterator[None]:
    call("fsfreeze", "--freeze", place)
    try:
        yield
    finally:
        call("fsfreeze", "--unfreeze", place)


@pytest.mark.skipif(not may_mount(), reason="this user may mount nothing: tests/cluster/test_frozen.py does")
def test_a_hung_disk_is_found_out_and_found_well_again(files: Files) -> None:
    """The server lets in and answers; what it commits does not get there."""

    async def scenario(own: ChildProber) -> None:
        asked = login(files)
        assert (await own.run(asked)).ok
        check = asked.health_check()
        with hung(files.mount):
            began = time.monotonic()
            answer = await own.send(check)
            took = time.monotonic() - began
        assert answer is not None
        assert (answer.ok, answer.reason) == (False, "NotResponding")
        assert took < QUICK_SECONDS + MARGIN_SECONDS
        answer = await own.send(check)
        assert answer is not None
        assert answer.ok

    with disk(files), files.running():
        run(scenario)
