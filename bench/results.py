"""The results as a table to ask: which figure of whom, for how many, in which round. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from bench.plan import FLOORS
from bench.stats import Summary, summary

Trial = Mapping[str, Any]


class Results:
    """What a run found, as its JSON has it. Cells that failed have the figures from before that."""

    def __init__(self, found: Mapping[str, Any]) -> None:
        self.found = found
        self.cells: Sequence[Trial] = found["cells"]

    @property
    def counts(self) -> list[int]:
        return sorted({cell["count"] for cell in self.cells})

    def subjects(self, kind: str) -> list[str]:
        """In a set order, whoever was first in which round."""
        names = {cell["subject"] for cell in self.cells if cell["kind"] == kind}
        return sorted(names, key=lambda name: (name not in FLOORS, name != "kindling", name))

    @property
    def kinds(self) -> list[str]:
        return sorted({cell["kind"] for cell in self.cells}, key=lambda kind: (kind != "memcached", kind))

    def rounds_of(self, kind: str, count: int, *, subject: str = "") -> int:
        """How many rounds measured this (of this subject, of any); 0 where none did."""
        return len(
            {
                cell["round"]
                for cell in self.cells
                if (cell["kind"], cell["count"]) == (kind, count) and subject in ("", cell["subject"])
            }
        )

    def rounds_said(self, kind: str, count: int) -> str:
        """For a heading: "1 round", "5 rounds"; empty where nobody measured this."""
        rounds = self.rounds_of(kind, count)
        return f"{rounds} round{'s' * (rounds > 1)}" if rounds else ""

    def rounds(self, figure: str, *, subject: str, count: int, kind: str = "memcached") -> dict[int, float]:
        """The figure by round."""
        return {
            cell["round"]: cell["figures"][figure]
            for cell in self.cells
            if (cell["subject"], cell["count"], cell["kind"]) == (subject, count, kind)
            and figure in cell["figures"]
        }

    def figure(
        self, figure: str, *, subject: str, count: int, kind: str = "memcached", each: bool = False
    ) -> Summary | None:
        """Over all rounds; with `each`, for one resource. None where nobody measured it."""
        values = self.rounds(figure, subject=subject, count=count, kind=kind).values()
        parts = [value / count for value in values] if each else list(values)
        return summary(parts) if parts else None

    def ratio(self, figure: str, *, over: str, under: str, count: int, other: str = "") -> Summary | None:
        """`over` by `under`, round by round, since only those are comparable (`other`: that one's figure)."""
        above = self.rounds(figure, subject=over, count=count)
        below = self.rounds(other or figure, subject=under, count=count)
        parts = [above[round] / below[round] for round in above if below.get(round)]
        return summary(parts) if parts else None

    def figures(self, kind: str) -> list[str]:
        """The names of all figures of a kind, in the order of the phases."""
        names: dict[str, None] = {}
        for cell in self.cells:
            if cell["kind"] == kind:
                names.update(dict.fromkeys(cell["figures"]))
        return list(names)

    def requests(self, *, subject: str, count: int, kind: str, phase: str) -> dict[str, float]:
        """Requests for one resource by verb and resource, the median of the rounds."""
        found = [
            cell["requests"].get(phase, {})
            for cell in self.cells
            if (cell["subject"], cell["count"], cell["kind"]) == (subject, count, kind)
        ]
        names = sorted({name for requests in found for name in requests})
        return {name: median(requests.get(name, 0) / count for requests in found) for name in names}

    def asked(self, *, subject: str, count: int, kind: str, phase: str) -> float:
        """Requests for one resource in all, but for Leases and watches: those go by the clock."""
        found = self.requests(subject=subject, count=count, kind=kind, phase=phase)
        timed = {name for name in found if name.startswith("watch ") or name.endswith(" leases")}
        return sum(each for name, each in found.items() if name not in timed)

    def calibration(self, name: str) -> Summary:
        """The machine's own speed through the whole run."""
        return summary([cell["calibration"][name] for cell in self.cells])

    def at(self, wanted: int) -> int:
        """The largest number of resources that was measured and is not above this one; else the least."""
        return max((count for count in self.counts if count <= wanted), default=self.counts[0])
