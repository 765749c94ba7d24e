"""The program of operator/images/postgres-init, compiled for this machine."""

from __future__ import annotations

from pathlib import Path

from infra.bootstrap.toolchain import build
from infra.bootstrap.toolchain.golang import Go
from infra.bootstrap.toolchain.tools import Tool

FOLDER = Path(__file__).parents[3] / "operator" / "images" / "postgres-init"
TOOL = Tool(name="postgres-init", version="1", folder=str(FOLDER), package=".", seconds=15)


def program() -> Path:
    """The executable, kept in the cache by a key of its sources."""
    found = build.location(TOOL)
    return found if found.exists() else build.build(TOOL, Go.ensure())
