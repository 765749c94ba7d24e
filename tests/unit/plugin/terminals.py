"""A person at a terminal: runs a program there, types once it asks, and reads what comes."""

from __future__ import annotations

import os
import pty
from collections.abc import Mapping, Sequence


def on_a_terminal(
    argv: Sequence[str], *, keys: bytes, after: bytes, environment: Mapping[str, str] | None = None
) -> tuple[bytes, int]:
    """Run it, and type the keys once the output has `after`; returns its output and its status."""
    child, master = pty.fork()
    if child == 0:
        try:
            os.execvpe(argv[0], list(argv), dict(environment or os.environ))  # noqa: S606
        finally:
            os._exit(127)
    output = b""
    try:
        while data := _read(master):
            if after in output + data and after not in output:
                os.write(master, keys)
            output += data
    finally:
        os.close(master)
        _, ended = os.waitpid(child, 0)
    return output, os.waitstatus_to_exitcode(ended)


def _read(master: int) -> bytes:
    try:
        return os.read(master, 4096)
    except OSError:  # How Linux says that nobody has the other end open.
        return b""
