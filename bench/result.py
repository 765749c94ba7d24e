"""What one measurement found, and the requests of its phases as they are closed one after the other."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from bench.requests import Counts, Log


@dataclass
class Result:
    """`figures` by name; `requests` by phase, then by verb and resource, those of the subject alone."""

    figures: dict[str, float] = field(default_factory=dict)
    requests: dict[str, dict[str, int]] = field(default_factory=dict)


class RequestCounter:
    """The requests of one user since the last phase was closed."""

    def __init__(self, log: Log, *, user: str) -> None:
        self._log, self._user = log, user
        self._seen: Counts = Counter()

    def wrote(self) -> bool:
        """Whether since the last look it wrote, or tried to."""
        return any(asked.write for asked in self._look())

    def forget(self) -> None:
        """What came until now belongs to no phase."""
        self._look()
        self._seen = Counter()

    def close(self, result: Result, phase: str) -> None:
        self._look()
        by_name: Counter[str] = Counter()
        for asked, count in self._seen.items():
            by_name[f"{asked.verb} {asked.resource}"] += count
        writes = {asked: count for asked, count in self._seen.items() if asked.write}
        result.requests[phase] = dict(sorted(by_name.items()))
        result.figures[f"{phase}: writes"] = sum(writes.values())
        result.figures[f"{phase}: writes refused"] = sum(
            count for asked, count in writes.items() if not asked.ok
        )
        self._seen = Counter()

    def _look(self) -> Counts:
        more = self._log.more()
        mine: Counts = Counter({asked: count for asked, count in more.items() if asked.user == self._user})
        self._seen += mine
        return mine
