"""Medians, percentiles and growth, which everything that is claimed of the measurements rests on."""

from __future__ import annotations

import pytest

from bench.stats import percentile, slope, summary


def test_summary_and_spread() -> None:
    found = summary([4.0, 1.0, 2.0])
    assert (found.median, found.least, found.greatest) == (2.0, 1.0, 4.0)
    assert found.spread == 1.5
    assert summary([0.0]).spread == 0.0


@pytest.mark.parametrize(
    ("percent", "value"), [(1, 1), (50, 50), (99, 99), (99.5, 100), (100, 100)], ids=lambda each: str(each)
)
def test_percentile_is_the_nearest_rank(percent: float, value: float) -> None:
    assert percentile(list(range(100, 0, -1)), percent) == value


def test_percentile_of_one() -> None:
    assert percentile([7.0], 1) == percentile([7.0], 99) == 7.0


def test_growth() -> None:
    assert slope({100: 50.0, 1000: 59.0, 5000: 99.0}) == pytest.approx(0.01)
