"""How it ends by a signal: everything that it started goes first, then the exit status says why."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(KeyboardInterrupt):
    """With the signal's number."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    @property
    def status(self) -> int:
        return 128 + (signal.SIGINT if self.number == signal.SIGINT else signal.SIGTERM)


@contextmanager
def interruptible() -> Iterator[None]:
    """The first interrupt raises `Interrupted`; later ones are ignored, because it takes seconds to end what
    was started.
    """

    def interrupt(number: int, _frame: FrameType | None) -> None:
        for each in SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise Interrupted(number)

    before = {number: signal.signal(number, interrupt) for number in SIGNALS}
    try:
        # Who became this program may have held them back meanwhile.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def end_children() -> None:
    """Kill every program that this process still has: one that was being started when an interrupt came, of
    which nothing else knows.
    """
    for child in _children():
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(child, 0)


def _children() -> list[int]:
    """As the kernel lists them, for each thread."""
    found: list[int] = []
    for listed in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):
            found += map(int, listed.read_text().split())
    return found
