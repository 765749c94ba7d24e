"""Finding the tools: on PATH when recent enough, else in the cache, else built from pinned modules.

Apart from the drivers because a tool's origin is nobody's business but this package's: everyone else
asks for a name and gets a path.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from infra import cache, paths, processes
from infra.errors import KindlingError
from infra.progress import Progress, Step
from infra.toolchain import build as building
from infra.toolchain.golang import Go
from infra.toolchain.tools import PULUMI_KUBERNETES, TOOLS, Tool

__all__ = ["TOOLS", "ToolState", "Toolchain"]


@dataclass(frozen=True)
class ToolState:
    """What is known of a tool: `plan` in words, `seconds` what that would take (0 when it is there)."""

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

    def survey(self, names: Sequence[str]) -> list[ToolState]:
        """Look without touching anything."""
        return [self._state(TOOLS[name]) for name in names]

    def ensure(self, name: str) -> Path:
        """The executable, built first where it is missing.

        Raises `KindlingError` when it can not be built.
        """
        state = self._state(_known(name))
        if state.path is not None:
            return state.path
        tool = TOOLS[name]
        with self._progress.step(step_name(tool)) as detail:
            if self._go is None:
                detail("looking for Go")
                self._go = Go.ensure()
            return building.build(tool, self._go, on_line=detail)

    def plan(self, names: Sequence[str]) -> list[Step]:
        """The steps that `ensure` would take for these names."""
        return [Step(step_name(TOOLS[s.name]), s.seconds) for s in self.survey(names) if s.path is None]

    def path(self, names: Sequence[str]) -> str:
        """Directories of the named tools, joined for the front of PATH; builds what is missing."""
        return os.pathsep.join(dict.fromkeys(str(self.ensure(name).parent) for name in names))

    def pulumi_home(self) -> Path:
        """A PULUMI_HOME in which the kubernetes plugin is installed.

        With a Pulumi of our own building that is a folder in the cache; a Pulumi from PATH keeps the
        user's home and fetches its plugins as ever.
        """
        if self._state(TOOLS["pulumi"]).source == "path":
            return Path(os.environ.get("PULUMI_HOME") or Path.home() / ".pulumi")
        plugin = building.location(TOOLS["pulumi-resource-kubernetes"])
        # Named by the plugin's key: another build of the same version is another home.
        home = paths.cache_dir() / "pulumi-home" / plugin.parent.name
        installed = home / "plugins" / f"resource-kubernetes-v{PULUMI_KUBERNETES}" / plugin.name
        if not installed.exists():
            self.ensure("pulumi-resource-kubernetes")
            partial = installed.parent.with_suffix(".partial")
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
            # What `pulumi plugin install --file` does, without a program start: the engine looks for
            # exactly this path.
            os.link(plugin, partial / plugin.name)
            os.rename(partial, installed.parent)
        return home

    def _state(self, tool: Tool) -> ToolState:
        if (found := _on_path(tool)) is not None:
            return ToolState(tool.name, found[1], "path", found[0], "use it as it is", 0.0)
        built = building.location(tool)
        if built.exists():
            cache.used(built.parent)
            return ToolState(tool.name, tool.version, "cache", built, "use it as it is", 0.0)
        return ToolState(
            tool.name, tool.version, "missing", None, "build from its pinned Go module", tool.seconds
        )


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


def _on_path(tool: Tool) -> tuple[Path, str] | None:
    """The executable on PATH and its version, if it is recent enough.

    What a program prints as its version is remembered by its path, size and time of change: asking
    `pulumi` costs a third of a second each time.
    """
    if tool.on_path is None or (program := shutil.which(tool.name)) is None:
        return None
    stat = os.stat(program)
    key = f"{os.path.realpath(program)} {stat.st_size} {stat.st_mtime_ns}"
    memory = paths.cache_dir() / "versions.json"
    try:
        known: dict[str, str] = json.loads(memory.read_text())
    except (OSError, ValueError):
        known = {}
    if key not in known:
        try:
            known[key] = processes.run([program, *tool.on_path.arguments], timeout=30).strip()
        except KindlingError:
            known[key] = ""
        memory.parent.mkdir(parents=True, exist_ok=True)
        memory.with_suffix(".partial").write_text(json.dumps(known))
        os.replace(memory.with_suffix(".partial"), memory)
    if not tool.on_path.accepts(known[key]):
        return None
    version = re.search(r"\d+(\.\d+)+", known[key])
    return Path(program), version[0] if version else known[key]
