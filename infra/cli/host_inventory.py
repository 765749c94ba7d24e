"""Finding out what this machine has, touching nothing and starting as few programs as can be.

The counterpart of `setup_steps`, which decides what it means.
"""

from __future__ import annotations

import os
import platform
import shutil
import socket
from collections.abc import Sequence
from pathlib import Path

from infra import bootstrap, paths, processes
from infra.bootstrap import TOOLS, Toolchain, ToolState
from infra.cli.setup_steps import (
    CLUSTER,
    ENVIRONMENT,
    Cluster,
    Component,
    DiskNeed,
    HostReport,
    StackProfile,
    build_bytes,
    gib,
)
from infra.cli.stacks import file_backend
from infra.drivers import engine as engines
from infra.drivers import images, node_image
from infra.drivers.engine import ContainerEngine
from infra.drivers.kind import KindCli
from infra.drivers.maven import MIB
from infra.errors import KindlingError
from infra.progress import Step
from infra.project import cluster_name

KUBERNETES_PLUGIN = "pulumi-resource-kubernetes"
CREATE = Step("Create or update the stack", 75.0)
CHECK = Step(CREATE.name, 5.0)
OBJECT_STORE = "Object store"


def inspect_host(
    target: StackProfile,
    *,
    toolchain: Toolchain,
    tools: Sequence[str],
    requirements: str = "requirements.txt",
    with_cluster: bool = True,
) -> HostReport:
    """What the host has and lacks for one stack; without `with_cluster` the engine is not asked for."""
    stack = target.stack
    parts = [Component("Python", platform.python_version()), _environment(requirements)]
    tool_parts, builds = _tools(toolchain, tools)
    parts += tool_parts
    wanted = ENVIRONMENT if parts[1].steps else 0
    problems: list[KindlingError] = []
    cluster: Cluster = "unknown"
    needs: list[DiskNeed] = []
    if with_cluster and target.existing:
        cluster = "elsewhere"
        if target.builds_images:
            engine, part, problems = _engine()
            parts += [part, _base_image(engine), *_broker(target)]
        parts += [Component("Cluster", f"existing, context {target.context}"), _stack(stack, cluster)]
    elif with_cluster:
        engine, part, problems = _engine()
        parts.append(part)
        cluster, complaint = _cluster(engine, stack)
        problems += complaint
        if cluster in ("absent", "unknown"):
            image_steps = [] if node_image.present(engine) else bootstrap.node_image.steps(toolchain)
            # A tool that is built anyway is not built again for the image.
            image_steps = [step for step in image_steps if step not in builds]
            builds += [step for step in image_steps if step.name != bootstrap.node_image.STEP]
            parts += [_node_image(image_steps), _base_image(engine)]
            needs.append(_need(_storage(engine), CLUSTER))
        parts += _broker(target)
        if target.object_store:
            parts.append(_object_store(toolchain))
            builds += parts[-1].steps
        parts.append(_stack(stack, cluster))
    needs.append(_need(paths.cache_dir(), wanted + build_bytes(builds)))
    return HostReport(stack, tuple(parts), tuple(needs), tuple(problems), cluster)


def port_taken(port: int) -> KindlingError | None:
    """Whether the API server's port is in use by another program; 0 never is."""
    with socket.socket() as probe:
        # Connections that linger after a closed server do not hinder kind either.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            return KindlingError(
                f"port {port} (kindling:apiServerPort) cannot be used for the cluster",
                why=f"127.0.0.1:{port}: {os.strerror(error.errno or 0)}",
                remedy="end the program that has it, or set another port, or 0 for any free one.",
            )
    return None


def _environment(requirements: str) -> Component:
    if bootstrap.virtualenv.present(requirements):
        return Component("Python packages", "in the cache")
    step = Step(bootstrap.virtualenv.step_name(requirements), bootstrap.virtualenv.SECONDS[requirements])
    return Component("Python packages", "missing", f"install {requirements}, checked by its hashes", (step,))


def _tools(toolchain: Toolchain, names: Sequence[str]) -> tuple[list[Component], list[Step]]:
    """A part for each tool, and all the builds there are."""
    states = toolchain.survey(names)
    if "pulumi" in names and toolchain.builds_provider():
        states += toolchain.survey([KUBERNETES_PLUGIN])
    builds = toolchain.plan([state.name for state in states])
    parts = []
    for state in states:
        steps = toolchain.plan([state.name])
        parts.append(Component(state.name, _found(state), state.plan if steps else "", tuple(steps)))
    return parts, builds


def _found(state: ToolState) -> str:
    where = {"path": f"on PATH, {state.path}", "cache": "in the cache", "missing": "missing"}[state.source]
    version = state.version if state.source == "path" else TOOLS[state.name].version
    return where if state.source == "missing" else f"{version}, {where}"


def _engine() -> tuple[ContainerEngine | None, Component, list[KindlingError]]:
    try:
        engine = ContainerEngine.detect()
    except KindlingError as error:
        if not bootstrap.apt.available() or os.environ.get("KINDLING_ENGINE"):
            return None, Component("Container engine", "missing", "nothing can be done as this user"), [error]
        step = Step(engines.INSTALL_STEP, engines.INSTALL_SECONDS)
        return (
            None,
            Component("Container engine", "missing", "install Podman from the distribution", (step,)),
            [],
        )
    return engine, Component("Container engine", f"{engine.name}, on PATH, {engine.program}"), []


def _cluster(engine: ContainerEngine | None, stack: str) -> tuple[Cluster, list[KindlingError]]:
    if engine is None:
        return "absent", []
    name = cluster_name(stack)
    kind = KindCli.readonly(engine)
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


def _node_image(steps: Sequence[Step]) -> Component:
    if not steps:
        return Component("Kubernetes node image", "in the engine")
    return Component(
        "Kubernetes node image", "missing", "pull it; where no registry answers, make it", tuple(steps)
    )


def _base_image(engine: ContainerEngine | None) -> Component:
    if engine is not None and any(
        engine.has_image(ref) for ref in (images.OWN_BASE_IMAGE, images.BASE_IMAGE)
    ):
        return Component("Debian base image", "in the engine")
    step = Step(images.BASE_STEP, images.BASE_SECONDS)
    return Component("Debian base image", "missing", "pull it; where no registry answers, make it", (step,))


def _broker(target: StackProfile) -> list[Component]:
    """The broker's download, of a stack that has one."""
    if not target.broker:
        return []
    artifact = images.broker_download()
    if artifact is None:
        return [Component("Pulsar broker", "in the cache")]
    plan = f"download {artifact.name}, {artifact.size // MIB} MiB"
    return [Component("Pulsar broker", "missing", plan, (artifact.step,))]


def _object_store(toolchain: Toolchain) -> Component:
    """The program that the image of the object store is of, unless that was built."""
    if (tool := images.object_store_tool()) is None:
        return Component(OBJECT_STORE, "in the cache")
    (state,) = toolchain.survey([tool])
    steps = toolchain.plan([tool])
    plan = f"build {tool} {TOOLS[tool].version} from its pinned Go module" if steps else ""
    return Component(OBJECT_STORE, _found(state), plan, tuple(steps))


def _stack(stack: str, cluster: Cluster) -> Component:
    state = file_backend.state(stack)
    if state is not None and not state.known and cluster in ("running", "elsewhere"):
        found = f"cluster {cluster}; its state is not on this machine"
        return Component(f"Stack {stack}", found, "compare, change what differs, or create it", (CHECK,))
    count = len(state.resources) if state is not None else 0
    if cluster in ("running", "elsewhere") and count:
        return Component(
            f"Stack {stack}",
            f"{count} resources, cluster {cluster}",
            "compare, change what differs",
            (CHECK,),
        )
    found = "no cluster" if cluster == "absent" else f"cluster {cluster}"
    return Component(f"Stack {stack}", found, "create it", (CREATE,))


def _storage(engine: ContainerEngine | None) -> Path:
    """Where the engine keeps images and containers."""
    if engine is None:
        return Path("/var/lib/containers")
    asked = {"docker": "{{.DockerRootDir}}", "podman": "{{.Store.GraphRoot}}"}[engine.name]
    try:
        return Path(engine.run("info", "--format", asked).strip())
    except KindlingError:
        return Path("/var/lib")


def _need(folder: Path, size: int) -> DiskNeed:
    there = folder
    while not there.exists():
        there = there.parent
    return DiskNeed(folder, there.stat().st_dev, shutil.disk_usage(there).free, size)


def disk(machine: HostReport) -> list[Component]:
    """The report's lines on disk space, for `doctor`."""
    return [
        Component(
            f"Disk, {need.folder}", f"{gib(need.free)} free", f"needs {gib(need.bytes)}" if need.bytes else ""
        )
        for need in machine.needs
    ]
