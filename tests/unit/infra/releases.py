"""A release as the tests make it: a copy of this checkout as a repository of one commit, and its files."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from infra import release
from infra.distribution import files, integrations
from infra.distribution.files import Source
from infra.distribution.notes import CHANGELOG, UPGRADING
from infra.paths import REPOSITORY
from infra.release import PARTS
from tests.unit.infra.repository import commit, git

VERSION = "1.2.3-rc.1"
IMAGES: Mapping[str, str] = {
    name: f"registry.example.com/kindling/kindling-{name}@sha256:{str(number) * 64}"
    for number, name in enumerate(files.image_names())
}
_LEFT = shutil.ignore_patterns("__pycache__", ".*", "node_modules")


def checkout(folder: Path, *, version: str = "") -> Path:
    """All that a release is made of, as the one commit of a repository; a version's has its headings."""
    folder.mkdir(parents=True)
    for part in (*PARTS, CHANGELOG, UPGRADING, integrations.FOLDER, ".gitignore", "LICENSE"):
        source, target = REPOSITORY / part, folder / part
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=_LEFT)
        else:
            shutil.copy(source, target)
    for document in (CHANGELOG, UPGRADING) if version else ():
        text = (folder / document).read_text()
        (folder / document).write_text(re.sub(r"(?m)^(##+) Unreleased$", rf"\1 {version}", text))
    git(folder, "init", "--quiet", "--initial-branch", "main")
    commit(folder)
    return folder


def source(folder: Path, *, version: str = VERSION) -> Source:
    """What the command finds in that checkout."""
    seconds = int(git(folder, "show", "--no-patch", "--format=%ct"))
    head = git(folder, "rev-parse", "HEAD")
    time = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Source(version, head, time, release.contents(folder), IMAGES)


def command(folder: Path, *words: str, **extra: str) -> subprocess.CompletedProcess[str]:
    """`python3 -m infra release` in that checkout, in the environment of these tests."""
    return subprocess.run(
        [sys.executable, "-m", "infra.cli", "release", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", **extra},
        capture_output=True,
        text=True,
        timeout=300,
    )


def read(folder: Path) -> dict[str, bytes]:
    """Every file below the folder, by its path in it."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
