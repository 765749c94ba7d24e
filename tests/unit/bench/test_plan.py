"""The order of the measurements: everyone in every round, nobody always first."""

from __future__ import annotations

from bench.plan import TrialSpec, turns

SUBJECTS = {"floor": ["memcached"], "kindling": ["memcached", "postgresql"], "slow": ["memcached"]}


def planned(**more: int) -> list[TrialSpec]:
    return list(turns(sizes=[10, 100], rounds=4, subjects=SUBJECTS, largest=more))


def test_every_subject_and_kind_in_every_round() -> None:
    found = planned()
    assert len(found) == len(set(found)) == 2 * 4 * 4


def test_rounds_stay_together_and_begin_with_another_each() -> None:
    found = [turn for turn in planned() if turn.count == 10]
    assert [turn.round for turn in found] == sorted(turn.round for turn in found)
    firsts = {(turn.subject, turn.kind) for turn in found[::4]}
    assert len(firsts) == 4


def test_a_subject_may_be_spared_the_largest_sizes() -> None:
    assert {turn.count for turn in planned(slow=10) if turn.subject == "slow"} == {10}
