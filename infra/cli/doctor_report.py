"""What `doctor` prints of a host report, and its exit status."""

from __future__ import annotations

from collections.abc import Sequence

from infra.cli import host_inventory, setup_steps
from infra.cli.setup_steps import HostReport
from infra.cli.stacks import file_backend
from infra.errors import KindlingError


def show(machine: HostReport, more: Sequence[KindlingError]) -> int:
    """Print the table, then what blocks (`more` beside the report's own) or how long `up` would take."""
    stack = machine.stack
    print(f"Stack {stack}:\n{setup_steps.table([*machine.parts, *host_inventory.disk(machine)])}\n")
    blockers = [*machine.blockers, *more, *_lock(stack)]
    for blocker in blockers:
        print(f"blocked: {blocker}\n")
    if blockers:
        return 1
    if len(machine.steps) == 1 and machine.steps[0] == host_inventory.CHECK:
        print("Nothing is missing.")
    else:
        estimate = setup_steps.estimate(machine.steps)
        print(f"Nothing is in the way. `python3 -m infra up {stack}` would take {estimate}.")
    return 0


def _lock(stack: str) -> list[KindlingError]:
    try:
        file_backend.check_lock(stack)
    except KindlingError as error:
        return [error]
    return []
