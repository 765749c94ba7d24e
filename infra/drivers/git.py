"""Git as far as a release needs it: which commit this is, what differs from it, what a file was before.

A thin layer: each function is one call or two, and an error has Git's own message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from infra import processes

SECONDS = 120.0
# Asking writes nothing, not even what Git remembers of files' times; and nobody is asked for a password.
_QUIET = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}


def run(*args: str | Path, folder: Path, extra: Mapping[str, str] | None = None) -> str:
    """What Git prints, without the last line's end; raises `ProgramError` with Git's own message."""
    env = {**_QUIET, **(extra or {})}
    return processes.run(["git", *args], timeout=SECONDS, cwd=folder, env=env).rstrip("\n")


def commit(folder: Path) -> str:
    """The commit that is checked out, in full; empty where there is no repository, or no Git."""
    try:
        return run("rev-parse", "--verify", "HEAD^{commit}", folder=folder)
    except processes.ProgramError:
        return ""


def changed(folder: Path, parts: Sequence[str]) -> list[str]:
    """The files below `parts` that are not as in the commit; new and ignored ones too."""
    output = run(
        "status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=all", "--ignored=matching",
        "--", *parts, folder=folder,
    )  # fmt: skip
    return [entry[3:] for entry in output.split("\0") if entry]


def resolve(revision: str, *, folder: Path) -> str:
    """The commit that a name or the beginning of an id names; empty where there is none."""
    try:
        return run("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}", folder=folder)
    except processes.ProgramError:
        return ""


def versions(file: str, *, folder: Path) -> list[str]:
    """What a file of the repository was in each commit that changed it, the newest first."""
    # A shallow clone has what it has.
    commits = run("log", "--format=%H", "--diff-filter=AM", "HEAD", "--", file, folder=folder).split()
    return [run("show", f"{each}:./{file}", folder=folder) for each in commits]
