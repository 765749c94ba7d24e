"""Debian root file systems by mmdebstrap, for machines that no image registry answers."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from infra import locks, processes
from infra.bootstrap import apt
from infra.errors import KindlingError


def debootstrap(
    *, suite: str, include: Sequence[str], tar: Path, variant: str = "minbase", architecture: str = ""
) -> None:
    """Write a root file system tar, complete or not at all; installs mmdebstrap where it is missing.

    Of this machine's architecture unless another is named, as Debian calls it.
    """
    if tar.exists():
        return
    if shutil.which("mmdebstrap") is None:
        apt.install(["mmdebstrap"])
    with locks.exclusive(locks.lock_path(tar)):
        if not tar.exists():
            _debootstrap(suite, include, tar, variant, architecture)


def _debootstrap(suite: str, include: Sequence[str], tar: Path, variant: str, architecture: str) -> None:
    partial = tar.with_suffix(".partial.tar")
    args = [f"--variant={variant}", f"--include={','.join(include)}"]
    if architecture:
        args.append(f"--architectures={architecture}")
    try:
        processes.run(
            ["mmdebstrap", *args, suite, partial],
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
