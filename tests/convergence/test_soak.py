"""Many resources under everything at once, for long; then all is true, and nothing more is done about it.

Random edits, deletions and tampering, while the operator is killed, the API server lost, watches cut and
requests refused. Afterwards nothing is written, the operator knows what there is and no more, and its memory
is what it was. The random numbers' seed is printed with the rest.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.apiserver.support.cluster import Cluster, cluster
from tests.apiserver.support.operator_process import LEASE_LOST
from tests.convergence.fault_injector import FaultInjector
from tests.convergence.proxy import proxy
from tests.convergence.random_workload import RandomWorkload
from tests.convergence.steady_state import left_over, wait_known, wait_steady, written

MIB = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Measure:
    """How much, and for how long. In the last three fifths of `seconds` nothing happens that would end the
    operator; after the first of them its memory is measured, and at the end.
    """

    resources: int
    seconds: float
    edits_a_second: float
    fault_seconds: float
    quiet_seconds: float
    steady_seconds: float


SHORT = Measure(
    resources=40, seconds=15, edits_a_second=5, fault_seconds=3, quiet_seconds=5, steady_seconds=120
)
LONG = Measure(
    resources=1000, seconds=600, edits_a_second=10, fault_seconds=15, quiet_seconds=60, steady_seconds=600
)
# Of what is in the steady state in memory; beyond it, what an allocator may keep.
GROWTH, SLACK = 1.15, 8 * MIB
TRIES = 3
# A client's buffers and a library's caches come with the first use.
SETTLING_SECONDS = 5.0


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster of its own: its API server is lost, again and again."""
    with cluster(directory=tmp_path / "cluster") as running:
        yield running


@pytest.mark.thorough
@pytest.mark.parametrize("measure", [pytest.param(SHORT, id="short"), pytest.param(LONG, id="long")])
def test_all_comes_to_rest(place: Cluster, tmp_path: Path, measure: Measure) -> None:
    seed = random.randrange(1 << 32)
    draw = random.Random(seed)
    say = Say()
    workload = RandomWorkload(place, place.namespace("soak"), count=measure.resources, draw=draw)
    with (
        proxy(place.operator_plane, directory=tmp_path) as between,
        FaultInjector(place, between, draw=draw) as faults,
    ):
        faults.operator.wait_ready()
        workload.make()
        wait_steady(place, quiet=SETTLING_SECONDS, timeout=measure.steady_seconds)
        say(f"seed {seed}: {measure.resources} resources made and in the steady state")

        _disturb(workload, faults, measure, seconds=measure.seconds * 2 / 5, say=say)
        faults.spare_the_operator()
        before, after = _survive(place, workload, faults, measure, say=say)

        mark = place.audit.mark()
        time.sleep(measure.quiet_seconds)
        assert written(place, mark) == []
        count = wait_known(place, faults.operator, timeout=measure.steady_seconds)
        assert left_over(place) == []
        say(f"nothing written in {measure.quiet_seconds:.0f} s; {count} objects known, as many listed")

        assert faults.operator.stop() == 0
        mark = place.audit.mark()
        faults.start()
        faults.operator.wait_ready()
        place.audit.wait_quiet(seconds=SETTLING_SECONDS)
        assert written(place, mark) == []
        wait_known(place, faults.operator, timeout=measure.steady_seconds)
        say("restarted: nothing written")
        assert after <= before * GROWTH + SLACK


def _survive(
    place: Cluster, workload: RandomWorkload, faults: FaultInjector, measure: Measure, *, say: Say
) -> tuple[float, float]:
    """Two spells that it lives through, and its memory in the steady state after each.

    A machine that stands still for eight seconds has it end, as it should: its lease ran out. Then the
    spells come again.
    """
    for _ in range(TRIES):
        survivor, before = faults.operator.process, len(faults.ended)
        memory = []
        for share in (1 / 5, 2 / 5):
            _disturb(workload, faults, measure, seconds=measure.seconds * share, say=say)
            took = wait_steady(place, quiet=SETTLING_SECONDS, timeout=measure.steady_seconds)
            faults.operator.wait_ready()
            memory.append(_memory(faults))
            done = f"{dict(workload.done)}, {dict(faults.done)}"
            say(f"in the steady state after {took:.0f} s, {memory[-1] / MIB:.1f} MiB; {done}")
        if faults.operator.process is survivor:
            return memory[0], memory[1]
        ended = faults.ended[before:]
        assert {LEASE_LOST}.issuperset(ended), f"ended by itself: {ended}"
        say("its lease ran out meanwhile: once more")
    raise AssertionError(f"its lease ran out each time:\n{faults.operator.log()[-6000:]}")


def _disturb(
    workload: RandomWorkload, faults: FaultInjector, measure: Measure, *, seconds: float, say: Say
) -> None:
    """Edits and faults for so long; with the last one over, the operator runs."""
    began = time.monotonic()
    edited, next_mishap, next_word = 0, measure.fault_seconds, 0.0
    # What a fault held up is made up for, so that there are always as many edits.
    while (gone := time.monotonic() - began) < seconds:
        if gone >= next_mishap:
            faults.one()
            next_mishap += measure.fault_seconds
        if gone >= next_word:
            say(
                f"{gone:.0f} s of {seconds:.0f} s, {workload.done.total()} edits, "
                f"{faults.done.total()} faults"
            )
            next_word += 10
        faults.restart_if_ended()
        workload.edit()
        edited += 1
        time.sleep(max(0.0, began + edited / measure.edits_a_second - time.monotonic()))
    faults.end()
    faults.restart_if_ended()
    faults.operator.wait_ready()


def _memory(faults: FaultInjector) -> float:
    return faults.operator.value("process_resident_memory_bytes")


class Say:
    """Progress, with the time since the start."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def __call__(self, what: str) -> None:
        print(f"[{time.monotonic() - self._began:5.0f} s] {what}", flush=True)
