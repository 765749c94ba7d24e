"""Podman's configuration for a node: no limit on processes, and what a root without privileges needs.

What the machine's user has configured stays as it is.
"""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path

from infra import paths, processes

# Podman lets a container have 2,048 processes and threads; a node is a container with those of all its Pods.
_UNLIMITED = """\
# Written by Kindling.
[containers]
pids_limit = 0
"""
_CONTAINERS_CONF = """\
# Written by Kindling: this machine's root cannot raise resource limits (no CAP_SYS_RESOURCE) or has
# cgroup v1, where podman's own defaults fail.
[containers]
pids_limit = 0
default_ulimits = ["nofile=20000:20000", "nproc=30000:30000"]
[engine]
runtime = "runc"
"""
# Podman of this age surely reads CONTAINERS_CONF_OVERRIDE, which adds to what else is set.
_OVERRIDABLE = (5, 0)
# Where CONTAINERS_CONF would take the place of what somebody has set.
_CONFIGURATIONS = ("/etc/containers", "~/.config/containers")


def env_vars(program: Path) -> dict[str, str]:
    """Where Podman finds what Kindling sets; whatever the user has set of that kind stays as it is."""
    environment = {}
    if not os.environ.get("CONTAINERS_CONF"):
        if os.geteuid() == 0 and not (
            _may_raise_limits() and Path("/sys/fs/cgroup/cgroup.controllers").exists()
        ):
            environment["CONTAINERS_CONF"] = _written("containers.conf", _CONTAINERS_CONF)
        elif not _configured() and _version(program) < _OVERRIDABLE:
            environment["CONTAINERS_CONF"] = _written("unlimited.conf", _UNLIMITED)
    if not os.environ.get("CONTAINERS_CONF_OVERRIDE"):
        environment["CONTAINERS_CONF_OVERRIDE"] = _written("unlimited.conf", _UNLIMITED)
    return environment


@cache
def _version(program: Path) -> tuple[int, int]:
    found = re.search(r"(\d+)\.(\d+)", processes.run([program, "--version"], timeout=30))
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _configured() -> bool:
    """Whether some file of this machine's sets anything for Podman."""
    folders = [Path(folder).expanduser() for folder in _CONFIGURATIONS]
    files = [
        file
        for folder in folders
        for file in (folder / "containers.conf", *folder.glob("containers.conf.d/*.conf"))
    ]
    return any(
        line.strip() and not line.lstrip().startswith(("#", "["))
        for file in files
        if file.is_file()
        for line in file.read_text().splitlines()
    )


def _written(name: str, text: str) -> str:
    file = paths.cache_dir() / name
    if not file.exists() or file.read_text() != text:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return str(file)


def _may_raise_limits() -> bool:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> 24 & 1)  # CAP_SYS_RESOURCE, linux/capability.h
    return True
