"""A panel of a dashboard with its queries, in PromQL, and a dashboard of panels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

CHOSEN = '{namespace=~"$namespace"}'
EVERY = "[$__rate_interval]"
"""At least four scrapes; Grafana knows how long that is."""

Query = tuple[str, str]
"""PromQL, and the legend of its series."""


@dataclass(frozen=True, kw_only=True)
class Panel:
    """`width` is of 24 columns. `rare`: in a test, or while all is well, there may be nothing to show."""

    title: str
    queries: tuple[Query, ...]
    type: Literal["timeseries", "stat", "table", "state-timeline"] = "timeseries"
    unit: str = "short"
    width: int = 8
    rare: bool = False
    help: str = ""


@dataclass(frozen=True, kw_only=True)
class Dashboard:
    """`rows` have a heading each. `by_namespace`: it has a variable of that name."""

    name: str
    title: str
    rows: tuple[tuple[str, tuple[Panel, ...]], ...]
    by_namespace: bool = False

    @property
    def panels(self) -> Iterator[Panel]:
        for _, panels in self.rows:
            yield from panels
