"""`up`: from whatever this machine has to a stack that stands.

The order is the point. First what can be known without touching anything, then what makes the
environment, then the stack's settings (reading YAML needs that environment), then the long builds, and
Pulumi last, so that nobody waits half an hour for a complaint.
"""

from __future__ import annotations

import sys

from infra import cache
from infra.cli import (
    backend,
    confirmation,
    credentials,
    placeholders,
    plain,
    plan,
    preflight,
    removal,
    survey,
)
from infra.cli import machine as looking
from infra.cli import stack as stacks
from infra.cli.arguments import Command
from infra.cli.backend import StackState
from infra.cli.described import Described, describe
from infra.cli.stack import Stack
from infra.cli.takeover import Place
from infra.drivers import engine as engines
from infra.drivers import images
from infra.progress import Progress, duration
from infra.toolchain import Toolchain, venv


def run(command: Command) -> int:
    """Bring the stack up; raises `KindlingError` before anything is touched where something blocks."""
    stack, progress = command.stack, Progress()
    toolchain = Toolchain(progress=progress)
    looking.known(stack)
    if placeholders.skips(stack, images=True):
        return 0
    credentials.check(stack)
    if plain.is_existing(stack) and not (command.yes or command.plan or confirmation.interactive()):
        raise confirmation.needed(command.again)
    backend.has_stale_lock(stack)
    if command.plan is not None:
        plan.check(command.plan, stack=stack, state=backend.state(stack))
    machine = looking.look(stack, toolchain=toolchain, tools=looking.tools(stack))
    progress.say(f"Stack {stack}:\n{survey.table(machine.parts)}\n")
    for blocker in machine.blockers:
        raise blocker
    progress.say(
        f"This takes {survey.outlook(machine.steps)}. Ctrl-C stops it; the next run goes on from there."
    )
    progress.plan(list(machine.steps))
    settings, state = provision(machine, toolchain=toolchain, progress=progress)
    if command.plan is not None:
        plan.check(command.plan, stack=stack, state=state)
    if machine.cluster in ("running", "elsewhere"):
        removal.check(stack, settings.definitions, state, kubectl=toolchain.ensure("kubectl"))
    target = Stack(stack, toolchain=toolchain, tools=looking.tools(stack))
    with progress.foreground(looking.CREATE.name):
        target.prepare()
        if target.heal():
            progress.say("  cleared up after a run that was cut off")
        if Place(stack, kubectl=toolchain.ensure("kubectl")).heal():
            progress.say("  gave the operator back the replicas that a killed `dev` had taken")
        _apply(target, command)
    progress.say("\nTime taken:\n" + times(progress.taken))
    names, freed = cache.prune()
    if names:
        gone = f"{', '.join(names)} ({survey.gib(freed)})"
        progress.say(f"Removed from the cache, unused for {cache.DAYS:.0f} days: {gone}")
    sys.stdout.write(farewell(stack, samples=settings.samples))
    return 0


def _apply(target: Stack, command: Command) -> None:
    file = command.plan
    # In a cluster that is not ours alone Pulumi shows first what it will do, and asks.
    asks = plain.is_existing(target.name) and not command.yes and file is None
    words = ("up",) if asks else ("up", "--yes", "--skip-preview")
    if file is None:
        mending, variables = _mending(target)
        target.operate(*words, *mending, extra=variables)
        return
    # As it was previewed, which looks at nothing: what others did to the world is no part of a plan.
    again = f"where it violates the plan, it is another program or world: {plan.remedy(target.name, file)}"
    target.operate(*words, f"--plan={file.absolute()}", remedy=again)


def _mending(target: Stack) -> tuple[list[str], dict[str, str]]:
    """What has Pulumi look at the world and take back what others did to it, as words and variables.

    By itself it compares the program with its record alone. The program is run for the look, so that
    each object is asked for in the cluster of today: the one in the record may be gone, or have moved.
    Nothing is taken before the first `up`, when an object of the same name is another's.
    """
    state = target.state()
    if state is None or not state.resources:
        return [], {}
    return ["--refresh", "--run-program"], {"PULUMI_K8S_ENABLE_PATCH_FORCE": "true"}


def provision(
    machine: survey.Machine, *, toolchain: Toolchain, progress: Progress
) -> tuple[Described, StackState | None]:
    """Make the environment, check the settings, then build the tools and images that are missing.

    Returns the settings and the stack's record, for which Pulumi may have to be asked.
    """
    settings = describe(venv.ensure(progress=progress), machine.stack)
    # A cluster that stands has its port, whoever else wants it.
    if machine.cluster != "running" and (taken := looking.port_taken(settings.api_server_port)) is not None:
        raise taken
    for name in looking.tools(machine.stack):
        toolchain.ensure(name)
    toolchain.pulumi_home()
    state = stacks.recorded(machine.stack, toolchain=toolchain)
    if machine.cluster == "elsewhere":
        preflight.check(machine.stack, settings, state, kubectl=toolchain.ensure("kubectl"))
        if plain.builds_images(machine.stack):
            engines.install_engine(progress)
    if machine.cluster == "absent":
        engine = engines.install_engine(progress)
        if settings.node_image is None:
            images.ensure_node_image(engine, progress=progress, workers=settings.workers)
        images.ensure_base_image(engine, progress=progress)
    # A registry that answers makes the image steps needless.
    for step in machine.steps:
        if step not in (looking.CREATE, looking.CHECK):
            progress.skip(step.name)
    return settings, state


def times(taken: dict[str, float]) -> str:
    """What each step took, and the whole."""
    rows = [*taken.items(), ("in all", sum(taken.values()))]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"  {name:<{width}}  {duration(seconds)}" for name, seconds in rows)


def farewell(stack: str, *, samples: bool) -> str:
    """What to do next, with commands that can be pasted."""
    kubectl = "python3 -m infra exec " + (f"--stack {stack} " if stack != "dev" else "") + "kubectl"
    lines = [f"\nStack {stack} is up.", "", "Look around:", f"  {kubectl} get pods --all-namespaces"]
    if samples:
        lines += [
            "",
            "Log in to the sample database mydb through its Service; psql asks for the password:",
            f"  {kubectl} exec -it mydb-0 -c postgres -- psql -h mydb pgowner pgowner",
            "which this prints from the Secret mydb-binding:",
            f"  {kubectl} get secret mydb-binding -o go-template='{{{{.data.password | base64decode}}}}'",
        ]
    return "\n".join([*lines, ""])
