"""The passphrase: made once, for its user alone, and only where the environment names none."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from infra.cli.stacks import pulumi_stack
from infra.paths import REPOSITORY


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "state"
    monkeypatch.setenv("KINDLING_STATE", str(folder))
    return folder


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_it_is_made_for_its_user_alone_whatever_the_umask(state: Path) -> None:
    before = os.umask(0)
    try:
        path = pulumi_stack.passphrase_file()
    finally:
        os.umask(before)
    assert (mode(path), mode(state)) == (0o600, 0o700)
    assert len(path.read_text()) >= 32


def test_it_is_made_once() -> None:
    first = pulumi_stack.passphrase_file().read_text()
    assert pulumi_stack.passphrase_file().read_text() == first


def test_no_settings_file_of_the_checkout_carries_one_machines_salt() -> None:
    """With it, every other machine's passphrase would be called incorrect."""
    files = list(REPOSITORY.glob("Pulumi.*.yaml"))
    assert files
    assert [file.name for file in files if "encryptionsalt" in file.read_text()] == []


def test_nothing_else_is_left_beside_it(state: Path) -> None:
    pulumi_stack.passphrase_file()
    assert [path.name for path in state.iterdir()] == ["passphrase"]


def test_one_that_others_can_read_is_closed_and_kept(state: Path) -> None:
    state.mkdir()
    path = state / "passphrase"
    path.write_text("mine")
    path.chmod(0o644)
    assert pulumi_stack.passphrase_file().read_text() == "mine"
    assert mode(path) == 0o600


def test_runs_at_the_same_time_agree_on_one(state: Path) -> None:
    code = "from infra.cli.stacks import pulumi_stack; print(pulumi_stack.passphrase_file().read_text())"
    runs = [
        subprocess.Popen([sys.executable, "-c", code], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
        for _ in range(8)
    ]
    assert len({run.communicate(timeout=60)[0] for run in runs}) == 1
    assert [path.name for path in state.iterdir()] == ["passphrase"]
