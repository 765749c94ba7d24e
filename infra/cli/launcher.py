"""The first act of every command: make the Python environment, and become the same command in it.

So all the rest may use the packages of the lock, and what is imported here has the standard library alone.
Usage errors and `--help` end here. `doctor`, which makes nothing, becomes
`infra.cli.commands.doctor_without_packages` where there is no environment yet.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NoReturn

from infra import bootstrap
from infra.cli import arguments, exit_status
from infra.cli.arguments import Command
from infra.progress import Progress

# What tests are run with holds the packages of the ordinary environment too.
LOCKS = {"test": "requirements-dev.txt", "selftest": "requirements-dev.txt"}


def start(args: Sequence[str]) -> int:
    """Become the command; returns the exit status where it does not come to that."""
    return exit_status.run(partial(_become, args=args), arguments.parse(args))


def _become(command: Command, *, args: Sequence[str]) -> NoReturn:
    """The same process, so that the terminal, the signals and the exit status stay as they are."""
    lock = LOCKS.get(command.name, bootstrap.virtualenv.REQUIREMENTS)
    if command.name == "doctor" and not bootstrap.virtualenv.present(lock):
        python, module = Path(sys.executable), "infra.cli.commands.doctor_without_packages"
    else:
        python, module = bootstrap.virtualenv.ensure(lock, progress=Progress()), "infra.cli"
    sys.stdout.flush()
    sys.stderr.flush()
    exit_status.hold_interrupts()
    os.execv(python, [str(python), "-m", module, *args])  # noqa: S606  (no shell is the point)
