"""Killed at any of its writes, before or after the commit, the operator reaches the same state as without.

After a restart it holds the Lease again, as a Pod does whose container restarts.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.convergence.crashes import Point, crash, points
from tests.convergence.harness import Harness
from tests.convergence.progress import Progress, few_of, in_chunks
from tests.convergence.scenarios import SAMPLE, SCENARIOS

SAMPLED = 6
CHUNK = 24
"""The weight of the scenarios that are prepared at once."""
HEAL_SECONDS = 30.0
TRIES = 3
"""A scenario may end with a write less than it was references with, where two became one."""


def sweep(harness: Harness, todo: Sequence[Point]) -> None:
    """Each point until it is met, but no oftener than that."""
    harness.restart({})
    progress = Progress("crashes", len(todo))
    wrong: list[str] = []
    missed = list(todo)
    for _ in range(TRIES):
        left, missed = missed, []
        for chunk in in_chunks(left, CHUNK, weight=lambda point: point.scenario.weight):
            runs = {point: harness.open(point.scenario) for point in chunk}
            harness.wait_prepared(list(runs.values()))
            met: list[Point] = []
            for point, run in runs.items():
                (met if crash(harness, run, point) else missed).append(point)
                harness.wait_ended([run], seconds=HEAL_SECONDS)
            wrong += harness.verdict({run: str(point) for point, run in runs.items()})
            harness.close(list(runs.values()))
            progress.step(len(met), wrong, f", {len(missed)} not met")
    assert not wrong, "\n".join(wrong)
    # Of a sample two may be missed: a busy machine puts two writes into one.
    few = max(2, len(todo) / 10)
    assert len(missed) <= few, f"{len(missed)} of {len(todo)} points were not met: the writes have changed"


def test_a_crash_at_any_of_a_few_writes_changes_nothing_in_the_end(harness: Harness) -> None:
    harness.learn(SAMPLE)
    sweep(harness, few_of(points(harness, SAMPLE), SAMPLED))


@pytest.mark.thorough
def test_a_crash_at_any_write_changes_nothing_in_the_end(harness: Harness) -> None:
    harness.learn(SCENARIOS)
    sweep(harness, points(harness, SCENARIOS))
