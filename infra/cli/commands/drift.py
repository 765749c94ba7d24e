"""`drift`: what has been changed by hand since the last `up`, without changing anything.

Pulumi's refresh, as a preview, compares its state with the actual resources; a plain preview never reads
these. What it cannot be asked is the objects of a cluster that is gone: whether the cluster stands is
found out before.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from infra import paths, processes, project, settings
from infra.cli import drift_report, prepare
from infra.cli.arguments import Command
from infra.cli.drift_report import DriftedResource, Event
from infra.cli.preview.events import lines_of, parse
from infra.cli.stacks import file_backend, placeholders, pulumi_stack
from infra.cli.stacks.pulumi_stack import Stack
from infra.drivers.engine import ContainerEngine
from infra.drivers.kind import KindCli
from infra.errors import KindlingError
from infra.project import cluster_name

DRIFTED = 3
SECONDS = 300.0


def run(command: Command) -> int:
    """Print what differs; 3 where anything does. Raises `KindlingError` where that cannot be found out."""
    stack = command.stack
    project.require_stack(stack)
    if placeholders.skips(stack, images=False):
        return 0
    state = prepare.existing_state(stack)
    if state.unfinished and not file_backend.in_use(stack):
        raise KindlingError(
            f"stack `{stack}` is half-made",
            why="a run was cut off while it created something, or is at work at this moment",
            remedy=f"if none is at work: python3 -m infra up {stack}",
        )
    if len(state.clusters) > 1:
        raise KindlingError(
            f"stack `{stack}` is half-made",
            why="its cluster was created again, and the run that did it did not end",
            remedy=f"python3 -m infra up {stack}",
        )
    if _stands(stack, state):
        # kind gives the kubeconfig of a cluster of its own.
        tools = (*prepare.PULUMI, "kind") if state.clusters else prepare.PULUMI
        target = prepare.ready_stack(stack, tools=tools)
        excepted = settings.read(stack).ignore_changes
        found = drift_report.differences(_look(target), excepted=excepted)
    else:
        found = [
            DriftedResource(f"kind cluster {cluster_name(stack)}", state="gone, and with it all that it held")
        ]
    if not found:
        print(f"Stack {stack}: everything is as the last `up` left it.")
        return 0
    number = "1 resource is" if len(found) == 1 else f"{len(found)} resources are"
    print(f"Stack {stack}: {number} not as the last `up` left it.\n")
    print("\n".join(map(str, found)))
    print(f"\n`python3 -m infra up {stack}` sets right what was changed or is gone.")
    if any(difference.added for difference in found):
        print("What was added to a list may stay: take it away by hand, or delete the object and run `up`.")
    return DRIFTED


def _stands(stack: str, state: file_backend.StackState) -> bool:
    """Whether the kind cluster in the state, and no other in it, is there; True for a state without one.

    Raises `KindlingError` where it is stopped, or nobody can be asked.
    """
    name = cluster_name(stack)
    if not state.clusters:
        return True
    kind = KindCli.readonly(ContainerEngine.detect())
    return state.clusters == (f"{name}-{kind.incarnation(name)}",)


def _look(target: Stack) -> list[Event]:
    """The events of a refresh that writes nothing."""
    pulumi_stack.copy_settings(target.name)
    paths.state_dir().mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="drift-", dir=paths.state_dir()) as folder:
        log = Path(folder) / "events"
        try:
            target.ask("refresh", "--preview-only", "--run-program", "--event-log", str(log), timeout=SECONDS)
        except processes.ProgramError as error:
            why = "\n       ".join(drift_report.complaints(parse(lines_of(log)))) or error.why
            raise KindlingError(
                f"stack `{target.name}` could not be compared with what is there",
                why=why,
                remedy="fix the cause and run it again; nothing was changed.",
            ) from None
        return list(parse(lines_of(log)))
