"""Killed at any of its writes, before or after it is committed, the operator ends where it would have.

The Lease is its own after a restart, as a Pod's whose container begins anew.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from tests.convergence.proxy import Fault
from tests.convergence.scenarios import SAMPLE, SCENARIOS, Scenario
from tests.convergence.stage import Progress, Stage, Telling

SAMPLED = 12
CHUNK = 24
"""How many stories are prepared at once."""
FIRE_SECONDS = 30.0
HEAL_SECONDS = 30.0
TRIES = 3
"""A story may end with a write less than it was learnt with, where two became one."""


@dataclass(frozen=True)
class Point:
    """Killed at that write of the story; at none, it is dead while the act happens."""

    scenario: Scenario
    write: int
    committed: bool

    def __str__(self) -> str:
        if not self.write:
            return "down during the act"
        return f"killed {'after' if self.committed else 'before'} write {self.write}"


def points(made: Stage, scenarios: Sequence[Scenario]) -> list[Point]:
    """All of them: each effective write, before and after."""
    found = []
    for scenario in scenarios:
        found.append(Point(scenario, 0, False))
        for number, write in enumerate(made.learnt[scenario.name].writes, start=1):
            if write.effective:
                found += [Point(scenario, number, committed) for committed in (False, True)]
    return found


def crash(made: Stage, telling: Telling, point: Point) -> bool:
    """Tell the story with that crash in it and restart; whether there was one."""
    if not point.write:
        made.kill()
        made.act(telling)
        made.restart()
        return True
    number = made.proxy.written(telling.namespace) + point.write
    made.proxy.at_write(
        telling.namespace, number, Fault(commits=point.committed, first=made.kill, hangs=True)
    )
    made.act(telling)
    deadline = time.monotonic() + FIRE_SECONDS
    while not made.proxy.fired(telling.namespace, number):
        late = time.monotonic() - deadline
        if (late > 0 or not made.ended(telling)) and made.proxy.spare(telling.namespace, number):
            return False
        assert late < FIRE_SECONDS, f"{telling}, {point}: the write was begun and is not over"
        time.sleep(0.01)
    made.restart()
    return True


def sweep(made: Stage, todo: Sequence[Point]) -> None:
    """Each point until it is met, but no oftener than that."""
    made.restart({})
    progress = Progress("crashes", len(todo))
    wrong: list[str] = []
    missed = list(todo)
    for _ in range(TRIES):
        left, missed = missed, []
        for start in range(0, len(left), CHUNK):
            chunk = left[start : start + CHUNK]
            tellings = {point: made.open(point.scenario) for point in chunk}
            made.wait_prepared(list(tellings.values()))
            met: list[Point] = []
            for point, telling in tellings.items():
                (met if crash(made, telling, point) else missed).append(point)
                made.wait_ended([telling], seconds=HEAL_SECONDS)
            wrong += made.verdict({telling: str(point) for point, telling in tellings.items()})
            made.close(list(tellings.values()))
            progress.step(len(met), wrong, f", {len(missed)} not met")
    assert not wrong, "\n".join(wrong)
    few = len(todo) / 10
    assert len(missed) <= few, f"{len(missed)} of {len(todo)} points were not met: the writes have changed"


def test_a_crash_at_any_of_a_few_writes_changes_nothing_in_the_end(made: Stage) -> None:
    made.learn(SAMPLE)
    every = points(made, SAMPLE)
    sweep(made, every[:: max(1, len(every) // SAMPLED)])


@pytest.mark.thorough
def test_a_crash_at_any_write_changes_nothing_in_the_end(made: Stage) -> None:
    made.learn(SCENARIOS)
    sweep(made, points(made, SCENARIOS))
