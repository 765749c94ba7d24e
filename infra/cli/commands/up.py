"""`up`: from whatever this machine has to a running stack.

The order is the point. First what can be known without touching anything, then the stack's settings, then
the long builds, and Pulumi last, so that nobody waits half an hour for a complaint.
"""

from __future__ import annotations

import sys

from infra import cache, manifests, project, settings
from infra.bootstrap import Toolchain
from infra.cli import confirmation, host_inventory, setup_steps
from infra.cli.arguments import Command
from infra.cli.dev.operator_deployment import OperatorDeployment
from infra.cli.setup_steps import StackProfile
from infra.cli.stacks import (
    credentials,
    file_backend,
    placeholders,
    preflight,
    profile,
    pulumi_stack,
    removed_kinds,
    saved_plan,
)
from infra.cli.stacks.file_backend import StackState
from infra.cli.stacks.pulumi_stack import Stack
from infra.drivers import base_image, images
from infra.drivers import engine as engines
from infra.progress import Progress, duration
from infra.project import FORCE
from infra.settings import Settings, stack_files


def run(command: Command) -> int:
    """Bring the stack up; raises `KindlingError` before anything is touched where something blocks."""
    stack, progress = command.stack, Progress()
    toolchain = Toolchain(progress=progress)
    project.require_stack(stack)
    wanted = profile.of(stack)
    if placeholders.skips(stack, images=True):
        return 0
    credentials.check(stack)
    if wanted.existing and not (command.yes or command.plan or confirmation.interactive()):
        raise confirmation.needed(command.again)
    file_backend.check_lock(stack)
    if command.plan is not None:
        saved_plan.check(command.plan, stack=stack, state=file_backend.state(stack))
    machine = host_inventory.inspect_host(wanted, toolchain=toolchain, tools=wanted.tools)
    progress.say(f"Stack {stack}:\n{setup_steps.table(machine.parts)}\n")
    for blocker in machine.blockers:
        raise blocker
    progress.say(
        f"This takes {setup_steps.estimate(machine.steps)}. Ctrl-C stops it; the next run goes on from there."
    )
    progress.plan(list(machine.steps))
    found, state = provision(machine, wanted, toolchain=toolchain, progress=progress)
    if command.plan is not None:
        saved_plan.check(command.plan, stack=stack, state=state)
    if machine.cluster in ("running", "elsewhere"):
        definitions = [crd["metadata"]["name"] for crd in manifests.definitions(found.operator.kinds)]
        removed_kinds.check(stack, definitions, state, kubectl=toolchain.ensure("kubectl"))
    target = Stack(stack, toolchain=toolchain, tools=wanted.tools)
    with progress.foreground(host_inventory.CREATE.name):
        target.prepare()
        if target.recover():
            progress.say("  cleared up after a run that was cut off")
        if OperatorDeployment(stack, kubectl=toolchain.ensure("kubectl")).recover():
            progress.say("  gave the operator back the replicas that a killed `dev` had taken")
        _apply(target, command)
    progress.say("\nTime taken:\n" + timings(progress.taken))
    names, freed = cache.prune()
    if names:
        gone = f"{', '.join(names)} ({setup_steps.gib(freed)})"
        progress.say(f"Removed from the cache, unused for {cache.DAYS:.0f} days: {gone}")
    sys.stdout.write(next_steps(stack, samples=found.samples.enabled))
    return 0


def _apply(target: Stack, command: Command) -> None:
    file = command.plan
    # In a cluster that is not ours alone Pulumi shows first what it will do, and asks.
    asks = stack_files.is_existing(target.name) and not command.yes and file is None
    args = ("up",) if asks else ("up", "--yes", "--skip-preview")
    if file is None:
        refresh_args, variables = _refresh_args(target)
        target.operate(*args, *refresh_args, extra=variables, asks=asks)
        return
    # As it was previewed, which looks at nothing: drift is no part of a plan.
    again = f"where it violates the plan, something else has changed: {saved_plan.remedy(target.name, file)}"
    target.operate(*args, f"--plan={file.absolute()}", remedy=again)


def _refresh_args(target: Stack) -> tuple[list[str], dict[str, str]]:
    """Arguments and variables that have Pulumi read the actual resources and undo drift.

    By itself it compares the program with its state alone. The program is run for the look, so that
    each object is asked for in the cluster of today: the one in the state may be gone, or have moved.
    Nothing is taken before the first `up`, when an object of the same name is another's.
    """
    state = target.state()
    if state is None or not state.resources:
        return [], {}
    return ["--refresh", "--run-program"], {FORCE: "true"}


def provision(
    machine: setup_steps.HostReport, wanted: StackProfile, *, toolchain: Toolchain, progress: Progress
) -> tuple[Settings, StackState | None]:
    """Check the settings, then build the tools and images that are missing.

    Returns the settings and the stack's state, for which Pulumi may have to be asked.
    """
    found = settings.read(machine.stack)
    # A cluster that exists has its port, whoever else wants it.
    taken = None if machine.cluster == "running" else host_inventory.port_taken(found.cluster.api_server_port)
    if taken is not None:
        raise taken
    plugins = [host_inventory.KUBERNETES_PLUGIN] if toolchain.builds_provider() else []
    built = found.object_store.enabled and images.OBJECT_STORE_PART not in found.images.given
    store = images.object_store_tool() if built else None
    toolchain.ensure_all([*wanted.tools, *plugins, *([store] if store is not None else [])])
    toolchain.pulumi_home()
    state = pulumi_stack.state_of(machine.stack, toolchain=toolchain)
    if machine.cluster == "elsewhere":
        preflight.check(machine.stack, found, state, kubectl=toolchain.ensure("kubectl"))
        if wanted.builds_images:
            engines.install_engine(progress)
    if machine.cluster == "absent":
        engine = engines.install_engine(progress)
        if found.cluster.node_image == settings.AUTO:
            images.ensure_node_image(engine, progress=progress, workers=found.cluster.workers)
        if found.images.base == base_image.BASE_IMAGE:
            images.ensure_base_image(engine, progress=progress)
    # A registry that answers makes the image steps needless.
    for step in machine.steps:
        if step not in (host_inventory.CREATE, host_inventory.CHECK):
            progress.skip(step.name)
    return found, state


def timings(taken: dict[str, float]) -> str:
    """What each step took, and the whole."""
    rows = [*taken.items(), ("in all", sum(taken.values()))]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"  {name:<{width}}  {duration(seconds)}" for name, seconds in rows)


def next_steps(stack: str, *, samples: bool) -> str:
    """What to do next, with commands that can be pasted."""
    kubectl = "python3 -m infra exec " + (f"--stack {stack} " if stack != "dev" else "") + "kubectl"
    lines = [f"\nStack {stack} is up.", "", "Look around:", f"  {kubectl} get pods --all-namespaces"]
    if samples:
        lines += [
            "",
            "Log in to the sample database mydb; psql asks for the password:",
            # By its Service's name it would not: the Pod's NetworkPolicy lets it reach no DNS.
            f"  {kubectl} exec -it mydb-0 -c postgres -- psql -h localhost pgowner pgowner",
            "which this prints from the Secret mydb-binding:",
            f"  {kubectl} get secret mydb-binding -o go-template='{{{{.data.password | base64decode}}}}'",
        ]
    return "\n".join([*lines, ""])
