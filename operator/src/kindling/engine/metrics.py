"""Counters of what the operator does, as Prometheus' text: a dozen lines by hand instead of a dependency."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping


class Metrics:
    """Counted as things happen, rendered on request. Labels hold kinds and verbs, never names."""

    def __init__(self) -> None:
        self._passes: Counter[tuple[str, str]] = Counter()
        self._seconds: defaultdict[tuple[str], float] = defaultdict(float)
        self._writes: Counter[tuple[str, str]] = Counter()
        self._errors: Counter[tuple[str]] = Counter()
        self._relists: Counter[tuple[str]] = Counter()
        self._ghosts: Counter[tuple[str]] = Counter()

    def reconciled(self, kind: str, outcome: str, seconds: float) -> None:
        self._passes[kind, outcome] += 1
        self._seconds[(kind,)] += seconds

    def wrote(self, verb: str, kind: str) -> None:
        self._writes[verb, kind] += 1

    def failed(self, error: str) -> None:
        self._errors[(error,)] += 1

    def relisted(self, kind: str) -> None:
        self._relists[(kind,)] += 1

    def healed(self, kind: str) -> None:
        self._ghosts[(kind,)] += 1

    def render(self, gauges: Mapping[str, float]) -> str:
        lines: list[str] = []
        for name, value in gauges.items():
            lines += [f"# TYPE {name} gauge", f"{name} {value:g}"]
        for name, labels, counter in (
            ("kindling_reconciles_total", ("kind", "outcome"), self._passes),
            ("kindling_reconcile_seconds_total", ("kind",), self._seconds),
            ("kindling_writes_total", ("verb", "kind"), self._writes),
            ("kindling_errors_total", ("error",), self._errors),
            ("kindling_relists_total", ("kind",), self._relists),
            ("kindling_ghosts_healed_total", ("kind",), self._ghosts),
        ):
            lines.append(f"# TYPE {name} counter")
            for values, count in sorted(counter.items()):
                tags = ",".join(f'{label}="{value}"' for label, value in zip(labels, values, strict=True))
                lines.append(f"{name}{{{tags}}} {count:g}")
        return "\n".join(lines) + "\n"
