"""The tools of this machine, as the dynamic providers reach for them.

Apart from the resources so that both ask in one way, and late: a provider is imported on machines that
only preview, where there may be no engine at all.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from pulumi.dynamic import CheckFailure
from pulumi.runtime.rpc import UNKNOWN

from infra import installed_tools
from infra.drivers import in_cluster
from infra.drivers.cluster_context import IN_CLUSTER, ClusterAccess, ClusterContext
from infra.drivers.engine import ContainerEngine
from infra.drivers.kind import KindCli
from infra.drivers.registry import Registry
from infra.errors import KindlingError
from infra.paths import REPOSITORY
from infra.progress import Progress


def engine() -> ContainerEngine:
    """Docker or Podman; raises KindlingError where there is neither."""
    return ContainerEngine.detect()


def kind() -> KindCli:
    """kind on this machine's engine; builds kind where it is missing."""
    return KindCli(_tool("kind"), engine())


def kind_readonly() -> KindCli | None:
    """For questions about clusters, which take the engine alone, so that kind may be missing.

    None where there is no engine: from there nothing can be said.
    """
    try:
        return KindCli.readonly(engine())
    except KindlingError:
        return None


def cluster_context(context: str) -> ClusterAccess:
    """The way into an existing cluster; builds kubectl where it is needed and missing."""
    if context == IN_CLUSTER:
        return in_cluster.InCluster()
    return ClusterContext(_tool("kubectl"), context)


def context_readonly(context: str) -> ClusterAccess | None:
    """The same, None where kubectl would have to be built for it."""
    if context == IN_CLUSTER:
        return in_cluster.InCluster()
    if (found := installed_tools.find("kubectl")) is not None:
        return ClusterContext(found.path, context)
    from infra import bootstrap

    built = bootstrap.Toolchain().survey(["kubectl"])[0].path
    return None if built is None else ClusterContext(built, context)


def _tool(name: str) -> Path:
    if (found := installed_tools.find(name)) is not None:
        return found.path
    # Imported where something is missing: see `infra.bootstrap`.
    from infra import bootstrap

    return bootstrap.Toolchain(progress=progress()).ensure(name)


def registry(repository: str, *, insecure: bool) -> Registry:
    """The registry of `HOST[:PORT]/PATH`."""
    return Registry.of(repository, insecure=insecure)


def progress() -> Progress:
    """Long steps, reported on standard output: Pulumi shows that of a dynamic provider as it comes."""
    return Progress(stream=sys.stdout)


def outside_failures(props: Mapping[str, Any]) -> list[CheckFailure]:
    """A failure for each path of an image that is not inside the repository."""
    found = []
    for key in ("context", "containerfile"):
        path = PurePosixPath(props[key])
        if path.is_absolute() or ".." in path.parts or not (REPOSITORY / path).exists():
            found.append(CheckFailure(key, f"`{path}` is not a path inside the repository"))
    return found


def whole_numbers(value: Any) -> Any:
    """The value with 6443 where Pulumi made it 6443.0: its wire format knows no integers."""
    if isinstance(value, dict):
        return {key: whole_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [whole_numbers(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def is_known(value: Any) -> bool:
    """False for an input that another resource still has to compute, during a preview."""
    return bool(value != UNKNOWN)
