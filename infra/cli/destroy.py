"""`destroy`: leave nothing of a stack, whatever state it is in, and build nothing to find that out.

Apart from `operate` because it must work where the others may give up: with the cluster deleted by
hand, the settings file gone, or a creation cut off before Pulumi could record it.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from infra import processes
from infra.cli import backend, confirmation, plain, preflight, removal, stack
from infra.cli import machine as looking
from infra.cli.arguments import Command
from infra.cli.stack import Stack
from infra.drivers.engine import ContainerEngine
from infra.drivers.kind import Kind
from infra.errors import KindlingError
from infra.paths import REPOSITORY, state_dir
from infra.progress import Progress
from infra.settings import cluster_name
from infra.toolchain import Toolchain, venv

STEP = "Destroy the stack"
# Pulumi's way to say that what can not be reached is gone.
UNREACHABLE = "PULUMI_K8S_DELETE_UNREACHABLE"


def run(command: Command) -> int:
    """Remove the stack's resources, its cluster and its record; twice is fine."""
    name, progress = command.stack, Progress()
    toolchain = Toolchain(progress=progress)
    state = stack.recorded(name, toolchain=toolchain)
    if state is not None and state.protected:
        raise _protected(name, state)
    existing = plain.is_existing(name) or (state is not None and bool(state.cluster))
    # An existing cluster stays, so no engine is asked for one.
    engine = None if existing else _engine()
    clustered = engine is not None and _has_cluster(engine, name)
    if state is None and not clustered:
        # Only now: a stack whose settings file was lost can still be taken down.
        looking.known(name)
        _forget(name)
        print(f"Stack {name}: there is nothing to destroy.")
        return 0
    if state is not None:
        # Pulumi imports our dynamic resources to delete them.
        venv.ensure(progress=progress)
        if existing and os.environ.get(UNREACHABLE) != "true":
            preflight.same_cluster(name, preflight.access(name, kubectl=toolchain.ensure("kubectl")), state)
        if not command.yes:
            _ask(command, state, existing=existing, toolchain=toolchain)
        alive = existing or (engine is not None and clustered and _kind(engine).running(cluster_name(name)))
        _destroy(name, state, alive, toolchain, progress)
    if engine is not None and (clustered or not _kind(engine).exists(cluster_name(name))):
        # What Pulumi's record did not know of, and the kubeconfig entry of a cluster deleted by hand.
        Kind(toolchain.ensure("kind"), engine).delete(cluster_name(name))
    _forget(name)
    print(f"Stack {name} is gone.")
    return 0


def _ask(command: Command, state: backend.StackState, *, existing: bool, toolchain: Toolchain) -> None:
    """Say what goes, and go on with whoever types the stack's name; a kind cluster is its maker's own."""
    name = command.stack
    if not confirmation.interactive():
        if existing:
            raise confirmation.needed(command.again)
        return
    place, objects = f"kind cluster {cluster_name(name)}, which goes with all that it holds", {}
    if existing:
        place = f"the cluster of context `{plain.context(name)}`"
        if os.environ.get(UNREACHABLE) != "true":
            kubectl = toolchain.ensure("kubectl")
            objects = {kind: removal.resources(name, kind, kubectl) for kind in removal.recorded(state)}
    count = len(state.resources)
    print(confirmation.destruction(name, place=place, resources=count, objects=objects))
    confirmation.ask(name)


def _destroy(
    name: str,
    state: backend.StackState,
    alive: bool,
    toolchain: Toolchain,
    progress: Progress,
) -> None:
    """Empty Pulumi's record and remove it; `alive` is whether there is a cluster to remove it from."""
    target = Stack(name, toolchain=toolchain, tools=looking.tools(name))
    with progress.foreground(STEP):
        target.prepare()
        target.heal()
        if state.resources:
            # What lived in a cluster that is gone needs no API to be gone too.
            extra = {} if alive else {UNREACHABLE: "true"}
            target.operate("destroy", "--yes", "--skip-preview", extra=extra)
        target.remove()


def _protected(name: str, state: backend.StackState) -> KindlingError:
    kept = ", ".join(urn.rsplit("::", 1)[1] for urn in state.protected)
    return KindlingError(
        f"stack `{name}` is protected against destroy",
        why=f"kindling:protect keeps what holds data: {kept}. Nothing was touched",
        remedy=f"if it is really to go, with its data: set kindling:protect to false in Pulumi.{name}.yaml, "
        f"python3 -m infra up {name}, then destroy again.",
    )


def _engine() -> ContainerEngine | None:
    try:
        return ContainerEngine.detect()
    except KindlingError:
        return None


def _kind(engine: ContainerEngine) -> Kind:
    """To ask about clusters, which needs the engine alone: kind may be missing."""
    return Kind(Path("kind"), engine)


def _has_cluster(engine: ContainerEngine, name: str) -> bool:
    """Whether there is a cluster to remove; somebody else's of that name is not."""
    kind = _kind(engine)
    try:
        kind.incarnation(cluster_name(name))
    except processes.ProgramError:
        raise
    except KindlingError:
        return False
    return kind.exists(cluster_name(name))


def _forget(name: str) -> None:
    """Drop what the command line itself wrote; the last stack takes the backend and the passphrase along."""
    copies = stack.settings_file(name).parent
    shutil.rmtree(copies, ignore_errors=True)
    if backend.is_own() and backend.is_empty():
        shutil.rmtree(backend.own_folder(), ignore_errors=True)
        # The mark of a cluster deleted by hand outlives it.
        shutil.rmtree(state_dir() / "clusters", ignore_errors=True)
        # `pulumi config set --secret` writes what only this passphrase opens, and a salt, into those files.
        if not any("encryptionsalt:" in file.read_text() for file in REPOSITORY.glob("Pulumi.*.yaml")):
            stack.passphrase_path().unlink(missing_ok=True)
    for folder in (copies.parent, state_dir()):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
