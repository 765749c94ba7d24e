"""`doctor` on a machine that has no Python environment yet: from the standard library, touching nothing.

A stack's settings cannot be read without it, so this is what a stack with a kind cluster of its own and
a broker would take, which is the most.
"""

from __future__ import annotations

import sys

from infra import project
from infra.bootstrap import Toolchain
from infra.cli import arguments, doctor_report, exit_status, host_inventory
from infra.cli.arguments import Command
from infra.cli.setup_steps import StackProfile
from infra.progress import Progress


def doctor(command: Command) -> int:
    """Print the report; 1 with every remedy when something blocks."""
    project.require_stack(command.stack)
    target = StackProfile(command.stack)
    machine = host_inventory.inspect_host(
        target, toolchain=Toolchain(progress=Progress()), tools=target.tools
    )
    print(
        "Without the Python packages the stack's settings cannot be read yet: this is for a kind cluster of "
        "its own, with a broker.\n"
    )
    return doctor_report.show(machine, [])


if __name__ == "__main__":
    sys.exit(exit_status.run(doctor, arguments.parse(sys.argv[1:])))
