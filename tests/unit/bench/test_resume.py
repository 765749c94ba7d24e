"""Several sessions make one measurement: whole rounds stand, broken ones are measured again."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from bench import resume
from bench.plan import TrialSpec, turns
from infra.errors import KindlingError

NOW: dict[str, Any] = {"machine": "2 cores", "versions": {"etcd": "3", "kindling": "abc"}}


def planned(*sizes: int, rounds: int = 2) -> list[TrialSpec]:
    subjects = {"floor": ["memcached"], "kindling": ["memcached", "postgresql"]}
    return list(turns(sizes=sizes, rounds=rounds, subjects=subjects, largest={}))


def test_nothing_is_measured_twice() -> None:
    plan = planned(10, 100)
    cells = [asdict(turn) for turn in plan]
    assert resume.left(plan, cells) == (cells, [])


@pytest.mark.parametrize("done", range(1, 6))
def test_a_round_that_was_broken_off_is_measured_as_a_whole(done: int) -> None:
    plan = planned(10)
    cells = [asdict(turn) for turn in plan[:done]]
    whole = done // 3 * 3
    assert resume.left(plan, cells) == (cells[:whole], plan[whole:])


def test_what_the_plan_does_not_ask_for_stands() -> None:
    cells = [asdict(turn) for turn in planned(10)][:2]
    kept, again = resume.left(planned(100), cells)
    assert kept == cells
    assert again == planned(100)


def test_more_rounds_go_on_after_those_that_there_are() -> None:
    cells = [asdict(turn) for turn in planned(10, rounds=2)]
    _, again = resume.left(planned(10, rounds=5), cells)
    assert {turn.round for turn in again} == {3, 4, 5}


@pytest.mark.parametrize(
    ("change", "named"),
    [({"machine": "4 cores"}, "machine"), ({"versions": {"etcd": "3", "kindling": "def"}}, "kindling abc")],
)
def test_other_machines_and_versions_are_not_mixed(change: dict[str, Any], named: str) -> None:
    with pytest.raises(KindlingError, match=named):
        resume.check(NOW, NOW | change)


def test_the_same_may_go_on() -> None:
    resume.check(NOW, NOW)
