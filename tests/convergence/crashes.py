"""The operator killed at one of its writes: which points there are, and one of them carried out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from tests.convergence.harness import Harness, ScenarioRun
from tests.convergence.proxy import Fault
from tests.convergence.scenario import Scenario

FIRE_SECONDS = 30.0


@dataclass(frozen=True)
class Point:
    """Killed at that write of the scenario; at none, it is dead while the act happens."""

    scenario: Scenario
    write: int
    committed: bool

    def __str__(self) -> str:
        if not self.write:
            return "down during the act"
        return f"killed {'after' if self.committed else 'before'} write {self.write}"


def points(harness: Harness, scenarios: Sequence[Scenario]) -> list[Point]:
    """All of them: each effective write, before and after."""
    found = []
    for scenario in scenarios:
        found.append(Point(scenario, 0, False))
        for number, write in enumerate(harness.references[scenario.name].writes, start=1):
            if write.effective:
                found += [Point(scenario, number, committed) for committed in (False, True)]
    return found


def crash(harness: Harness, run: ScenarioRun, point: Point) -> bool:
    """Run the scenario with that crash in it and restart; return whether there was one."""
    if not point.write:
        harness.kill()
        harness.act(run)
        harness.restart()
        return True
    number = harness.proxy.written(run.namespace) + point.write
    harness.proxy.at_write(
        run.namespace, number, Fault(commits=point.committed, first=harness.kill, hangs=True)
    )
    harness.act(run)
    deadline = time.monotonic() + FIRE_SECONDS
    while not harness.proxy.fired(run.namespace, number):
        late = time.monotonic() - deadline
        if (late > 0 or not harness.ended(run)) and harness.proxy.spare(run.namespace, number):
            return False
        assert late < FIRE_SECONDS, f"{run}, {point}: the write was begun and is not over"
        time.sleep(0.05)
    harness.restart()
    return True
