"""Finding out what this machine has, touching nothing and starting as few programs as can be.

The counterpart of `survey`, which decides what it means.
"""

from __future__ import annotations

import os
import platform
import shutil
import socket
from collections.abc import Sequence
from pathlib import Path

from infra import paths, processes
from infra.cli import backend, plain
from infra.cli.survey import CLUSTER, ENVIRONMENT, Cluster, Machine, Need, Part, build_bytes, gib
from infra.drivers import engine as engines
from infra.drivers import images, node_image, packages
from infra.drivers.engine import ContainerEngine
from infra.drivers.kind import Kind
from infra.drivers.maven import MIB
from infra.errors import KindlingError
from infra.progress import Step
from infra.settings import cluster_name, stacks
from infra.toolchain import Toolchain, ToolState, venv
from infra.toolchain.tools import TOOLS

KUBERNETES_PLUGIN = "pulumi-resource-kubernetes"
UP_TOOLS = ("pulumi", "kind", "kubectl")
CREATE = Step("Create or update the stack", 75.0)
CHECK = Step(CREATE.name, 5.0)


def known(stack: str) -> None:
    """Raise `KindlingError` for a stack without a settings file."""
    if stack not in stacks():
        raise KindlingError(
            f"there is no stack `{stack}`",
            why=f"the stacks are {', '.join(stacks())}, each a file Pulumi.STACK.yaml",
            remedy="name one of them, or write that file.",
        )


def tools(stack: str) -> tuple[str, ...]:
    """What bringing the stack up needs: kind only where the cluster is ours to make."""
    return tuple(tool for tool in UP_TOOLS if tool != "kind" or not plain.is_existing(stack))


def look(
    stack: str,
    *,
    toolchain: Toolchain,
    tools: Sequence[str],
    requirements: str = "requirements.txt",
    with_cluster: bool = True,
) -> Machine:
    """Survey for one stack; `with_cluster` False leaves the engine and all that needs it alone."""
    parts = [Part("Python", platform.python_version()), _environment(requirements)]
    tool_parts, builds = _tools(toolchain, tools)
    parts += tool_parts
    wanted = ENVIRONMENT if parts[1].steps else 0
    trouble: list[KindlingError] = []
    cluster: Cluster = "unknown"
    needs: list[Need] = []
    if with_cluster and plain.is_existing(stack):
        cluster = "elsewhere"
        if plain.builds_images(stack):
            engine, part, trouble = _engine()
            parts += [part, _base_image(engine), *_broker(stack)]
        context = plain.context(stack)
        parts += [Part("Cluster", f"existing, context {context}"), _stack(stack, cluster)]
    elif with_cluster:
        engine, part, trouble = _engine()
        parts.append(part)
        cluster, complaint = _cluster(engine, stack)
        trouble += complaint
        if cluster in ("absent", "unknown"):
            image_steps = node_image.plan(engine, toolchain)
            # A tool that is built anyway is not built again for the image.
            image_steps = [step for step in image_steps if step not in builds]
            builds += [step for step in image_steps if step.name != node_image.STEP]
            parts += [_node_image(image_steps), _base_image(engine)]
            needs.append(_need(_storage(engine), CLUSTER))
        parts += [*_broker(stack), _stack(stack, cluster)]
    needs.append(_need(paths.cache_dir(), wanted + build_bytes(builds)))
    return Machine(stack, tuple(parts), tuple(needs), tuple(trouble), cluster)


def port_taken(port: int) -> KindlingError | None:
    """Whether the API server's port is somebody else's; 0 never is."""
    with socket.socket() as probe:
        # Connections that linger after a closed server are no obstacle to kind either.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            return KindlingError(
                f"port {port} (kindling:apiServerPort) can not be used for the cluster",
                why=f"127.0.0.1:{port}: {os.strerror(error.errno or 0)}",
                remedy="end the program that has it, or set another port, or 0 for any free one.",
            )
    return None


def _environment(requirements: str) -> Part:
    if venv.present(requirements):
        return Part("Python packages", "in the cache")
    step = Step(venv.step_name(requirements), venv.SECONDS[requirements])
    return Part("Python packages", "missing", f"install {requirements}, checked by its hashes", (step,))


def _tools(toolchain: Toolchain, names: Sequence[str]) -> tuple[list[Part], list[Step]]:
    """A part for each tool, and all the builds there are."""
    states = toolchain.survey(names)
    if any(state.name == "pulumi" and state.source != "path" for state in states):
        # An ordinary Pulumi fetches this plugin by itself.
        states += toolchain.survey([KUBERNETES_PLUGIN])
    builds = toolchain.plan([state.name for state in states])
    parts = []
    for state in states:
        steps = toolchain.plan([state.name])
        parts.append(Part(state.name, _found(state), state.plan if steps else "", tuple(steps)))
    return parts, builds


def _found(state: ToolState) -> str:
    where = {"path": f"on PATH, {state.path}", "cache": "in the cache", "missing": "missing"}[state.source]
    version = state.version if state.source == "path" else TOOLS[state.name].version
    return where if state.source == "missing" else f"{version}, {where}"


def _engine() -> tuple[ContainerEngine | None, Part, list[KindlingError]]:
    try:
        engine = ContainerEngine.detect()
    except KindlingError as error:
        if not packages.available() or os.environ.get("KINDLING_ENGINE"):
            return None, Part("Container engine", "missing", "nothing can be done as this user"), [error]
        step = Step(engines.INSTALL_STEP, engines.INSTALL_SECONDS)
        return None, Part("Container engine", "missing", "install Podman from the distribution", (step,)), []
    return engine, Part("Container engine", f"{engine.name}, on PATH, {engine.program}"), []


def _cluster(engine: ContainerEngine | None, stack: str) -> tuple[Cluster, list[KindlingError]]:
    if engine is None:
        return "absent", []
    name = cluster_name(stack)
    # kind itself is not needed to ask, so it may still be missing.
    kind = Kind(Path("kind"), engine)
    try:
        if not (nodes := kind.nodes(name)):
            return "absent", []
        kind.incarnation(name)
        if kind.running(name):
            return "running", []
    except processes.ProgramError as error:
        return "unknown", [KindlingError(f"{engine.name} does not answer", why=error.why or error.what)]
    except KindlingError as error:
        return "unknown", [error]
    return "stopped", [
        KindlingError(
            f"the cluster `{name}` is stopped",
            why="its node containers exist but do not run, as after a restart of the machine",
            remedy=f"`{engine.name} start {' '.join(nodes)}` starts it; "
            f"`python3 -m infra destroy {stack}` removes it with its data.",
        )
    ]


def _node_image(steps: Sequence[Step]) -> Part:
    if not steps:
        return Part("Kubernetes node image", "in the engine")
    return Part(
        "Kubernetes node image", "missing", "pull it; where no registry answers, make it", tuple(steps)
    )


def _base_image(engine: ContainerEngine | None) -> Part:
    if engine is not None and any(
        engine.has_image(ref) for ref in (images.OWN_BASE_IMAGE, images.BASE_IMAGE)
    ):
        return Part("Debian base image", "in the engine")
    step = Step(images.BASE_STEP, images.BASE_SECONDS)
    return Part("Debian base image", "missing", "pull it; where no registry answers, make it", (step,))


def _broker(stack: str) -> list[Part]:
    """The broker's download, of a stack that has one."""
    if plain.value(stack, "broker") != "true":
        return []
    artifact = images.broker_download()
    if artifact is None:
        return [Part("Pulsar broker", "in the cache")]
    plan = f"download {artifact.name}, {artifact.size // MIB} MiB"
    return [Part("Pulsar broker", "missing", plan, (artifact.step,))]


def _stack(stack: str, cluster: Cluster) -> Part:
    state = backend.state(stack)
    if state is not None and not state.known and cluster in ("running", "elsewhere"):
        found = f"cluster {cluster}; its record is not on this machine"
        return Part(f"Stack {stack}", found, "compare, change what differs, or create it", (CHECK,))
    count = len(state.resources) if state is not None else 0
    if cluster in ("running", "elsewhere") and count:
        return Part(
            f"Stack {stack}",
            f"{count} resources, cluster {cluster}",
            "compare, change what differs",
            (CHECK,),
        )
    found = "no cluster" if cluster == "absent" else f"cluster {cluster}"
    return Part(f"Stack {stack}", found, "create it", (CREATE,))


def _storage(engine: ContainerEngine | None) -> Path:
    """Where the engine keeps images and containers."""
    if engine is None:
        return Path("/var/lib/containers")
    asked = {"docker": "{{.DockerRootDir}}", "podman": "{{.Store.GraphRoot}}"}[engine.name]
    try:
        return Path(engine.run("info", "--format", asked).strip())
    except KindlingError:
        return Path("/var/lib")


def _need(folder: Path, size: int) -> Need:
    there = folder
    while not there.exists():
        there = there.parent
    return Need(folder, there.stat().st_dev, shutil.disk_usage(there).free, size)


def disk(machine: Machine) -> list[Part]:
    """The survey's lines on disk space, for `doctor`."""
    return [
        Part(
            f"Disk, {need.folder}", f"{gib(need.free)} free", f"needs {gib(need.bytes)}" if need.bytes else ""
        )
        for need in machine.needs
    ]
