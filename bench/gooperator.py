"""The Go operator as a program on this machine, compiled from `bench/go/memcached`.

Not among the toolchain's tools, since nothing that we ship ever needs it; built as they are, once, into
the same cache, under a key of its sources.
"""

from __future__ import annotations

import re
from pathlib import Path

from infra.bootstrap.toolchain import build
from infra.bootstrap.toolchain.golang import Go
from infra.bootstrap.toolchain.tools import Tool
from infra.progress import Progress

FOLDER = Path(__file__).parent / "go" / "memcached"
TOOL = Tool(name="memcached-operator", version="1", folder=str(FOLDER), package=".", seconds=150)


def program(progress: Progress) -> Path:
    """The executable, compiled first where it is missing.

    Raises `KindlingError` when it cannot be.
    """
    found = build.location(TOOL)
    if found.exists():
        return found
    with progress.step("Build the Go operator") as detail:
        return build.build(TOOL, Go.ensure(), on_line=detail)


def versions() -> str:
    """What it is made with, from its go.mod."""
    found = re.search(r"sigs\.k8s\.io/(controller-runtime) (v\S+)", (FOLDER / "go.mod").read_text())
    assert found is not None
    return " ".join(found.groups())
