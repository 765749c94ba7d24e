"""Positions, segments, and which of them are missing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from postgres_backup import wal
from postgres_backup.wal import Segment


@given(st.integers(0, 2**64 - 1))
def test_a_position_is_read_as_it_is_written(position: int) -> None:
    assert wal.lsn(wal.text(position)) == position


@given(st.integers(0, 2**40 - 1), st.integers(1, 2**32 - 1))
def test_a_segment_is_read_as_it_is_written(number: int, timeline: int) -> None:
    assert Segment.of(Segment(number, timeline).name) == Segment(number, timeline)


def test_as_postgresql_counts() -> None:
    assert wal.text(wal.lsn("16/B374D848")) == "16/B374D848"
    segment = Segment.of("0000000100000016000000B3")
    assert (wal.text(segment.begin), wal.text(segment.end)) == ("16/B3000000", "16/B4000000")
    assert Segment(segment.number + 0x4D, 1).name == "000000010000001700000000"
    for wrong in ("16B374D848", "x/y"):
        with pytest.raises(ValueError, match=r"LSN|invalid literal"):
            wal.lsn(wrong)
    for wrong in ("00000002.history", "0000000100000016000000B3.partial", ""):
        with pytest.raises(ValueError, match="WAL segment"):
            Segment.of(wrong)


def names(*numbers: int, timeline: int = 1) -> list[str]:
    return [Segment(number, timeline).name for number in numbers]


def test_a_gap_is_found_wherever_it_is() -> None:
    begin = Segment(255, 1).name
    assert wal.archived(names(255, 256, 257), begin=begin, branches={1: None}) == wal.Archived(
        Segment(257, 1), None
    )
    for missing in (255, 256):
        there = names(*({255, 256, 257} - {missing}))
        found = wal.archived(there, begin=begin, branches={1: None})
        assert found == wal.Archived(Segment(257, 1), Segment(missing, 1))
    assert wal.archived(names(1, 254), begin=begin, branches={1: None}) is None
    # Older ones are no gap, the order is none of ours.
    assert wal.archived(names(256, 255, 3), begin=begin, branches={1: None}) == wal.Archived(
        Segment(256, 1), None
    )


def test_a_clones_segments_do_not_count_and_those_before_a_switch_do() -> None:
    begin = Segment(5, 1).name
    clone = names(5, 6) + names(6, 7, 8, timeline=2)
    assert wal.archived(clone, begin=begin, branches={1: None}) == wal.Archived(Segment(6, 1), None)
    along = {1: Segment(6, 1).begin + 0x100, 2: None}
    assert wal.archived(clone, begin=begin, branches=along) == wal.Archived(Segment(8, 2), None)


def test_a_branch_that_was_left_does_not_count() -> None:
    """The server was restored in place to a moment in segment 6, after which it had written up to 9."""
    begin, along = Segment(5, 1).name, {1: Segment(6, 1).begin + 0x100, 2: None}
    there = names(5, 6, 7, 8, 9) + names(6, 7, timeline=2)
    assert wal.archived(there, begin=begin, branches=along) == wal.Archived(Segment(7, 2), None)
    lost = names(5, 6, 7, 8, 9) + names(8, timeline=2)
    assert wal.archived(lost, begin=begin, branches=along) == wal.Archived(Segment(8, 2), Segment(7, 2))


def test_the_last_segment_must_have_been_replayed() -> None:
    last = Segment(6, 1)
    assert wal.reaches(last.begin + 0x60, last)
    assert wal.reaches(last.end, last)
    # What a segment that was closed early leaves, with the next one not replayed.
    assert not wal.reaches(last.begin, last)
    assert not wal.reaches(last.begin - 1, last)
