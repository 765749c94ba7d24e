"""Quantities compare as numbers, whatever the API server makes of their spelling."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kindling.engine.quantity import quantity


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("1000m", "1"),
        ("1Gi", "1024Mi"),
        ("0.5Gi", "512Mi"),
        (1, "1"),
        ("1e3", "1k"),
        ("1E", "1e18"),
        (".5", "500m"),
    ],
)
def test_equal_however_spelt(left: object, right: object) -> None:
    assert quantity(left) == quantity(right)


def test_binary_is_not_decimal() -> None:
    assert quantity("1Gi") > quantity("1G")


@pytest.mark.parametrize("bad", ["", "Gi", "1 Gi", "1gi", "--1", "1Gi\n", None, True, "١"])
def test_refuses_by_value(bad: object) -> None:
    with pytest.raises(ValueError, match="not a quantity"):
        quantity(bad)


@given(st.integers(-(10**15), 10**15))
def test_milli_is_a_thousandth(number: int) -> None:
    assert quantity(f"{number}m") * 1000 == Decimal(number)
