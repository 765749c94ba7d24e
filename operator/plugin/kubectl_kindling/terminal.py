"""A program that asks for a password, and is given it: on a terminal of its own, or by pipes.

psql asks on its terminal, without an echo; where it has none, it reads the password as the first line of
standard input. The prompt is taken out of the output. Nothing is sent before psql asks on a terminal, and
then once, and only if the prompt is the first that comes, but for log lines of kubectl's own.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import IO

from kubectl_kindling import kubectl
from kubectl_kindling.errors import PluginError

PROMPT = re.compile(rb"\APassword(?: for user [^\r\n:]*)?: ")
# Where a stream begins before kubectl expects it, kubectl says so on its standard error, and goes on.
LOG_LINE = re.compile(rb"\A[IWEF]\d{4} [^\n]*\n")
LOG_START = b"E0000 "
AMOUNT = 65536
LONGEST_PROMPT = 512


class Prompt:
    """Takes the prompt, with the end of its line, from the beginning of a stream; `asked` once it came."""

    def __init__(self) -> None:
        self.asked = False
        self._held = b""
        self._over = False

    def without(self, data: bytes) -> bytes:
        """What of this is to be printed; the beginning is held while it may be the prompt's."""
        if self._over:
            return data
        self._held += data
        printed = b""
        if not self.asked:
            while line := LOG_LINE.match(self._held):
                printed, self._held = printed + line[0], self._held[line.end() :]
            found = PROMPT.match(self._held)
            if found is None:
                return printed if self._may_come() else printed + self.rest()
            self.asked, self._held = True, self._held[found.end() :]
        if self._held in (b"", b"\r"):
            return printed
        self._held = self._held.removeprefix(b"\r\n").removeprefix(b"\n")
        return printed + self.rest()

    def rest(self) -> bytes:
        """What is held and was not printed."""
        self._over = True
        held, self._held = self._held, b""
        return held

    def _may_come(self) -> bool:
        if b"\n" in self._held or len(self._held) > LONGEST_PROMPT:
            return False
        start = b"Password"
        log = re.sub(rb"\d", b"0", re.sub(rb"\A[IWF]", b"E", self._held[: len(LOG_START)]))
        return self._held[: len(start)] == start[: len(self._held)] or LOG_START.startswith(log)


def pipe(argv: Sequence[str], password: str) -> int:
    """Run it without a terminal: the password, then this program's own standard input. Returns its status."""
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stderr is not None
    reader = threading.Thread(target=_copy_errors, args=(process.stderr,), daemon=True)
    reader.start()
    writer = threading.Thread(target=_feed, args=(process.stdin, password), daemon=True)
    writer.start()
    status = kubectl.wait(process)
    reader.join(5)
    return status


def _copy_errors(stream: IO[bytes]) -> None:
    prompt = Prompt()
    while data := os.read(stream.fileno(), AMOUNT):
        _print(prompt.without(data), sys.stderr)
    _print(prompt.rest(), sys.stderr)


def _print(data: bytes, stream: IO[str]) -> None:
    if data:
        stream.flush()
        os.write(stream.fileno(), data)


def _feed(stream: IO[bytes], password: str) -> None:
    """A program that ends without reading has its reasons; its status says them."""
    with contextlib.suppress(BrokenPipeError, OSError):
        stream.write(password.encode() + b"\n")
        stream.flush()
        if not sys.stdin.isatty():
            while data := os.read(sys.stdin.fileno(), AMOUNT):
                stream.write(data)
                stream.flush()
        stream.close()


def run(argv: Sequence[str], password: str) -> int:
    """Run it on a terminal of its own, which this one is joined to; returns its status.

    Raises `PluginError` on a system without such terminals.
    """
    try:
        import fcntl
        import pty
        import termios
        import tty
    except ImportError:
        raise PluginError(
            "this system has no terminals of the kind that psql asks on",
            why="Python has no `pty` here",
            remedy="pipe the statements: `kubectl kindling psql NAME < FILE`.",
        ) from None

    def resize(_number: int = 0, _frame: FrameType | None = None) -> None:
        with contextlib.suppress(OSError):
            size = fcntl.ioctl(sys.stdout.fileno(), termios.TIOCGWINSZ, bytes(8))
            fcntl.ioctl(master, termios.TIOCSWINSZ, size)

    @contextlib.contextmanager
    def raw() -> Iterator[None]:
        """Each key goes to the program; as it was at the end, however it ends."""
        before = termios.tcgetattr(sys.stdin)
        resized = signal.signal(signal.SIGWINCH, resize)
        try:
            tty.setraw(sys.stdin)
            yield
        finally:
            termios.tcsetattr(sys.stdin, termios.TCSAFLUSH, before)
            signal.signal(signal.SIGWINCH, resized)

    sys.stdout.flush()
    sys.stderr.flush()
    child, master = pty.fork()
    if child == 0:
        try:
            os.execv(argv[0], list(argv))  # noqa: S606
        finally:
            os._exit(127)
    try:
        resize()
        with raw():
            _join(master, password)
    finally:
        os.close(master)
        _, ended = os.waitpid(child, 0)
    status = os.waitstatus_to_exitcode(ended)
    return 128 - status if status < 0 else status


def _join(master: int, password: str) -> None:
    """Copy both ways until the program's end of it is closed."""
    import selectors

    prompt = Prompt()
    keys = sys.stdin.fileno()
    with selectors.DefaultSelector() as ready:
        ready.register(master, selectors.EVENT_READ)
        ready.register(keys, selectors.EVENT_READ)
        while True:
            for key, _ in ready.select():
                if key.fd == keys:
                    typed = os.read(keys, AMOUNT)
                    if not typed:
                        ready.unregister(keys)
                    _write_all(master, typed)
                    continue
                try:
                    data = os.read(master, AMOUNT)
                except OSError:  # How Linux says that nobody has the other end open.
                    data = b""
                if not data:
                    _write_all(sys.stdout.fileno(), prompt.rest())
                    return
                before = prompt.asked
                _write_all(sys.stdout.fileno(), prompt.without(data))
                if prompt.asked and not before:
                    _write_all(master, password.encode() + b"\n")


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
