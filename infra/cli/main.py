"""From words to a verb, and from every way to end to an exit status.

Apart from the verbs because this is the only place that prints errors and knows exit statuses: 0 done,
1 a failure with its remedy, 2 wrong words, 3 drift, 130 and 143 stopped by Ctrl-C and by a request to end.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Sequence
from types import FrameType

from infra.cli import arguments, destroy, dev, doctor, drift, execute, operate, promote, renew, testing, up
from infra.cli.arguments import Command
from infra.errors import KindlingError

VERBS: dict[str, Callable[[Command], int]] = {
    "up": up.run,
    "preview": operate.preview,
    "drift": drift.run,
    "refresh": operate.refresh,
    "destroy": destroy.run,
    "dev": dev.run,
    "doctor": doctor.run,
    "exec": execute.run,
    "promote": promote.run,
    "renew": renew.run,
    "test": testing.run,
}


class Ended(KeyboardInterrupt):
    """Asked to end by another program or a closed terminal: put in order what Ctrl-C would."""


def main(words: Sequence[str]) -> int:
    """Run one command and return its exit status; `SystemExit` only for wrong words and `--help`."""
    command = arguments.parse(words)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    try:
        return VERBS[command.verb](command)
    except KindlingError as error:
        _complain(f"error: {error}")
        return 1
    except KeyboardInterrupt as interrupt:
        _complain(
            f"interrupted: what was finished is kept; run the same command again ({command.again}) to go on"
        )
        return 143 if isinstance(interrupt, Ended) else 130


def _end(_number: int, _frame: FrameType | None) -> None:
    raise Ended


def _complain(text: str) -> None:
    sys.stdout.flush()
    sys.stderr.write(text + "\n")
