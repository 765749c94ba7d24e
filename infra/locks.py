"""One process at a time. At the bottom, beside `processes`, since tools, images and downloads all need it.

Two commands on one fresh machine (an `up` in one terminal, the tests in another) want the same things in the
same cache: the second one waits, and finds them made.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def exclusive(path: Path, *, say: Callable[[str], None] | None = None) -> Iterator[None]:
    """Until every other process that asked for the same has left; `say` is called if one is waited for.

    `path` is an existing folder, or a file that is made and stays. Whoever dies keeps nobody out.
    """
    if not path.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if say is not None:
                say("another command is at it; waiting")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def lock_path(path: Path) -> Path:
    """The lock file of something that is made at this path."""
    return path.with_name(path.name + ".lock")
