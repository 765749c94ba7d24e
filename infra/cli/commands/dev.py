"""`dev`: the operator of this checkout, on this machine, against the stack's cluster.

As developers of operators expect it: the same settings and images as the one in the cluster, whose
place it takes, logs for a person, and a new start with every change to its source.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from infra import bootstrap, paths, project
from infra.bootstrap import Toolchain
from infra.cli.arguments import Command
from infra.cli.dev import autoreload
from infra.cli.dev.operator_deployment import OperatorDeployment
from infra.progress import Progress
from infra.project import OPERATOR_NAMESPACE

REQUIREMENTS = "operator/requirements.txt"
SOURCE = paths.REPOSITORY / "operator" / "src"
# What the operator ends with when another holds its Lease: as a Pod it would be started again, too.
LEASE_LOST = 3


def run(command: Command) -> int:
    """Until it is interrupted. Raises `KindlingError` for what is missing, before anything is touched."""
    project.require_stack(command.stack)
    progress = Progress()
    operator = OperatorDeployment(command.stack, kubectl=Toolchain(progress=progress).ensure("kubectl"))
    settings = settings_of(operator.read())
    python = bootstrap.virtualenv.ensure(REQUIREMENTS, progress=progress)
    port = autoreload.free_port()
    with operator.scaled_down() as replicas, _kubeconfig(command.stack, operator) as kubeconfig:
        progress.say(
            f"Stack {command.stack}: this checkout's operator works in place of the Deployment's {replicas} "
            "replicas, which come back at the end.\n"
            f"  metrics  http://127.0.0.1:{port}/metrics, beside /healthz and /readyz\n"
            f"  source   {SOURCE.relative_to(paths.REPOSITORY)}: each change restarts it\n"
            "Ctrl-C ends it.\n"
        )
        autoreload.serve(
            "kindling",
            python=python,
            source=SOURCE,
            env={
                **settings,
                "PYTHONPATH": str(SOURCE),
                "PYTHONUNBUFFERED": "1",
                "KUBECONFIG": str(kubeconfig),
                "KINDLING_NAMESPACE": OPERATOR_NAMESPACE,
                "KINDLING_POD": f"dev-{socket.gethostname()}",
                "KINDLING_PORT": str(port),
                "KINDLING_LOG_FORMAT": "text",
                "KINDLING_TUNNEL": "1",
                "KINDLING_PROBER": "",  # one of its own
            },
            say=progress.say,
            restart_on=(LEASE_LOST,),
        )


def settings_of(deployment: Mapping[str, Any]) -> dict[str, str]:
    """The variables of the cluster's operator that have a value; those taken from its Pod are not ours."""
    containers = deployment["spec"]["template"]["spec"]["containers"]
    [container] = [one for one in containers if one["name"] == "operator"]
    return {
        item["name"]: item.get("value", "")
        for item in container.get("env", [])
        if item["name"].startswith("KINDLING_") and "valueFrom" not in item
    }


@contextmanager
def _kubeconfig(stack: str, operator: OperatorDeployment) -> Iterator[Path]:
    """A file that only this user can read, for as long as it is needed."""
    path = paths.state_dir() / "stacks" / stack / "dev.kubeconfig"
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(operator.kubeconfig())
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)
