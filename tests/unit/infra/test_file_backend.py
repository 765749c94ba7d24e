"""Reading Pulumi's file backend: what a stack holds, what was cut off, whose lock it is."""

from __future__ import annotations

import getpass
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.cli.stacks import file_backend
from infra.errors import KindlingError

STACK_URN = "urn:pulumi:dev::kindling::pulumi:pulumi:Stack::kindling-dev"
CLUSTER_URN = "urn:pulumi:dev::kindling::kindling:cluster:Cluster$pulumi-python:dynamic/kind:Cluster::cluster"


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KINDLING_STATE", str(tmp_path / "a state"))
    monkeypatch.delenv("PULUMI_BACKEND_URL", raising=False)
    folder = file_backend.folder()
    assert folder is not None
    return folder


def record(root: Path, latest: dict[str, Any] | None, *, name: str = "dev.json") -> Path:
    path = root / "stacks" / "kindling" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"version": 3, "checkpoint": {"stack": "x", "latest": latest}}))
    return path


def lock(root: Path, **changed: Any) -> Path:
    content = {
        "pid": os.getpid(),
        "username": getpass.getuser(),
        "hostname": socket.gethostname(),
        "timestamp": "2026-01-02T03:04:05.678Z",
        **changed,
    }
    path = root / "locks" / "organization" / "kindling" / "dev" / "0.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    # The file backend keeps one of these beside each file; it is no lock.
    path.with_name("0.json.attrs").write_text("{}")
    return path


@pytest.fixture
def gone() -> int:
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.fixture
def pulumi_at_work() -> Iterator[int]:
    """The number of a running process with Pulumi's name in its words."""
    process = subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()", "pulumi"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.readline()  # Its words stand in /proc from here on.
    yield process.pid
    process.kill()
    process.wait()


def test_the_default_backend_is_files_in_the_state_folder(root: Path, tmp_path: Path) -> None:
    assert file_backend.url() == f"file://{tmp_path}/a%20state/pulumi"
    assert root == tmp_path / "a state" / "pulumi" / ".pulumi"
    assert file_backend.is_own()


@pytest.mark.parametrize(
    ("url", "folder"),
    [
        ("file:///srv/p%20q?no_tmp_dir=true", Path("/srv/p q/.pulumi")),
        ("file://~", Path.home() / ".pulumi"),
        ("file://~/states", Path.home() / "states" / ".pulumi"),
        ("s3://bucket", None),
        ("https://api.example.com", None),
    ],
)
def test_a_backend_of_the_users_is_respected(
    url: str, folder: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PULUMI_BACKEND_URL", url)
    assert (file_backend.url(), file_backend.folder(), file_backend.is_own()) == (url, folder, False)


def test_a_stack_without_a_checkpoint_has_no_state() -> None:
    assert file_backend.state("dev") is None


def test_nothing_is_claimed_of_a_backend_that_is_not_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULUMI_BACKEND_URL", "s3://bucket")
    state = file_backend.state("dev")
    assert state is not None
    assert not state.known
    assert file_backend.locks("dev") == []


def test_nothing_is_claimed_of_a_compressed_checkpoint(root: Path) -> None:
    record(root, None, name="dev.json.gz")
    state = file_backend.state("dev")
    assert state is not None
    assert not state.known


def test_a_new_stack_is_known_and_empty(root: Path) -> None:
    record(root, None)
    assert file_backend.state("dev") == file_backend.StackState()


def test_resources_and_cut_off_creations_are_read(root: Path) -> None:
    operations = [
        {"type": "creating", "resource": {"urn": CLUSTER_URN}},
        # Pulumi's next operation settles these by itself.
        {"type": "deleting", "resource": {"urn": STACK_URN}},
    ]
    record(root, {"resources": [{"urn": STACK_URN}], "pending_operations": operations})
    assert file_backend.state("dev") == file_backend.StackState(
        resources=(STACK_URN,), unfinished=(CLUSTER_URN,)
    )


def test_a_broken_checkpoint_is_named_with_the_copy_that_fixes_it(root: Path) -> None:
    path = record(root, None)
    path.write_text("{")
    with pytest.raises(KindlingError) as caught:
        file_backend.state("dev")
    assert str(path) in caught.value.why
    assert "dev.json.bak" in caught.value.remedy


def test_without_a_lock_nothing_is_stale() -> None:
    assert file_backend.check_lock("dev") is False


def test_the_lock_of_a_killed_run_is_stale(root: Path, gone: int) -> None:
    lock(root, pid=gone)
    assert file_backend.check_lock("dev") is True


def test_a_process_number_given_to_another_program_is_stale(root: Path) -> None:
    process = subprocess.Popen(["sleep", "60"])
    try:
        lock(root, pid=process.pid)
        assert file_backend.check_lock("dev") is True
    finally:
        process.kill()
        process.wait()


def test_a_run_at_work_is_left_alone(root: Path, pulumi_at_work: int) -> None:
    lock(root, pid=pulumi_at_work)
    with pytest.raises(KindlingError) as caught:
        file_backend.check_lock("dev")
    assert f"process {pulumi_at_work}" in caught.value.why
    assert "2026-01-02T03:04:05" in caught.value.why
    assert "pulumi cancel" in caught.value.remedy


@pytest.mark.parametrize("other", [{"hostname": "elsewhere"}, {"username": "somebody"}])
def test_the_lock_of_others_is_never_ours_to_judge(root: Path, gone: int, other: dict[str, str]) -> None:
    lock(root, pid=gone, **other)
    with pytest.raises(KindlingError, match="another run"):
        file_backend.check_lock("dev")


def test_a_lock_cut_off_while_it_was_written_is_stale(root: Path) -> None:
    lock(root).write_text('{"pid":')
    assert file_backend.check_lock("dev") is True


def test_the_lock_of_another_stack_does_not_count(root: Path) -> None:
    lock(root, hostname="elsewhere")
    assert file_backend.check_lock("test") is False


def test_the_default_backend_is_empty_until_a_stack_is_in_it(root: Path) -> None:
    assert file_backend.is_empty()
    record(root, None)
    assert not file_backend.is_empty()
