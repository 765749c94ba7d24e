"""The distribution's packages: the last resort for what neither PATH nor a Go module gives.

Only Debian's family is known, only root may use it, and the caller says beforehand that it will.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from infra import processes
from infra.errors import KindlingError

_NO_REGISTRY = Path("/etc/systemd/system/docker-registry.service")
_NO_CLUSTER = Path("/etc/postgresql-common/createcluster.conf")


def available() -> bool:
    """Whether packages can be installed here: root, and apt."""
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def install(names: Sequence[str]) -> None:
    """Install packages without recommendations; raises `KindlingError` when that is not possible."""
    if not available():
        raise KindlingError(
            f"missing on this machine: {', '.join(names)}",
            why="installing packages needs root and apt",
            remedy=f"install {' '.join(names)} (or an equivalent) and run the same command again",
        )
    env = {"DEBIAN_FRONTEND": "noninteractive"}
    try:
        processes.run(["apt-get", "-q", "update"], timeout=600, env=env)
        processes.run(
            ["apt-get", "-q", "install", "-y", "--no-install-recommends", *names], timeout=1800, env=env
        )
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
    """The program alone: the package would start a registry for all to write to, and is told not to."""
    if available() and not _NO_REGISTRY.exists():
        _NO_REGISTRY.parent.mkdir(parents=True, exist_ok=True)
        _NO_REGISTRY.symlink_to("/dev/null")  # systemd's own way to mask a unit.
    install(["docker-registry"])


def install_postgresql() -> None:
    """The server programs alone: the package would start a cluster on the usual port, and is told not to."""
    if available() and not _NO_CLUSTER.exists():
        _NO_CLUSTER.parent.mkdir(parents=True, exist_ok=True)
        _NO_CLUSTER.write_text("create_main_cluster = false\n")
    install(["postgresql"])
