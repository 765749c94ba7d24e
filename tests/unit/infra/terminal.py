"""A terminal to run the real command line on, as somebody has it: what stands on its screen, and its keys."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import sys
import termios
import time
from collections.abc import Callable

import pyte

from tests.unit.infra.cli_machine import Machine

COLUMNS, LINES = 100, 40
UP, ENTER, CTRL_C = b"\x1b[A", b"\r", b"\x03"


class Terminal:
    """`python3 -m infra WORDS…` on a terminal of its own, which it can be interrupted from."""

    def __init__(self, machine: Machine, *words: str) -> None:
        self.screen = pyte.Screen(COLUMNS, LINES)
        self._stream = pyte.ByteStream(self.screen)
        self._pid, self._keyboard = pty.fork()
        if self._pid == 0:
            os.chdir(machine.checkout)
            argv = [sys.executable, "-m", "infra", *words]
            os.execve(sys.executable, argv, {**machine.environment, "TERM": "xterm-256color"})  # noqa: S606
        fcntl.ioctl(self._keyboard, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))

    @property
    def shown(self) -> list[str]:
        """The lines on the screen that are not empty."""
        return [line.rstrip() for line in self.screen.display if line.strip()]

    def press(self, keys: bytes) -> None:
        os.write(self._keyboard, keys)

    def wait(self, true: Callable[[list[str]], bool], *, seconds: float = 120) -> list[str]:
        """Until that is true of what is shown; returns it."""
        deadline = time.monotonic() + seconds
        while not true(self.shown):
            assert time.monotonic() < deadline, "\n".join(self.shown)
            assert self._reads(), "ended: " + "\n".join(self.shown)
        return self.shown

    def end(self) -> int:
        """The exit status, once all is shown."""
        while self._reads():
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])

    def _reads(self) -> bool:
        if not select.select([self._keyboard], [], [], 0.2)[0]:
            return True
        try:
            written = os.read(self._keyboard, 65536)
        except OSError:  # How Linux says that nobody has the terminal any more.
            return False
        self._stream.feed(written)
        return bool(written)
