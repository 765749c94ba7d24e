"""`checkout`: a folder with what a stack runs: its release's commit, and its settings as they are here.

A worktree of Git's, so that nothing of this checkout is touched, and every command works in there as here.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from infra import paths, project
from infra import release as releases
from infra.cli.arguments import Command
from infra.drivers import git
from infra.errors import KindlingError


def run(command: Command) -> int:
    """Make the folder; of a stack without a release it has this commit."""
    stack, folder = command.stack, command.folder
    assert folder is not None
    project.require_stack(stack)
    release = releases.read(stack)
    commit = release.commit if release is not None else git.commit(paths.REPOSITORY)
    if not commit:
        raise KindlingError(
            "this checkout is of no commit",
            why="a release is found again by its commit, in a Git repository",
            remedy="clone the repository, then run the same command in the clone.",
        )
    if not git.resolve(commit, folder=paths.REPOSITORY):
        raise KindlingError(
            f"this clone does not have commit {releases.short(commit)}, the release of stack `{stack}`",
            why=f"{releases.FOLDER}/{stack}.json names it",
            remedy="fetch it: git fetch --unshallow (`fetch-depth: 0` of actions/checkout).",
        )
    # A folder that was deleted by hand, or cleaned away on a runner that stays, may be made again.
    git.run("worktree", "prune", folder=paths.REPOSITORY)
    git.run("worktree", "add", "--quiet", "--detach", folder.absolute(), commit, folder=paths.REPOSITORY)
    try:
        _settings(stack, folder)
        releases.check(stack, release, root=folder)
    except BaseException:
        git.run("worktree", "remove", "--force", folder.absolute(), folder=paths.REPOSITORY)
        raise
    source = f"the release of stack {release.source}" if release is not None else "this commit"
    print(
        f"{folder}: {source} ({releases.short(commit)}), with the settings of stack {stack} as they are here."
    )
    return 0


def _settings(stack: str, folder: Path) -> None:
    for file in (paths.REPOSITORY / f"Pulumi.{stack}.yaml", releases.path(stack)):
        if file.exists():
            place = folder / file.relative_to(paths.REPOSITORY)
            place.parent.mkdir(exist_ok=True)
            shutil.copyfile(file, place)
