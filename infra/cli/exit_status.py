"""How a command ends: error messages, interrupts, exit statuses. The only place that prints errors.

0 done, 1 a failure with its remedy, 2 usage error, 3 drift, 130 and 143 stopped by Ctrl-C and by a request
to end. Apart from `main`, because the command's first act (`launcher`), which has the standard library alone,
ends in the same ways.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from types import FrameType

from infra.cli.arguments import Command
from infra.errors import KindlingError
from infra.processes import INTERRUPTS


class Ended(KeyboardInterrupt):
    """Asked to end by another program or a closed terminal: put in order what Ctrl-C would."""


def hold_interrupts() -> None:
    """Have interrupts wait, also for the program that this process becomes, until `run` lets them in."""
    signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTS)


def run(action: Callable[[Command], int], command: Command) -> int:
    """Carry the command out and return its exit status."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTS)
        return action(command)
    except KindlingError as error:
        _complain(f"error: {error}")
        return 1
    except KeyboardInterrupt as interrupt:
        if not isinstance(interrupt, Ended) and sys.stderr.isatty():
            sys.stderr.write("\n")  # The terminal has shown ^C where it stood.
        _complain(
            f"interrupted: what was finished is kept; run the same command again ({command.again}) to go on"
        )
        return 143 if isinstance(interrupt, Ended) else 130


def _end(_number: int, _frame: FrameType | None) -> None:
    raise Ended


def _complain(text: str) -> None:
    sys.stdout.flush()
    sys.stderr.write(text + "\n")
