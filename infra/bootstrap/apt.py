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

_UNITS = Path("/etc/systemd/system")
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


def has_memcached() -> bool:
    """Whether the program that a Memcached runs is here."""
    return shutil.which("memcached") is not None


def has_prometheus() -> bool:
    """Whether Prometheus and promtool, which checks its rules, are here."""
    return all(shutil.which(name) is not None for name in ("prometheus", "promtool"))


def install_registry() -> None:
    """The program alone: the package would start a registry for all to write to, and is prevented from it."""
    _mask("docker-registry.service")
    install(["docker-registry"])


def install_memcached() -> None:
    """The program alone: the package would start a cache on the usual port, and is prevented from it."""
    _mask("memcached.service")
    install(["memcached"])


def install_prometheus() -> None:
    """The programs alone: the package would start a server for all to query, and is prevented from it."""
    _mask("prometheus.service")
    install(["prometheus"])


def _mask(unit: str) -> None:
    """systemd's own way to keep a unit from being started."""
    path = _UNITS / unit
    if available() and not path.exists():
        _as_root("mkdir", "--parents", str(path.parent), timeout=10)
        _as_root("ln", "--symbolic", "/dev/null", str(path), timeout=10)


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
