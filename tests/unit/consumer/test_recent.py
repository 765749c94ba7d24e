"""Calls of the last five minutes: how many, how many failed, and how long they took."""

from __future__ import annotations

import random

import pytest
from pulsar_consumer.recent import PART_SECONDS, SECONDS, Recent

from tests.unit.consumer.test_failing import Clock


def test_without_a_call_there_is_no_percentile() -> None:
    assert Recent().figures() == {"calls": 0, "failures": 0}


def test_counts_have_two_digits() -> None:
    recent = Recent()
    for number in range(1234):
        recent.called(0.0, failed=number % 10 == 0)
    assert recent.figures() == {"calls": 1200, "failures": 120, "p99Milliseconds": 1}


def test_what_is_older_than_the_window_is_forgotten() -> None:
    clock = Clock()
    recent = Recent(clock=clock)
    for _ in range(20):
        recent.called(1.0, failed=True)
        clock.now += 60
    assert recent.figures()["calls"] in (4, 5)
    clock.now += SECONDS + PART_SECONDS
    assert recent.figures() == {"calls": 0, "failures": 0}


@pytest.mark.parametrize("seed", range(20))
def test_the_percentile_is_that_of_the_calls_to_a_tenth(seed: int) -> None:
    drawn = random.Random(seed)
    times = [drawn.lognormvariate(drawn.uniform(-6, 2), 1) for _ in range(drawn.randrange(1, 2000))]
    recent = Recent()
    for seconds in times:
        recent.called(seconds, failed=False)
    exact = sorted(times)[-(-99 * len(times) // 100) - 1]
    said = recent.figures()["p99Milliseconds"] / 1000
    assert exact * 0.9 - 0.001 <= said <= exact * 1.101 + 0.001
