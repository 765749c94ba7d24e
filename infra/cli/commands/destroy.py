"""`destroy`: leave nothing of a stack, whatever state it is in, and build nothing to find that out.

Apart from the others because it must work where the others may give up: with the cluster deleted by
hand, the settings file gone, or a creation cut off before Pulumi could record it.
"""

from __future__ import annotations

import os
import shutil

from infra import processes, project
from infra.bootstrap import Toolchain
from infra.cli import confirmation
from infra.cli.arguments import Command
from infra.cli.stacks import file_backend, preflight, profile, pulumi_stack, removed_kinds
from infra.cli.stacks.pulumi_stack import Stack
from infra.drivers.engine import ContainerEngine
from infra.drivers.kind import KindCli
from infra.errors import KindlingError
from infra.paths import REPOSITORY, state_dir
from infra.progress import Progress
from infra.project import cluster_name
from infra.settings import stack_files

STEP = "Destroy the stack"
# Pulumi's way to say that what cannot be reached is gone.
UNREACHABLE = "PULUMI_K8S_DELETE_UNREACHABLE"


def run(command: Command) -> int:
    """Remove the stack's resources, its cluster and its state; twice is fine."""
    name, progress = command.stack, Progress()
    toolchain = Toolchain(progress=progress)
    state = pulumi_stack.state_of(name, toolchain=toolchain)
    if state is not None and state.protected:
        raise _protected(name, state)
    existing = stack_files.is_existing(name) or (state is not None and bool(state.cluster))
    # An existing cluster stays, so no engine is asked for one.
    kind = None if existing else _kind()
    clustered = kind is not None and _has_cluster(kind, name)
    if state is None and not clustered:
        # Only now: a stack whose settings file was lost can still be taken down.
        project.require_stack(name)
        _forget(name)
        print(f"Stack {name}: there is nothing to destroy.")
        return 0
    if state is not None:
        if existing and os.environ.get(UNREACHABLE) != "true":
            preflight.require_same_cluster(
                name, preflight.context_of(name, kubectl=toolchain.ensure("kubectl")), state
            )
        if not command.yes:
            _ask(command, state, existing=existing, toolchain=toolchain)
        alive = existing or (kind is not None and clustered and kind.running(cluster_name(name)))
        _destroy(name, state, alive, toolchain, progress)
    if kind is not None and (clustered or not kind.exists(cluster_name(name))):
        # What Pulumi's state did not know of, and the kubeconfig entry of a cluster deleted by hand.
        KindCli(toolchain.ensure("kind"), kind.engine).delete(cluster_name(name))
    _forget(name)
    print(f"Stack {name} is gone.")
    return 0


def _ask(command: Command, state: file_backend.StackState, *, existing: bool, toolchain: Toolchain) -> None:
    """Say what goes, and go on with whoever types the stack's name; a kind cluster is its maker's own."""
    name = command.stack
    if not confirmation.interactive():
        if existing:
            raise confirmation.needed(command.again)
        return
    place, objects = f"kind cluster {cluster_name(name)}, which goes with all that it holds", {}
    if existing:
        place = f"the cluster of context `{stack_files.context(name)}`"
        if os.environ.get(UNREACHABLE) != "true":
            kubectl = toolchain.ensure("kubectl")
            objects = {
                kind: removed_kinds.resources(name, kind, kubectl)
                for kind in removed_kinds.definitions_of(state)
            }
    count = len(state.resources)
    print(confirmation.destruction(name, place=place, resources=count, objects=objects))
    confirmation.ask(name)


def _destroy(
    name: str,
    state: file_backend.StackState,
    alive: bool,
    toolchain: Toolchain,
    progress: Progress,
) -> None:
    """Empty Pulumi's state and remove it; `alive` is whether there is a cluster to remove it from."""
    pulumi = Stack(name, toolchain=toolchain, tools=profile.of(name).tools)
    with progress.foreground(STEP):
        pulumi.prepare()
        pulumi.recover()
        if state.resources:
            # What lived in a cluster that is gone needs no API to be gone too.
            extra = {} if alive else {UNREACHABLE: "true"}
            pulumi.operate("destroy", "--yes", "--skip-preview", extra=extra)
        pulumi.remove()


def _protected(name: str, state: file_backend.StackState) -> KindlingError:
    kept = ", ".join(urn.rsplit("::", 1)[1] for urn in state.protected)
    return KindlingError(
        f"stack `{name}` is protected against destroy",
        why=f"kindling:protect keeps what holds data: {kept}. Nothing was touched",
        remedy=f"if it is really to go, with its data: set kindling:protect to false in Pulumi.{name}.yaml, "
        f"python3 -m infra up {name}, then destroy again.",
    )


def _kind() -> KindCli | None:
    try:
        return KindCli.readonly(ContainerEngine.detect())
    except KindlingError:
        return None


def _has_cluster(kind: KindCli, name: str) -> bool:
    """Whether there is a cluster to remove; one of that name that others created is not."""
    try:
        kind.incarnation(cluster_name(name))
    except processes.ProgramError:
        raise
    except KindlingError:
        return False
    return kind.exists(cluster_name(name))


def _forget(name: str) -> None:
    """Drop what the command line itself wrote; the last stack takes the backend and the passphrase along."""
    copies = pulumi_stack.settings_file(name).parent
    shutil.rmtree(copies, ignore_errors=True)
    if file_backend.is_own() and file_backend.is_empty():
        shutil.rmtree(file_backend.own_folder(), ignore_errors=True)
        # The mark of a cluster deleted by hand outlives it.
        shutil.rmtree(state_dir() / "clusters", ignore_errors=True)
        # `pulumi config set --secret` writes what only this passphrase opens, and a salt, into those files.
        if not any("encryptionsalt:" in file.read_text() for file in REPOSITORY.glob("Pulumi.*.yaml")):
            pulumi_stack.passphrase_path().unlink(missing_ok=True)
    for folder in (copies.parent, state_dir()):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
