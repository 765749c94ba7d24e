"""Temporary files of Pulumi's programs, in a folder of the stack's own that is emptied behind them.

The Kubernetes provider writes the kubeconfig it is given, with the client's key in clear, into a temporary
file and leaves it (for Helm's sake: `writeKubeconfigToFile`, provider/pkg/provider/util.go). So Pulumi is not
given the host's folder for such files but one that nobody else can read, and whoever comes last empties it:
the command itself, or where it was killed, or has become Pulumi (`exec`), the next one. Who is at work is
shown by locks on the folder, which end with their processes.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from infra import paths


@contextmanager
def scratch(folder: Path) -> Iterator[int]:
    """Have the folder in place; yields the descriptor that says so, for the programs to inherit.

    With it a program that outlives its command still keeps the next one from emptying the folder.
    """
    descriptor = enter(folder)
    try:
        yield descriptor
    finally:
        _empty_if_alone(descriptor, folder)
        os.close(descriptor)


def enter(folder: Path) -> int:
    """The same for a process that becomes the program: nobody is left to empty the folder but the next."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    _empty_if_alone(descriptor, folder)
    return descriptor


def variables(folder: Path) -> dict[str, str]:
    """What has Pulumi and its programs use the folder, and the container engine the host's own."""
    return {"TMPDIR": str(folder), paths.HOST_TMPDIR: os.environ.get("TMPDIR", "")}


def _empty_if_alone(descriptor: int, folder: Path) -> None:
    """The lock is a shared one afterwards."""
    # A shared lock becomes an exclusive one where it is the only one; our programs inherit ours.
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for entry in os.scandir(descriptor):
            path = folder / entry.name
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
    except BlockingIOError:
        pass
    finally:
        # A program that outlives the command has this lock from then on, and must keep nobody out.
        fcntl.flock(descriptor, fcntl.LOCK_SH)
