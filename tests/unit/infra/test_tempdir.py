"""The folder for temporary files of Pulumi's programs, with real processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from infra import processes
from infra.cli.stacks.tempdir import enter, scratch, variables
from infra.drivers.engine import ContainerEngine
from tests.unit.infra.cli_machine import alive

# A command that has a program leave a file, and stays.
COMMAND = """\
import subprocess, sys
from pathlib import Path
from infra.cli.stacks.tempdir import scratch
folder = Path(sys.argv[1])
with scratch(folder) as held:
    program = subprocess.Popen(["sleep", "600"], pass_fds=[held], stdout=subprocess.DEVNULL)
    (folder / "kubeconfig1").write_text("key")
    print(program.pid, flush=True)
    sys.stdin.read()
    program.kill()
    program.wait()
"""


@contextmanager
def command(folder: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Such a command at work, and the id of its program."""
    words = [sys.executable, "-c", COMMAND, str(folder)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process, int(process.stdout.readline())


def end(pid: int) -> None:
    """Kill an orphan and wait until it is gone; it is no child of this process, so its end is polled for."""
    os.kill(pid, 9)
    while alive(pid):
        time.sleep(0.01)


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_what_programs_leave_goes_with_the_command(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "kept").mkdir(parents=True)
    folder = tmp_path / "stacks" / "dev" / "tmp"
    with scratch(folder):
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "kubeconfig1").write_text("key")
        (folder / "deep" / "er").mkdir(parents=True)
        (folder / "link").symlink_to(elsewhere)
        (folder / "broken").symlink_to(tmp_path / "nowhere")
    assert names(folder) == []
    assert names(elsewhere) == ["kept"]


def test_what_a_killed_command_left_goes_with_the_next_one(tmp_path: Path) -> None:
    with command(tmp_path) as (process, program):
        process.kill()
        process.wait(timeout=60)
        with scratch(tmp_path):
            # Its program is at work yet.
            assert names(tmp_path) == ["kubeconfig1"]
        assert names(tmp_path) == ["kubeconfig1"]
        end(program)
    with scratch(tmp_path):
        assert names(tmp_path) == []


def test_of_two_commands_at_once_the_last_one_empties_the_folder(tmp_path: Path) -> None:
    with command(tmp_path) as (other, _):
        with scratch(tmp_path):
            assert names(tmp_path) == ["kubeconfig1"]
        assert names(tmp_path) == ["kubeconfig1"]
        other.communicate(timeout=60)
    assert names(tmp_path) == []


def test_a_process_that_becomes_the_program_leaves_it_to_the_next_command(tmp_path: Path) -> None:
    descriptor = enter(tmp_path)
    (tmp_path / "kubeconfig1").write_text("key")
    with scratch(tmp_path):
        assert names(tmp_path) == ["kubeconfig1"]
    os.close(descriptor)
    with scratch(tmp_path):
        assert names(tmp_path) == []


@pytest.mark.parametrize("before", ["/var/elsewhere", None])
def test_the_container_engine_keeps_the_hosts_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str | None
) -> None:
    """Its caches of packages are there, and its layers may need more disk space than a home has."""
    monkeypatch.delenv("TMPDIR", raising=False)
    if before is not None:
        monkeypatch.setenv("TMPDIR", before)
    asks = "import os; print(os.environ.get('TMPDIR'))"
    engine = ContainerEngine("podman", Path(sys.executable))
    assert engine.run("-c", asks).strip() == str(before)
    for name, value in variables(tmp_path).items():
        monkeypatch.setenv(name, value)
    assert processes.run([sys.executable, "-c", asks], timeout=60).strip() == str(tmp_path)
    # Podman's own, named: empty would be the folder that it is started in.
    assert engine.run("-c", asks).strip() == (before or "/var/tmp")


def test_a_program_that_outlives_its_command_keeps_no_other_waiting(tmp_path: Path) -> None:
    """As Pulumi's plugins can, where Pulumi is killed and the command ends as it should."""
    leave = COMMAND.partition("    sys.stdin")[0]
    run = [sys.executable, "-c", leave, str(tmp_path)]
    programs = []
    try:
        for _ in range(2):
            done = subprocess.run(run, stdout=subprocess.PIPE, text=True, timeout=60, check=True)
            programs.append(int(done.stdout))
    finally:
        for each in programs:
            end(each)
    with scratch(tmp_path):
        assert names(tmp_path) == []
