"""`drift`: what has been changed by hand since the last `up`, without changing anything.

Pulumi's refresh, as a preview, compares its record with the world; a plain preview never looks at the
world. What it can not be asked is the objects of a cluster that is gone: whether the cluster stands is
found out before.
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from infra import paths, processes
from infra.cli import backend, differences, operate, placeholders
from infra.cli import machine as looking
from infra.cli import stack as stacks
from infra.cli.arguments import Command
from infra.cli.differences import Difference, Event
from infra.cli.stack import Stack
from infra.drivers.engine import ContainerEngine
from infra.drivers.kind import Kind
from infra.errors import KindlingError
from infra.settings import cluster_name

DRIFTED = 3
SECONDS = 300.0


def run(command: Command) -> int:
    """Print what differs; 3 where anything does. Raises `KindlingError` where that can not be told."""
    stack = command.stack
    looking.known(stack)
    if placeholders.skips(stack, images=False):
        return 0
    state = operate.recorded(stack)
    if state.unfinished and not backend.in_use(stack):
        raise KindlingError(
            f"stack `{stack}` is half-made",
            why="a run was cut off while it created something, or is at work at this moment",
            remedy=f"if none is at work: python3 -m infra up {stack}",
        )
    if len(state.clusters) > 1:
        raise KindlingError(
            f"stack `{stack}` is half-made",
            why="its cluster was made anew, and the run that did it did not end",
            remedy=f"python3 -m infra up {stack}",
        )
    if _stands(stack, state):
        # kind tells the kubeconfig of a cluster of its own.
        tools = (*operate.TOOLS, "kind") if state.clusters else operate.TOOLS
        found = differences.differences(_look(operate.ready(stack, tools=tools)))
    else:
        found = [
            Difference(f"kind cluster {cluster_name(stack)}", state="gone, and with it all that it held")
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


def _stands(stack: str, state: backend.StackState) -> bool:
    """Whether the kind cluster in the record, and no other in it, is there; True for a record without one.

    Raises `KindlingError` where it is stopped, or nobody can be asked.
    """
    name = cluster_name(stack)
    if not state.clusters:
        return True
    # kind itself is not needed to ask.
    kind = Kind(Path("kind"), ContainerEngine.detect())
    return state.clusters == (f"{name}-{kind.incarnation(name)}",)


def _look(target: Stack) -> list[Event]:
    """The events of a refresh that writes nothing."""
    stacks.copy_settings(target.name)
    paths.state_dir().mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="drift-", dir=paths.state_dir()) as folder:
        log = Path(folder) / "events"
        try:
            target.ask("refresh", "--preview-only", "--run-program", "--event-log", str(log), timeout=SECONDS)
        except processes.ProgramError as error:
            why = "\n       ".join(differences.complaints(_read(log))) or error.why
            raise KindlingError(
                f"stack `{target.name}` could not be compared with what is there",
                why=why,
                remedy="mend the cause and ask again; nothing was changed.",
            ) from None
        return _read(log)


def _read(log: Path) -> list[Event]:
    if not log.exists():
        return []
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
