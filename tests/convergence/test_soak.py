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

from tests.apiserver.cluster import Cluster, cluster
from tests.apiserver.operator_process import LEASE_LOST
from tests.convergence.edits import Crowd
from tests.convergence.mishaps import Mishaps
from tests.convergence.proxy import proxy
from tests.convergence.rest import left_over, wait_at_rest, wait_known, written

MIB = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Measure:
    """How much, and for how long. In the last three fifths of `seconds` nothing happens that would end the
    operator; after the first of them its memory is measured, and at the end.
    """

    resources: int
    seconds: float
    edits_a_second: float
    mishap_seconds: float
    quiet_seconds: float
    rest_seconds: float


SHORT = Measure(
    resources=40, seconds=15, edits_a_second=5, mishap_seconds=3, quiet_seconds=5, rest_seconds=120
)
LONG = Measure(
    resources=1000, seconds=600, edits_a_second=10, mishap_seconds=15, quiet_seconds=60, rest_seconds=600
)
# Of what is at rest in memory; beyond it, what an allocator may keep.
GROWTH, SLACK = 1.15, 8 * MIB
TRIES = 3
# A client's buffers and a library's caches come with the first use.
SETTLING_SECONDS = 5.0


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster of its own: its API server is lost, again and again."""
    with cluster(directory=tmp_path / "cluster") as running:
        yield running


@pytest.mark.parametrize(
    "measure", [pytest.param(SHORT, id="short"), pytest.param(LONG, id="long", marks=pytest.mark.thorough)]
)
def test_all_comes_to_rest(place: Cluster, tmp_path: Path, measure: Measure) -> None:
    seed = random.randrange(1 << 32)
    draw = random.Random(seed)
    say = Say()
    crowd = Crowd(place, place.namespace("soak"), count=measure.resources, draw=draw)
    with (
        proxy(place.operator_plane, directory=tmp_path) as between,
        Mishaps(place, between, draw=draw) as mishaps,
    ):
        mishaps.operator.wait_ready()
        crowd.make()
        wait_at_rest(place, quiet=SETTLING_SECONDS, timeout=measure.rest_seconds)
        say(f"seed {seed}: {measure.resources} resources made and at rest")

        _trouble(crowd, mishaps, measure, seconds=measure.seconds * 2 / 5, say=say)
        mishaps.spare_the_operator()
        before, after = _survive(place, crowd, mishaps, measure, say=say)

        mark = place.audit.mark()
        time.sleep(measure.quiet_seconds)
        assert written(place, mark) == []
        count = wait_known(place, mishaps.operator, timeout=measure.rest_seconds)
        assert left_over(place) == []
        say(f"nothing written in {measure.quiet_seconds:.0f} s; {count} objects known, as many listed")

        assert mishaps.operator.stop() == 0
        mark = place.audit.mark()
        mishaps.start()
        mishaps.operator.wait_ready()
        place.audit.wait_quiet(seconds=SETTLING_SECONDS)
        assert written(place, mark) == []
        wait_known(place, mishaps.operator, timeout=measure.rest_seconds)
        say("started anew: nothing written")
        assert after <= before * GROWTH + SLACK


def _survive(
    place: Cluster, crowd: Crowd, mishaps: Mishaps, measure: Measure, *, say: Say
) -> tuple[float, float]:
    """Two spells that it lives through, and its memory at rest after each.

    A machine that stands still for eight seconds has it end, as it should: its lease ran out. Then the
    spells come again.
    """
    for _ in range(TRIES):
        survivor, before = mishaps.operator.process, len(mishaps.ended)
        memory = []
        for share in (1 / 5, 2 / 5):
            _trouble(crowd, mishaps, measure, seconds=measure.seconds * share, say=say)
            took = wait_at_rest(place, quiet=SETTLING_SECONDS, timeout=measure.rest_seconds)
            mishaps.operator.wait_ready()
            memory.append(_memory(mishaps))
            done = f"{dict(crowd.done)}, {dict(mishaps.done)}"
            say(f"at rest after {took:.0f} s, {memory[-1] / MIB:.1f} MiB; {done}")
        if mishaps.operator.process is survivor:
            return memory[0], memory[1]
        ended = mishaps.ended[before:]
        assert {LEASE_LOST}.issuperset(ended), f"ended by itself: {ended}"
        say("its lease ran out meanwhile: once more")
    raise AssertionError(f"its lease ran out each time:\n{mishaps.operator.log()[-6000:]}")


def _trouble(crowd: Crowd, mishaps: Mishaps, measure: Measure, *, seconds: float, say: Say) -> None:
    """Edits and mishaps for so long; with the last one over, the operator runs."""
    began = time.monotonic()
    edited, next_mishap, next_word = 0, measure.mishap_seconds, 0.0
    # What a mishap held up is made up for, so that there are always as many edits.
    while (gone := time.monotonic() - began) < seconds:
        if gone >= next_mishap:
            mishaps.one()
            next_mishap += measure.mishap_seconds
        if gone >= next_word:
            say(
                f"{gone:.0f} s of {seconds:.0f} s, {crowd.done.total()} edits, {mishaps.done.total()} mishaps"
            )
            next_word += 10
        mishaps.tend()
        crowd.edit()
        edited += 1
        time.sleep(max(0.0, began + edited / measure.edits_a_second - time.monotonic()))
    mishaps.end()
    mishaps.tend()
    mishaps.operator.wait_ready()


def _memory(mishaps: Mishaps) -> float:
    return mishaps.operator.value("process_resident_memory_bytes")


class Say:
    """Progress, with the time since the start."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def __call__(self, what: str) -> None:
        print(f"[{time.monotonic() - self._began:5.0f} s] {what}", flush=True)
