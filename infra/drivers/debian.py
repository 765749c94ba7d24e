"""Debian root file systems by mmdebstrap, for machines that no image registry answers."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from infra import locks, processes
from infra.drivers import packages
from infra.errors import KindlingError


def debootstrap(*, suite: str, include: Sequence[str], tar: Path, variant: str = "minbase") -> None:
    """Write a root file system tar, complete or not at all; installs mmdebstrap where it is missing."""
    if tar.exists():
        return
    if shutil.which("mmdebstrap") is None:
        packages.install(["mmdebstrap"])
    with locks.alone(locks.beside(tar)):
        if not tar.exists():
            _debootstrap(suite, include, tar, variant)


def _debootstrap(suite: str, include: Sequence[str], tar: Path, variant: str) -> None:
    partial = tar.with_suffix(".partial.tar")
    try:
        processes.run(
            ["mmdebstrap", f"--variant={variant}", f"--include={','.join(include)}", suite, partial],
            timeout=1800,
        )
        os.replace(partial, tar)
    except processes.ProgramError as error:
        raise KindlingError(
            f"no Debian {suite} root file system could be made",
            why=error.why or error.what,
            remedy="check that Debian's mirror or an image registry can be reached, then run it again",
        ) from None
    finally:
        partial.unlink(missing_ok=True)
