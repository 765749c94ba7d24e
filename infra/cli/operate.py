"""`preview` and `refresh`: Pulumi's own, with the tools and the stack's settings in place.

Neither needs a cluster or an engine, so neither looks for one.
"""

from __future__ import annotations

from infra.cli import backend, survey
from infra.cli import machine as looking
from infra.cli.arguments import Command
from infra.cli.described import describe
from infra.cli.stack import Stack
from infra.errors import KindlingError
from infra.progress import Progress
from infra.toolchain import Toolchain, venv

TOOLS = ("pulumi",)


def preview(command: Command) -> int:
    """Say what `up` would change. A stack that never was up gets an empty record, as Pulumi needs one."""
    target = _ready(command.stack)
    target.prepare()
    target.heal()
    target.operate("preview")
    return 0


def refresh(command: Command) -> int:
    """Bring Pulumi's record in line with the world."""
    looking.known(command.stack)
    if backend.state(command.stack) is None:
        raise KindlingError(
            f"stack `{command.stack}` has no record to refresh",
            why="it was never brought up, or was destroyed",
            remedy=f"python3 -m infra up {command.stack}",
        )
    target = _ready(command.stack)
    target.prepare()
    target.heal()
    target.operate("refresh", "--yes", "--skip-preview")
    return 0


def _ready(stack: str) -> Stack:
    """Pulumi and its environment in place, and nothing else."""
    progress = Progress()
    toolchain = Toolchain(progress=progress)
    looking.known(stack)
    machine = looking.look(stack, toolchain=toolchain, tools=TOOLS, with_cluster=False)
    if machine.steps:
        progress.say(f"{survey.table(machine.parts)}\n\nThis takes {survey.outlook(machine.steps)}.")
    for blocker in machine.blockers:
        raise blocker
    progress.plan(list(machine.steps))
    describe(venv.ensure(progress=progress), stack)
    return Stack(stack, toolchain=toolchain)
