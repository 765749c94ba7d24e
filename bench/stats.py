"""Arithmetic on what was measured: medians, spread, percentiles, growth. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Several rounds of one figure: their median, the least and the greatest."""

    median: float
    least: float
    greatest: float

    @property
    def spread(self) -> float:
        """From the least to the greatest, as a part of the median; 0 where that is 0."""
        return (self.greatest - self.least) / self.median if self.median else 0.0


def summary(values: Sequence[float]) -> Summary:
    """Of at least one value."""
    return Summary(median=statistics.median(values), least=min(values), greatest=max(values))


def percentile(values: Sequence[float], percent: float) -> float:
    """The least value that so many percent of all do not exceed (nearest rank); of at least one."""
    ordered = sorted(values)
    rank = -(-len(ordered) * percent // 100)
    return ordered[max(0, int(rank) - 1)]


def slope(points: Mapping[int, float]) -> float:
    """How much y grows for each x, by least squares over at least two points."""
    return statistics.linear_regression(list(points), list(points.values())).slope
