"""What is there, what is missing, what will be done, and what stands in the way: decided, not found out.

Pure, so that each machine one can think of is a test of a few lines; `machine` finds out.
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


@dataclass(frozen=True)
class Part:
    """One line of the survey. No steps means that nothing is to be done."""

    name: str
    found: str
    plan: str = ""
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True)
class Need:
    """Room wanted in a folder: `bytes` of it, `free` of the file system `device` it is on."""

    folder: Path
    device: int
    free: int
    bytes: int


@dataclass(frozen=True)
class Machine:
    """What was found out about this machine and stack; `trouble` is what can not be helped."""

    stack: str
    parts: tuple[Part, ...]
    needs: tuple[Need, ...] = ()
    trouble: tuple[KindlingError, ...] = ()
    cluster: Cluster = "unknown"
    steps: tuple[Step, ...] = field(default=(), init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", tuple(step for part in self.parts for step in part.steps))

    @property
    def blockers(self) -> list[KindlingError]:
        """What must be mended by a person before anything is touched."""
        return [*self.trouble, *too_little_room(self.needs)]


def build_bytes(steps: Iterable[Step]) -> int:
    """Disk that compiling takes, sources and caches included."""
    seconds = sum(step.seconds for step in steps)
    return round(SOURCES + seconds * PER_SECOND) if seconds else 0


def too_little_room(needs: Sequence[Need]) -> list[KindlingError]:
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


def table(parts: Sequence[Part]) -> str:
    """The parts as aligned columns: what, what is there, what will be done."""
    rows = [("", "now", "to do"), *((part.name, part.found, _to_do(part)) for part in parts)]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    return "\n".join(
        f"  {name:<{widths[0]}}  {found:<{widths[1]}}  {plan}".rstrip() for name, found, plan in rows
    )


def outlook(steps: Sequence[Step]) -> str:
    """How long it will take, in words."""
    seconds = sum(step.seconds for step in steps)
    return f"about {duration(seconds)} in all on two cores" if seconds >= 1 else "a few seconds"


def gib(size: int) -> str:
    """`3.5 GiB`."""
    return f"{size / GIB:.1f} GiB"


def _to_do(part: Part) -> str:
    seconds = sum(step.seconds for step in part.steps)
    if not part.plan:
        return "-"
    return f"{part.plan} (about {duration(seconds)})" if seconds >= 1 else part.plan
