"""A repository of this checkout's files as GitHub would have it, and what actions/checkout makes of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from infra import processes
from infra.paths import REPOSITORY

WHO = {"NAME": "maintainer", "EMAIL": "maintainer@example.com"}


class Origin:
    """A bare repository; `before` is a commit of a README alone, `first` has this checkout's files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._index = folder.with_suffix(".index")
        _git("init", "--quiet", "--bare", "--initial-branch=main", folder)
        # GitHub lets any commit be asked for.
        _git("config", "uploadpack.allowAnySHA1InWant", "true", at=folder)
        before = self._call("hash-object", "-w", "--stdin", stdin="# Nothing yet\n")
        self._call("update-index", "--add", "--cacheinfo", f"100644,{before},README.md")
        self.before = self._commit(None)
        self._call("add", "--all", GIT_WORK_TREE=str(REPOSITORY))
        self.first = self._commit(self.before)

    def commit(self, parent: str, changed: Mapping[str, str]) -> str:
        """A commit that has these files, by their paths, with this text; main is where it was."""
        self._call("read-tree", parent)
        for path, text in changed.items():
            blob = self._call("hash-object", "-w", "--stdin", stdin=text)
            self._call("update-index", "--add", "--cacheinfo", f"100644,{blob},{path}")
        return self._commit(parent)

    def text(self, commit: str, path: str) -> str:
        return _git("show", f"{commit}:{path}", at=self.folder)

    def _commit(self, parent: str | None) -> str:
        words = ["-p", parent] if parent else []
        return self._call("commit-tree", self._call("write-tree"), *words, "-m", "A change")

    def _call(self, *words: str, stdin: str | None = None, **variables: str) -> str:
        env = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in WHO.items()}
        env |= {"GIT_DIR": str(self.folder), "GIT_INDEX_FILE": str(self._index), **variables}
        cwd = Path(variables.get("GIT_WORK_TREE", self.folder))
        return processes.run(["git", *words], env=env, cwd=cwd, stdin=stdin, timeout=120).strip()


def check_out(origin: Path, commit: str, workspace: Path, *, depth: int, owner: int) -> None:
    """The commit and `depth` - 1 before it, 0 for all, in a workspace that belongs to `owner`."""
    workspace.mkdir(parents=True, exist_ok=True)
    # git works in nobody else's folder.
    os.chown(workspace, os.geteuid(), os.getegid())
    _git("init", "--quiet", "--initial-branch=main", workspace)
    words = [f"--depth={depth}"] if depth else []
    _git("fetch", "--quiet", "--no-tags", *words, f"file://{origin}", commit, at=workspace)
    _git("checkout", "--quiet", "--force", "--detach", "FETCH_HEAD", at=workspace)
    for place, folders, files in os.walk(workspace):
        for name in (".", *folders, *files):
            os.chown(Path(place, name), owner, owner, follow_symlinks=False)


def _git(*words: str | Path, at: Path | None = None) -> str:
    place: list[str | Path] = ["-C", at] if at else []
    return processes.run(["git", *place, *words], timeout=120)
