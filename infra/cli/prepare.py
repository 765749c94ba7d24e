"""What a command needs before it runs Pulumi: the tools, the settings, and a state to work on."""

from __future__ import annotations

from infra import project, settings
from infra.bootstrap import Toolchain
from infra.cli import host_inventory, setup_steps
from infra.cli.setup_steps import HostReport
from infra.cli.stacks import profile, pulumi_stack
from infra.cli.stacks.file_backend import StackState
from infra.cli.stacks.pulumi_stack import Stack
from infra.errors import KindlingError
from infra.progress import Progress
from infra.settings import stack_files

PULUMI = ("pulumi",)


def ready_stack(stack: str, *, tools: tuple[str, ...] = PULUMI) -> Stack:
    """The stack with its tools in place, built first where they are missing; no cluster or engine is needed.

    Raises `KindlingError` for what blocks, and for wrong settings.
    """
    progress = Progress()
    toolchain = Toolchain(progress=progress)
    project.require_stack(stack)
    machine = host_inventory.inspect_host(
        profile.of(stack), toolchain=toolchain, tools=tools, with_cluster=False
    )
    announce(machine, progress)
    settings.read(stack)
    return Stack(stack, toolchain=toolchain, tools=tools)


def announce(machine: HostReport, progress: Progress) -> None:
    """Say what the machine lacks and how long it takes; raise the first `KindlingError` that blocks."""
    if machine.steps:
        progress.say(
            f"{setup_steps.table(machine.parts)}\n\nThis takes {setup_steps.estimate(machine.steps)}."
        )
    for blocker in machine.blockers:
        raise blocker
    progress.plan(list(machine.steps))


def complete_config(stack: str) -> None:
    """Have secrets and Pulumi ESC's values known in this process, where the stack's file does not contain
    them.

    Pulumi decrypts and merges them, and is made for that where it is missing. Only such stacks pay its start.
    """
    if not stack_files.is_complete(stack):
        toolchain = Toolchain(progress=Progress())
        stack_files.remember(stack, Stack(stack, toolchain=toolchain).config())


def existing_state(stack: str) -> StackState:
    """The stack's state; raises `KindlingError` where there is none to compare with the actual resources."""
    state = pulumi_stack.state_of(stack, toolchain=Toolchain(progress=Progress()))
    if state is None or not state.resources:
        raise KindlingError(
            f"stack `{stack}` has no state to compare",
            why="it was never brought up, or was destroyed",
            remedy=f"python3 -m infra up {stack}",
        )
    return state
