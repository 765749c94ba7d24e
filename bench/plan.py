"""What is measured in which order: every subject in each round, another one first each time. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

FLOOR, CREATED = "floor", "floor, created"
FLOORS = (FLOOR, CREATED)
# A setting with a limit on its requests would take most of a day for the largest size.
LARGEST: Mapping[str, int] = {"go, 20 requests/s": 1000}


@dataclass(frozen=True, kw_only=True)
class TrialSpec:
    """One measurement to come."""

    round: int
    count: int
    subject: str
    kind: str

    def __str__(self) -> str:
        return f"round {self.round}: {self.count} {self.kind}, {self.subject}"


def turns(
    *, sizes: Sequence[int], rounds: int, subjects: Mapping[str, Sequence[str]], largest: Mapping[str, int]
) -> Iterator[TrialSpec]:
    """`subjects` have their kinds. All of one size and round follow each other: those are compared."""
    each = [(subject, kind) for subject, kinds in subjects.items() for kind in kinds]
    for count in sizes:
        for round in range(1, rounds + 1):
            first = (round - 1) % len(each)
            for subject, kind in each[first:] + each[:first]:
                if count <= largest.get(subject, count):
                    yield TrialSpec(round=round, count=count, subject=subject, kind=kind)


def seconds(turn: TrialSpec, *, rest_seconds: float) -> float:
    """About how long it takes on two cores, most of it the controllers' and not the subject's."""
    if turn.subject in FLOORS:
        return 8 + 0.06 * turn.count
    each = 0.35 if "as scaffolded" in turn.subject else 1.0 if "20 requests" in turn.subject else 0.15
    return 45 + rest_seconds + each * turn.count
