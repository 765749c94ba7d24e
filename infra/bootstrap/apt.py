"""The distribution's packages: the last resort for what neither PATH nor a Go module gives.

Only Debian's family is known, only root may use it, or who becomes root without a password (as on hosted
runners), and the caller says beforehand that it will.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from infra import processes
from infra.errors import KindlingError

_NO_REGISTRY = Path("/etc/systemd/system/docker-registry.service")
_NO_CLUSTER = Path("/etc/postgresql-common/createcluster.conf")


def available() -> bool:
    """Whether packages can be installed here: root, or sudo without a password, and apt."""
    return shutil.which("apt-get") is not None and _root() is not None


def _root() -> tuple[str, ...] | None:
    """The prefix of a command that needs root; None for who is not and cannot become it unasked."""
    if os.geteuid() == 0:
        return ()
    try:
        processes.run(["sudo", "--non-interactive", "true"], timeout=10)
    except processes.ProgramError:
        return None
    return ("sudo", "--non-interactive")


def _as_root(*args: str, timeout: float) -> None:
    # sudo hands on no variables of ours.
    processes.run([*(_root() or ()), "env", "DEBIAN_FRONTEND=noninteractive", *args], timeout=timeout)


def install(names: Sequence[str]) -> None:
    """Install packages without recommendations; raises `KindlingError` when that is not possible."""
    if not available():
        raise KindlingError(
            f"missing on this machine: {', '.join(names)}",
            why="installing packages needs apt, and root or sudo without a password",
            remedy=f"install {' '.join(names)} (or an equivalent) and run the same command again",
        )
    try:
        _as_root("apt-get", "-q", "update", timeout=600)
        _as_root("apt-get", "-q", "install", "-y", "--no-install-recommends", *names, timeout=1800)
    except processes.ProgramError as error:
        raise KindlingError(
            f"the packages {', '.join(names)} could not be installed",
            why=error.why or error.what,
            remedy="check that the distribution's mirror can be reached, then run the same command again",
        ) from None


def has_postgresql() -> bool:
    """Whether PostgreSQL's server programs are here; Debian keeps them off PATH."""
    return shutil.which("initdb") is not None or any(Path("/usr/lib/postgresql").glob("*/bin/initdb"))


def has_registry() -> bool:
    """Whether Debian's registry of images is here."""
    return shutil.which("docker-registry") is not None


def install_registry() -> None:
    """The program alone: the package would start a registry for all to write to, and is prevented from it."""
    if available() and not _NO_REGISTRY.exists():
        _as_root("mkdir", "--parents", str(_NO_REGISTRY.parent), timeout=10)
        # systemd's own way to mask a unit.
        _as_root("ln", "--symbolic", "/dev/null", str(_NO_REGISTRY), timeout=10)
    install(["docker-registry"])


def install_postgresql() -> None:
    """The server programs alone: the package would start a cluster on the usual port, and is prevented from
    it.
    """
    if available() and not _NO_CLUSTER.exists():
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("create_main_cluster = false\n")
            file.flush()
            _as_root("install", "-D", "--mode=0644", file.name, str(_NO_CLUSTER), timeout=10)
    install(["postgresql"])
