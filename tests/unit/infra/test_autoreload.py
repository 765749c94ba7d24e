"""A module is restarted when its source changes, ends with us, and is never left behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from infra.paths import REPOSITORY

SECONDS = 30.0
STARTER = """
import sys
from pathlib import Path
from infra.cli.dev import autoreload
autoreload.POLL_SECONDS = 0.05
source = Path(sys.argv[1])
env = {"PYTHONPATH": str(source)}
say = lambda text: print(text, flush=True)
try:
    autoreload.serve("toy", python=Path(sys.executable), source=source, env=env, say=say, restart_on=(3,))
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
RUNS = "import os, time\nprint('pid', os.getpid(), flush=True)\ntime.sleep(600)\n"


@dataclass
class Started:
    process: subprocess.Popen[bytes]
    source: Path
    _log: Path

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def pids(self) -> list[int]:
        return [int(line.split()[1]) for line in self.log.splitlines() if line.startswith("pid ")]

    def write(self, text: str) -> None:
        (self.source / "toy.py").write_text(text)

    def wait(self, until: Callable[[], object]) -> None:
        deadline = time.monotonic() + SECONDS
        while not until():
            assert time.monotonic() < deadline, self.log
            time.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Started]:
    source = tmp_path / "source"
    source.mkdir()
    (source / "toy.py").write_text(RUNS)
    with (tmp_path / "log").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", STARTER, str(source)],
            cwd=REPOSITORY,
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    running = Started(process, source, tmp_path / "log")
    try:
        running.wait(lambda: running.pids)
        yield running
    finally:
        process.kill()
        process.wait()


def test_a_change_restarts_it_and_ends_the_old_one(started: Started) -> None:
    started.write(RUNS + "# changed\n")
    started.wait(lambda: len(started.pids) == 2)
    first, second = started.pids
    assert "toy.py has changed" in started.log
    assert not alive(first)
    assert alive(second)


@pytest.mark.parametrize("name", ["new.py", "below/deep.py"])
def test_a_new_file_is_a_change_and_so_is_its_going(started: Started, name: str) -> None:
    path = started.source / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("")
    started.wait(lambda: len(started.pids) == 2)
    path.unlink()
    started.wait(lambda: len(started.pids) == 3)
    assert started.log.count(f"{name} has changed") == 2


def test_one_that_ends_waits_for_a_change(started: Started) -> None:
    started.write("raise SystemExit(1)")
    started.wait(lambda: "ended with status 1: it is started again when a file changes" in started.log)
    time.sleep(0.5)
    assert started.log.count("ended with status") == 1
    started.write(RUNS)
    started.wait(lambda: len(started.pids) == 2)


def test_one_that_lost_its_place_is_started_again_at_once(started: Started) -> None:
    started.write("raise SystemExit(3)")
    started.wait(lambda: started.log.count("ended with status 3: starting again") >= 2)


def test_an_interrupt_ends_it(started: Started) -> None:
    started.process.send_signal(2)
    assert started.process.wait(timeout=SECONDS) == 0
    assert "interrupted" in started.log
    assert not alive(started.pids[0])


def test_it_ends_with_a_starter_that_was_killed(started: Started) -> None:
    started.process.kill()
    started.wait(lambda: not alive(started.pids[0]))
