"""`preview` and `refresh`: Pulumi's own, with the tools and the stack's settings in place.

Neither needs a cluster or an engine, so neither looks for one.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from infra.cli import changes, page, placeholders, survey
from infra.cli import machine as looking
from infra.cli import stack as stacks
from infra.cli.arguments import Command
from infra.cli.backend import StackState
from infra.cli.described import describe
from infra.cli.stack import Stack
from infra.errors import KindlingError
from infra.progress import Progress
from infra.toolchain import Toolchain, venv

TOOLS = ("pulumi",)


def preview(command: Command) -> int:
    """Say what `up` would change; with `markdown`, also on a page that tells of a failure too.

    Nothing is written to the backend, and no lock is taken or asked for: what may only read can preview.
    """
    for file in filter(None, (command.markdown, command.save_plan)):
        _clear(file)
    if skipped := placeholders.skips(command.stack, images=False):
        if command.markdown is not None:
            command.markdown.write_text(page.skipped(skipped, stack=command.stack))
        return 0
    if command.markdown is None:
        _preview(command)
        return 0
    # The log is for our eyes alone: the engine's notes to itself in it do not spare secrets.
    with tempfile.TemporaryDirectory(prefix="kindling-preview-") as folder:
        events = Path(folder, "events.jsonl")
        try:
            _preview(command, events=events)
        except KindlingError as error:
            failures = _read(events).failures or (str(error),)
            command.markdown.write_text(page.failed("\n\n".join(failures), stack=command.stack))
            raise
        command.markdown.write_text(page.render(_read(events), stack=command.stack))
    return 0


def _preview(command: Command, *, events: Path | None = None) -> None:
    target = ready(command.stack)
    words, extra = ["preview"], {}
    if events is not None:
        # The Automation API asks in the same way.
        words.append(f"--event-log={events}")
        extra["PULUMI_DEBUG_COMMANDS"] = "true"
    if command.save_plan is not None:
        words.append(f"--save-plan={command.save_plan.absolute()}")
        # What is secret in a plan is encrypted as in the record that it is for, so there must be one.
        target.prepare()
    with target.recorded() as variables:
        target.operate(*words, extra={**extra, **variables})
    if command.save_plan is not None:
        again = f"python3 -m infra up {command.stack} --plan {command.save_plan}"
        sys.stdout.write(f"\nThis and nothing else is done by: {again}\n")


def _read(events: Path) -> changes.Preview:
    if not events.exists():
        return changes.Preview()
    with events.open(encoding="utf-8", errors="replace") as lines:
        return changes.read(lines)


def _clear(file: Path) -> None:
    """Nobody is to take what an earlier run wrote for this one's."""
    try:
        file.unlink(missing_ok=True)
        file.touch()
        file.unlink()
    except OSError as error:
        raise KindlingError(
            f"`{file}` can not be written",
            why=os.strerror(error.errno or 0),
            remedy="name a file in a directory that is there and is yours.",
        ) from None


def refresh(command: Command) -> int:
    """Bring Pulumi's record in line with the world."""
    looking.known(command.stack)
    recorded(command.stack)
    target = ready(command.stack)
    target.prepare()
    target.heal()
    target.operate("refresh", "--yes", "--skip-preview")
    return 0


def recorded(stack: str) -> StackState:
    """The stack's record; raises `KindlingError` where there is none to compare with the world."""
    state = stacks.recorded(stack, toolchain=Toolchain(progress=Progress()))
    if state is None or not state.resources:
        raise KindlingError(
            f"stack `{stack}` has no record to compare",
            why="it was never brought up, or was destroyed",
            remedy=f"python3 -m infra up {stack}",
        )
    return state


def ready(stack: str, *, tools: tuple[str, ...] = TOOLS) -> Stack:
    """Pulumi and its environment in place, and nothing else."""
    progress = Progress()
    toolchain = Toolchain(progress=progress)
    looking.known(stack)
    machine = looking.look(stack, toolchain=toolchain, tools=tools, with_cluster=False)
    if machine.steps:
        progress.say(f"{survey.table(machine.parts)}\n\nThis takes {survey.outlook(machine.steps)}.")
    for blocker in machine.blockers:
        raise blocker
    progress.plan(list(machine.steps))
    describe(venv.ensure(progress=progress), stack)
    return Stack(stack, toolchain=toolchain, tools=tools)
