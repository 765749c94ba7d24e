"""`selftest`: the crash sweep of the tests on the user's own manifests, with what `test` sets up for that.

What it needs of that is an API server with its controllers, PostgreSQL and the development packages; no
container engine, no cluster, no stack. Then this process becomes `python -m selftest`, of this checkout.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from infra import bootstrap, paths
from infra.bootstrap import Toolchain
from infra.cli import exit_status, host_inventory, prepare
from infra.cli.arguments import Command
from infra.cli.commands.run_tests import REQUIREMENTS, STACK
from infra.cli.stacks import profile
from infra.progress import Progress

TOOLS = ("etcd", "kube-apiserver", "kube-controller-manager")
SOURCES = ("operator/src", "operator/images/postgres-backup")
"""The operator, and the words by which a run of a Backup ends."""


def run(command: Command) -> NoReturn:
    """Raises `KindlingError` for what is missing and cannot be made here."""
    progress = Progress()
    toolchain = Toolchain(progress=progress)
    machine = host_inventory.inspect_host(
        profile.of(STACK), toolchain=toolchain, tools=TOOLS, requirements=REQUIREMENTS, with_cluster=False
    )
    prepare.announce(machine, progress)
    python = bootstrap.virtualenv.ensure(REQUIREMENTS, progress=progress)
    if not bootstrap.apt.has_postgresql():
        with progress.step("Install PostgreSQL from the distribution"):
            bootstrap.apt.install_postgresql()
    search = toolchain.path(TOOLS)
    env = {
        **os.environ,
        "PATH": os.pathsep.join([str(python.parent), search, os.environ.get("PATH", "")]),
        "PYTHONPATH": os.pathsep.join(str(paths.REPOSITORY / name) for name in ("", *SOURCES)),
    }
    sys.stdout.flush()
    sys.stderr.flush()
    exit_status.hold_interrupts()
    os.execve(python, [str(python), "-m", "selftest", *command.argv[1:]], env)  # noqa: S606  (no shell)
