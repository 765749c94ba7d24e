"""Pulumi, kind and kubectl as a machine has them: on PATH, and recent enough.

What is missing or too old is built (`infra.bootstrap`).
"""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from infra import paths, processes
from infra.errors import KindlingError


@dataclass(frozen=True)
class Accepted:
    """Which versions of a tool serve.

    `arguments` make it print its version, `pattern` finds major and minor in it; `oldest` is inclusive,
    `newest` too (None: any).
    """

    arguments: tuple[str, ...]
    pattern: str
    oldest: tuple[int, int]
    newest: tuple[int, int] | None = None

    def accepts(self, output: str) -> bool:
        found = re.search(self.pattern, output)
        if not found:
            return False
        version = (int(found[1]), int(found[2]))
        return self.oldest <= version and (self.newest is None or version <= self.newest)


ACCEPTED = {
    # 3.216 brought drift of dynamic resources as an input diff (pulumi/pulumi#21315).
    "pulumi": Accepted(("version",), r"v(\d+)\.(\d+)\.", (3, 216), (3, 10_000)),
    "kind": Accepted(("version", "--quiet"), r"(\d+)\.(\d+)\.", (0, 27)),
    # Which versions suit a cluster is for its user to judge (one minor version to either side is
    # supported, and most work). Of Kindling's own questions each is one that all of these know.
    # Vendors append text to the version: v1.34.2-eks-ab12cd3, v1.33.5-dispatcher, v1.34.1+k3s1.
    "kubectl": Accepted(("version", "--client"), r"Client Version: v(\d+)\.(\d+)", (1, 28)),
}


@dataclass(frozen=True)
class Installed:
    """An executable on PATH and the version that it prints."""

    path: Path
    version: str


def find(name: str) -> Installed | None:
    """The tool on PATH, if it is recent enough; None also for a tool that is always built.

    What a program prints as its version is remembered by its path, size and time of change: asking
    `pulumi` costs a third of a second each time.
    """
    accepted = ACCEPTED.get(name)
    if accepted is None or (program := shutil.which(name)) is None:
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
            known[key] = processes.run([program, *accepted.arguments], timeout=30).strip()
        except KindlingError:
            known[key] = ""
        memory.parent.mkdir(parents=True, exist_ok=True)
        memory.with_suffix(".partial").write_text(json.dumps(known))
        os.replace(memory.with_suffix(".partial"), memory)
    if not accepted.accepts(known[key]):
        return None
    version = re.search(r"\d+(\.\d+)+", known[key])
    return Installed(Path(program), version[0] if version else known[key])
