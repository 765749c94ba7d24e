"""`promote`: the release that one stack was proven with becomes what another is to run, without a build.

Reads the one's outputs, or Git's history, and writes the other's release; neither a cluster nor a registry is
asked.
"""

from __future__ import annotations

import os
from pathlib import Path

from infra import paths, project, promotion
from infra import release as releases
from infra.bootstrap import Toolchain
from infra.cli import pull_request
from infra.cli.arguments import Command
from infra.cli.stacks import credentials, pulumi_stack
from infra.errors import KindlingError
from infra.progress import Progress
from infra.release import Release
from infra.settings import stack_files


def run(command: Command) -> int:
    """Write SOURCE's release into TARGET's file, here or on a branch with a pull request."""
    source, target = command.source, command.stack
    for name in (source, target):
        project.require_stack(name)
    if source == target:
        raise KindlingError(f"stack `{source}` cannot be promoted to itself", remedy="name two stacks.")
    if stack_files.builds_images(target):
        raise KindlingError(
            f"stack `{target}` does not run promoted images",
            why="its kindling:imageSource is not `promoted`",
            remedy=f"set that in Pulumi.{target}.yaml, or promote to another stack.",
        )
    if not command.pull_request:
        _promote(command, paths.REPOSITORY)
        return 0
    # What is missing is said before anything is made.
    forge = pull_request.forge()
    with pull_request.branch_off(forge) as (root, base):
        change = _promote(command, root)
        if change is not None:
            before, after = change
            pull_request.propose(
                forge,
                root,
                base=base,
                target=target,
                before=before,
                after=after,
                file=releases.path(target, root),
            )
    return 0


def _promote(command: Command, root: Path) -> tuple[Release | None, Release] | None:
    """Write the release into the checkout at `root`; returns what was and is there, None for no change."""
    source, target = command.source, command.stack
    before = releases.read(target, root)
    after = (
        promotion.earlier(target, command.release, source=source, root=root)
        if command.release
        else proven(source)
    )
    if before == after:
        print(
            f"Stack {target} has the release of stack {source} already "
            f"(commit {releases.short(after.commit)}); nothing was written."
        )
        return None
    file = releases.path(target, root)
    file.parent.mkdir(exist_ok=True)
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    partial.write_text(releases.written(after), encoding="utf-8")
    os.replace(partial, file)
    print("\n".join(promotion.summary(target, before, after)))
    if not command.pull_request:
        print(f"Next: commit {releases.FOLDER}/{file.name}")
    if before is not None:
        print(f"The way back: {promotion.back(target, before)}")
    return before, after


def proven(source: str) -> Release:
    """What the stack's last `up` deployed; raises `KindlingError` where none did, or it did not succeed."""
    credentials.check(source)
    toolchain = Toolchain(progress=Progress())
    state = pulumi_stack.state_of(source, toolchain=toolchain)
    if state is None:
        raise KindlingError(
            f"stack `{source}` has nothing to promote",
            why="it was never brought up here, or was destroyed",
            remedy=f"python3 -m infra up {source}",
        )
    target = pulumi_stack.Stack(source, toolchain=toolchain)
    if state.unfinished or target.last_update() != "succeeded":
        raise KindlingError(
            f"the last `up` of stack `{source}` did not succeed",
            why="what it runs is half of a release, and nothing was proven with it",
            remedy=f"python3 -m infra up {source}, then promote.",
        )
    return releases.of_outputs(target.outputs(), source=source)
