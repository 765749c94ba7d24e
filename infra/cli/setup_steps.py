"""What is there, what is missing, what will be done, and what blocks: decided, not found out.

Pure, so that each machine one can think of is a test of a few lines; `host_inventory` finds out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from infra.errors import KindlingError
from infra.progress import Step, duration

GIB = 2**30
# Measured on a machine that built everything: 4 GiB of sources, 1 GiB for each 100 s of compiling.
SOURCES = 4 * GIB
PER_SECOND = GIB // 100
ENVIRONMENT = GIB // 2
# The node image (1.2 GiB, twice while it is made), the others, and what a running cluster writes.
CLUSTER = 6 * GIB

Cluster = Literal["absent", "running", "stopped", "elsewhere", "unknown"]


UP_TOOLS = ("pulumi", "kind", "kubectl")


@dataclass(frozen=True)
class StackProfile:
    """What a stack needs. As it is left out here, it takes the most that one of the repository does: a kind
    cluster with a broker.
    """

    stack: str
    existing: bool = False
    builds_images: bool = True
    context: str = ""
    broker: bool = True
    object_store: bool = False

    @property
    def tools(self) -> tuple[str, ...]:
        """What bringing the stack up needs: kind only where the cluster is ours to make."""
        return tuple(tool for tool in UP_TOOLS if tool != "kind" or not self.existing)


@dataclass(frozen=True)
class Component:
    """One line of the report. No steps means that nothing is to be done."""

    name: str
    found: str
    plan: str = ""
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True)
class DiskNeed:
    """Space needed in a folder: `bytes` of it, `free` of the file system `device` it is on."""

    folder: Path
    device: int
    free: int
    bytes: int


@dataclass(frozen=True)
class HostReport:
    """What was found out about this machine and stack; `problems` is what a person must fix."""

    stack: str
    parts: tuple[Component, ...]
    needs: tuple[DiskNeed, ...] = ()
    problems: tuple[KindlingError, ...] = ()
    cluster: Cluster = "unknown"
    steps: tuple[Step, ...] = field(default=(), init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", tuple(step for part in self.parts for step in part.steps))

    @property
    def blockers(self) -> list[KindlingError]:
        """What a person must fix before anything is touched."""
        return [*self.problems, *disk_errors(self.needs)]


def build_bytes(steps: Iterable[Step]) -> int:
    """Disk that compiling takes, sources and caches included."""
    seconds = sum(step.seconds for step in steps)
    return round(SOURCES + seconds * PER_SECOND) if seconds else 0


def disk_errors(needs: Sequence[DiskNeed]) -> list[KindlingError]:
    """One error per file system; needs on the same one add up."""
    errors = []
    for device in dict.fromkeys(need.device for need in needs):
        on_it = [need for need in needs if need.device == device and need.bytes]
        wanted = sum(need.bytes for need in on_it)
        if on_it and wanted > on_it[0].free:
            folders = " and ".join(str(need.folder) for need in on_it)
            errors.append(
                KindlingError(
                    f"too little disk space for {folders}",
                    why=f"{gib(wanted)} are needed for what is to be made, {gib(on_it[0].free)} are free",
                    remedy="free some, or point KINDLING_CACHE to a folder on a larger disk.",
                )
            )
    return errors


def table(parts: Sequence[Component]) -> str:
    """The parts as aligned columns: what, what is there, what will be done."""
    rows = [("", "now", "to do"), *((part.name, part.found, _to_do(part)) for part in parts)]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    return "\n".join(
        f"  {name:<{widths[0]}}  {found:<{widths[1]}}  {plan}".rstrip() for name, found, plan in rows
    )


def estimate(steps: Sequence[Step]) -> str:
    """How long it will take, as a phrase."""
    seconds = sum(step.seconds for step in steps)
    return f"about {duration(seconds)} in all on two cores" if seconds >= 1 else "a few seconds"


def gib(size: int) -> str:
    """`3.5 GiB`."""
    return f"{size / GIB:.1f} GiB"


def _to_do(part: Component) -> str:
    seconds = sum(step.seconds for step in part.steps)
    if not part.plan:
        return "-"
    return f"{part.plan} (about {duration(seconds)})" if seconds >= 1 else part.plan
