"""`promote`: what one stack runs becomes what another is to run, by digest and without a build.

Reads the one's outputs and edits the other's settings file; neither a cluster nor a registry is asked.
"""

from __future__ import annotations

import json

from infra import paths, processes
from infra.cli import machine as looking
from infra.cli import stack as stacks
from infra.cli.arguments import Command
from infra.errors import KindlingError
from infra.progress import Progress
from infra.toolchain import Toolchain, venv


def run(command: Command) -> int:
    """Write SOURCE's digests into TARGET's settings file."""
    source, target = command.source, command.stack
    for name in (source, target):
        looking.known(name)
    if source == target:
        raise KindlingError(f"stack `{source}` can not be promoted to itself", remedy="name two stacks.")
    progress = Progress()
    toolchain = Toolchain(progress=progress)
    if stacks.recorded(source, toolchain=toolchain) is None:
        raise KindlingError(
            f"stack `{source}` has nothing to promote",
            why="it was never brought up here, or was destroyed",
            remedy=f"python3 -m infra up {source}",
        )
    python = venv.ensure(progress=progress)
    images = stacks.Stack(source, toolchain=toolchain).output("images")
    answer = json.loads(
        processes.run(
            [python, "-m", "infra.promotion", source, target],
            timeout=60,
            cwd=paths.REPOSITORY,
            stdin=json.dumps(images),
        )
    )
    if "error" in answer:
        error = answer["error"]
        raise KindlingError(error["what"], why=error["why"], remedy=error["remedy"])
    print(answer["told"])
    print(f"Next: commit Pulumi.{target}.yaml, python3 -m infra preview {target}")
    return 0
