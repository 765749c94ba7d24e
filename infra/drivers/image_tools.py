"""Programs of the toolchain that an image is made of: built like every tool, and put into its context.

An image's folder names its program in `tool.toml`, beside its Containerfile, as others pin a file of a Maven
repository (`maven`). Such an image has no base: the programs are static.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from infra.progress import Progress

FILE = "tool.toml"


def named(folder: Path) -> str | None:
    """The program that an image's folder asks for, if any."""
    file = folder / FILE
    return str(tomllib.loads(file.read_text(encoding="utf-8"))["name"]) if file.exists() else None


def counted(folder: Path) -> list[str]:
    """What of that program enters the image's tag: its version, with its pinned modules and flags."""
    name = named(folder)
    if name is None:
        return []
    # Imported where a program is asked for: see `infra.bootstrap`.
    from infra import bootstrap

    return [bootstrap.Toolchain().build_key(name)]


def program(folder: Path, progress: Progress | None = None) -> Path | None:
    """That program in the cache, built first where it is missing; raises `KindlingError` where that fails."""
    name = named(folder)
    if name is None:
        return None
    from infra import bootstrap

    return bootstrap.Toolchain(progress=progress).ensure(name)
