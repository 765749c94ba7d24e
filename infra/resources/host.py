"""The tools of this machine, as the dynamic providers reach for them.

Apart from the resources so that both ask in one way, and late: a provider is imported on machines that
only preview, where there may be no engine at all.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pulumi.runtime.rpc import UNKNOWN

from infra.drivers.access import Access
from infra.drivers.engine import ContainerEngine
from infra.drivers.kind import Kind
from infra.drivers.registry import Registry
from infra.errors import KindlingError
from infra.progress import Progress
from infra.toolchain import Toolchain


def engine() -> ContainerEngine:
    """Docker or Podman; raises KindlingError where there is neither."""
    return ContainerEngine.detect()


def kind() -> Kind:
    """kind on this machine's engine; builds kind where it is missing."""
    return Kind(Toolchain(progress=progress()).ensure("kind"), engine())


def kind_to_ask() -> Kind | None:
    """For questions about clusters, which take the engine alone, so that kind may be missing.

    None where there is no engine: from there nothing can be said.
    """
    try:
        return Kind(Path("kind"), engine())
    except KindlingError:
        return None


def access(context: str) -> Access:
    """The way into an existing cluster; builds kubectl where it is missing."""
    return Access(Toolchain(progress=progress()).ensure("kubectl"), context)


def access_to_ask(context: str) -> Access | None:
    """The same, None where kubectl would have to be built for it."""
    path = Toolchain().survey(["kubectl"])[0].path
    return None if path is None else Access(path, context)


def registry(repository: str, *, insecure: bool) -> Registry:
    """The registry of `HOST[:PORT]/PATH`."""
    return Registry.of(repository, insecure=insecure)


def progress() -> Progress:
    """Long steps, told on standard output: Pulumi shows that of a dynamic provider as it comes."""
    return Progress(stream=sys.stdout)


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
