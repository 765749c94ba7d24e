"""`doctor`: what `up` would find and do, and what would stop it, without touching anything."""

from __future__ import annotations

from infra.cli import backend, plain, preflight, survey
from infra.cli import machine as looking
from infra.cli.arguments import Command
from infra.cli.described import describe
from infra.cli.survey import Machine
from infra.errors import KindlingError
from infra.progress import Progress
from infra.toolchain import Toolchain, venv


def run(command: Command) -> int:
    """Print the survey; 1 with every remedy when something blocks."""
    stack = command.stack
    looking.known(stack)
    machine = looking.look(stack, toolchain=Toolchain(progress=Progress()), tools=looking.tools(stack))
    print(f"Stack {stack}:\n{survey.table([*machine.parts, *looking.disk(machine)])}\n")
    blockers = [*machine.blockers, *_settings(machine), *_lock(stack), *_cluster(machine)]
    for blocker in blockers:
        print(f"blocked: {blocker}\n")
    if blockers:
        return 1
    if len(machine.steps) == 1 and machine.steps[0] == looking.CHECK:
        print("Nothing is missing.")
    else:
        outlook = survey.outlook(machine.steps)
        print(f"Nothing is in the way. `python3 -m infra up {stack}` would take {outlook}.")
    return 0


def _settings(machine: Machine) -> list[KindlingError]:
    """What is wrong with the stack's settings, where the environment that reads them stands."""
    if not venv.present():
        return []
    try:
        settings = describe(venv.ensure(), machine.stack)
    except KindlingError as error:
        return [error]
    taken = None if machine.cluster == "running" else looking.port_taken(settings.api_server_port)
    return [taken] if taken is not None else []


def _cluster(machine: Machine) -> list[KindlingError]:
    """Whether an existing cluster can be reached and is recent enough, where there is a kubectl to ask."""
    kubectl = Toolchain().survey(["kubectl"])[0].path
    if machine.cluster != "elsewhere" or kubectl is None or not plain.context(machine.stack):
        return []
    try:
        preflight.access(machine.stack, kubectl=kubectl).recent()
    except KindlingError as error:
        return [error]
    return []


def _lock(stack: str) -> list[KindlingError]:
    try:
        backend.has_stale_lock(stack)
    except KindlingError as error:
        return [error]
    return []
