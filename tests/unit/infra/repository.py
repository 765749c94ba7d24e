"""A small repository of Git's with what a release is made of, for the tests of releases and of promotion."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from infra import paths
from infra.paths import REPOSITORY

# Nobody's own configuration has a say: names, hooks, signing.
_ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{who}_NAME": "ada" for who in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{who}_EMAIL": "ada@example.com" for who in ("AUTHOR", "COMMITTER")},
}


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", *words],
        cwd=folder,
        env={**os.environ, **_ENVIRONMENT},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.strip()


def commit(folder: Path, message: str = "a change") -> str:
    """All that is there as a commit, whose id is returned."""
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", message)
    return git(folder, "rev-parse", "HEAD")


def new_repository(folder: Path) -> Path:
    """One commit on `main`, with the settings of this repository and a little of each part."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "--quiet", "--initial-branch", "main")
    for name in ("Pulumi.yaml", "Pulumi.prod.yaml", "Pulumi.staging.yaml", ".gitignore"):
        (folder / name).write_text((REPOSITORY / name).read_text())
    for name in ("__main__.py", "crds/one.yaml", "infra/rbac.py", "operator/src/kindling/__init__.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"# {name}\n")
    (folder / "docs").mkdir()
    (folder / "docs" / "guide.md").write_text("as it was\n")
    commit(folder)
    return folder


def work_in(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Have the program take it for its own."""
    patch.setattr(paths, "REPOSITORY", folder)
