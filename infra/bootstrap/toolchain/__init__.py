"""Finding the tools: on PATH when recent enough, else in the cache, else built from pinned modules.

Apart from the drivers because a tool's origin is nobody's business but this package's: everyone else
asks for a name and gets a path.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from infra import cache, installed_tools, locks, paths, processes
from infra.bootstrap import virtualenv
from infra.bootstrap.toolchain import build as building
from infra.bootstrap.toolchain import golang
from infra.bootstrap.toolchain.golang import Go
from infra.bootstrap.toolchain.tools import PULUMI_KUBERNETES, TOOLS, Tool
from infra.errors import KindlingError
from infra.progress import Progress, Step

__all__ = ["TOOLS", "ToolState", "Toolchain", "sdk_version"]


@dataclass(frozen=True)
class ToolState:
    """What is known of a tool: `plan` as text, `seconds` what that would take (0 when it is there)."""

    name: str
    version: str
    source: Literal["path", "cache", "missing"]
    path: Path | None
    plan: str
    seconds: float


class Toolchain:
    """The tools of this machine. Cheap to make; looks only when asked."""

    def __init__(self, *, progress: Progress | None = None) -> None:
        self._progress = progress or Progress()
        self._go: Go | None = None
        self._finding_go = threading.Lock()
        self._stopping = False

    def survey(self, names: Sequence[str]) -> list[ToolState]:
        """Look without touching anything."""
        return [self._state(TOOLS[name]) for name in names]

    def build_key(self, name: str) -> str:
        """What a build of the tool is called: another version, module or flag is another name."""
        return building.location(_known(name)).parent.name

    def ensure(self, name: str) -> Path:
        """The executable, built first where it is missing.

        Raises `KindlingError` when it cannot be built.
        """
        state = self._state(_known(name))
        if state.path is not None:
            return state.path
        tool = TOOLS[name]
        with self._progress.step(step_name(tool)) as detail:
            with self._finding_go:
                if self._go is None:
                    detail("looking for Go")
                    self._go = Go.ensure()
            try:
                return building.build(tool, self._go, on_line=detail)
            except KindlingError:
                if self._stopping:
                    raise KeyboardInterrupt from None
                raise

    def ensure_all(self, names: Sequence[str]) -> dict[str, Path]:
        """The executables by name; what is missing is built, the longest first, two at once where there is
        memory for it.

        Raises as `ensure`; the other builds end then, and so they do on Ctrl-C.
        """
        missing = sorted((s for s in self.survey(names) if s.path is None), key=lambda s: -s.seconds)
        with ThreadPoolExecutor(golang.at_once()) as pool:
            builds = [pool.submit(self.ensure, state.name) for state in missing]
            try:
                for build in as_completed(builds):
                    build.result()
            except BaseException:
                self._stopping = True
                pool.shutdown(wait=False, cancel_futures=True)
                # A build may be between two programs, so one request is not enough.
                while wait(builds, timeout=0.2).not_done:
                    processes.terminate_all()
                raise
        return {name: self.ensure(name) for name in names}

    def plan(self, names: Sequence[str]) -> list[Step]:
        """The steps that `ensure` would take for these names."""
        return [Step(step_name(TOOLS[s.name]), s.seconds) for s in self.survey(names) if s.path is None]

    def path(self, names: Sequence[str]) -> str:
        """Directories of the named tools, joined for the front of PATH; builds what is missing."""
        return os.pathsep.join(dict.fromkeys(str(path.parent) for path in self.ensure_all(names).values()))

    def builds_provider(self) -> bool:
        """Whether the Kubernetes provider is built: with a Pulumi of our own building, unless the one that
        the SDK asks for is installed. An ordinary Pulumi fetches it.
        """
        if self._state(TOOLS["pulumi"]).source == "path":
            return False
        return not (_users_home() / "plugins" / f"resource-kubernetes-v{sdk_version()}").exists()

    def provider_version(self) -> str:
        """The version of the Kubernetes provider that the program is to ask for."""
        return PULUMI_KUBERNETES if self.builds_provider() else sdk_version()

    def pulumi_home(self) -> Path:
        """A PULUMI_HOME in which the Kubernetes provider is, or is put by Pulumi itself: the user's, or where
        it is built, a folder in the cache.
        """
        if not self.builds_provider():
            return _users_home()
        plugin = building.location(TOOLS["pulumi-resource-kubernetes"])
        # Named by the plugin's key: another build of the same version is another home.
        home = paths.cache_dir() / "pulumi-home" / f"{plugin.parent.name}-unlogged"
        installed = home / "plugins" / f"resource-kubernetes-v{PULUMI_KUBERNETES}" / plugin.name
        if not installed.exists():
            self.ensure("pulumi-resource-kubernetes")
            with locks.exclusive(locks.lock_path(home)):
                home.mkdir(parents=True, exist_ok=True)
                # Pulumi writes all that it does to `logs`, compressed, and has no switch for that: it took
                # half of its processor time. Where `logs` is no folder, it goes on without. Delete the file
                # to have the logs.
                (home / "logs").touch()
                _install(plugin, installed)
        return home

    def _state(self, tool: Tool) -> ToolState:
        if (found := installed_tools.find(tool.name)) is not None:
            return ToolState(tool.name, found.version, "path", found.path, "use it as it is", 0.0)
        built = building.location(tool)
        if built.exists():
            cache.used(built.parent)
            return ToolState(tool.name, tool.version, "cache", built, "use it as it is", 0.0)
        return ToolState(
            tool.name, tool.version, "missing", None, "build from its pinned Go module", tool.seconds
        )


def sdk_version() -> str:
    """The locked version of the Kubernetes SDK, which asks for the provider of the same."""
    lock = (paths.REPOSITORY / virtualenv.REQUIREMENTS).read_text(encoding="utf-8")
    found = re.search(r"^pulumi-kubernetes==(\S+)", lock, re.MULTILINE)
    assert found is not None
    return found[1]


def _users_home() -> Path:
    return Path(os.environ.get("PULUMI_HOME") or Path.home() / ".pulumi")


def _install(plugin: Path, installed: Path) -> None:
    """What `pulumi plugin install --file` does, without a program start: the engine looks for this path."""
    if installed.exists():  # by another command meanwhile
        return
    partial = installed.parent.with_name(installed.parent.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    os.link(plugin, partial / plugin.name)
    os.rename(partial, installed.parent)


def step_name(tool: Tool) -> str:
    """The name under which `ensure` reports a build."""
    return f"Build {tool.name} {tool.version}"


def _known(name: str) -> Tool:
    try:
        return TOOLS[name]
    except KeyError:
        raise KindlingError(
            f"no tool is called `{name}`", remedy=f"one of: {', '.join(sorted(TOOLS))}"
        ) from None
