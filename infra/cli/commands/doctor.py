"""`doctor`: what `up` would find and do, and what would stop it, without touching anything."""

from __future__ import annotations

from infra import project, settings
from infra.bootstrap import Toolchain
from infra.cli import doctor_report, host_inventory
from infra.cli.arguments import Command
from infra.cli.setup_steps import HostReport
from infra.cli.stacks import preflight, profile
from infra.errors import KindlingError
from infra.progress import Progress
from infra.settings import stack_files


def run(command: Command) -> int:
    """Print the report; 1 with every remedy when something blocks."""
    project.require_stack(command.stack)
    wanted = profile.of(command.stack)
    machine = host_inventory.inspect_host(
        wanted, toolchain=Toolchain(progress=Progress()), tools=wanted.tools
    )
    return doctor_report.show(machine, [*_settings(machine), *_cluster(machine)])


def _settings(machine: HostReport) -> list[KindlingError]:
    """What is wrong with the stack's settings."""
    try:
        found = settings.read(machine.stack)
    except KindlingError as error:
        return [error]
    taken = None if machine.cluster == "running" else host_inventory.port_taken(found.cluster.api_server_port)
    return [taken] if taken is not None else []


def _cluster(machine: HostReport) -> list[KindlingError]:
    """Whether an existing cluster can be reached and is recent enough, where there is a kubectl to ask."""
    kubectl = Toolchain().survey(["kubectl"])[0].path
    if machine.cluster != "elsewhere" or kubectl is None or not stack_files.context(machine.stack):
        return []
    try:
        preflight.context_of(machine.stack, kubectl=kubectl).recent()
    except KindlingError as error:
        return [error]
    return []
