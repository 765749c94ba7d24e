"""`destroy`: leave nothing of a stack, whatever state it is in, and build nothing to find that out.

Apart from `operate` because it must work where the others may give up: with the cluster deleted by
hand, the settings file gone, or a creation cut off before Pulumi could record it.
"""

from __future__ import annotations

from infra.cli import backend, stack
from infra.cli import machine as looking
from infra.cli.arguments import Command
from infra.cli.stack import Stack
from infra.drivers.engine import ContainerEngine
from infra.drivers.kind import Kind
from infra.errors import KindlingError
from infra.paths import REPOSITORY
from infra.progress import Progress
from infra.settings import cluster_name, stacks
from infra.toolchain import Toolchain, venv

STEP = "Destroy the stack"


def run(command: Command) -> int:
    """Remove the stack's resources, its cluster and its record; twice is fine."""
    name, progress = command.stack, Progress()
    state, engine = backend.state(name), _engine()
    clustered = engine is not None and _has_cluster(engine, name)
    if state is None and not clustered:
        # Only now: a stack whose settings file was lost can still be taken down.
        looking.known(name)
        _forget(name)
        print(f"Stack {name}: there is nothing to destroy.")
        return 0
    toolchain = Toolchain(progress=progress)
    # A program of resources that are dynamic is imported to delete them.
    venv.ensure(progress=progress)
    if state is not None:
        _destroy(name, state, engine, toolchain, progress)
    if engine is not None:
        # Whatever Pulumi did not know of, and the kubeconfig entry of a cluster deleted by hand.
        Kind(toolchain.ensure("kind"), engine).delete(cluster_name(name))
    _forget(name)
    print(f"Stack {name} is gone.")
    return 0


def _destroy(
    name: str, state: backend.StackState, engine: ContainerEngine | None, toolchain: Toolchain, progress: Progress
) -> None:
    target = Stack(name, toolchain=toolchain, tools=looking.UP_TOOLS if engine else ("pulumi",))
    with progress.foreground(STEP):
        if not state.known and not target.exists():
            return
        target.prepare()
        target.heal()
        if state.resources or not state.known:
            # What lived in a cluster that is gone needs no API to be gone too.
            gone = engine is None or not Kind(toolchain.ensure("kind"), engine).running(cluster_name(name))
            extra = {"PULUMI_K8S_DELETE_UNREACHABLE": "true"} if gone else {}
            target.operate("destroy", "--yes", "--skip-preview", extra=extra)
        target.remove()


def _engine() -> ContainerEngine | None:
    try:
        return ContainerEngine.detect()
    except KindlingError:
        return None


def _has_cluster(engine: ContainerEngine, name: str) -> bool:
    """Whether there is a cluster to remove; somebody else's of that name is not."""
    kind = Kind(toolless, engine)
    if not kind.exists(cluster_name(name)):
        return False
    try:
        kind.incarnation(cluster_name(name))
    except KindlingError:
        return False
    return True


def _forget(name: str) -> None:
    """Drop what the command line itself wrote, once nothing is left that needs it."""
