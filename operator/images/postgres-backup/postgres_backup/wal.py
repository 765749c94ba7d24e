"""Arithmetic of the write-ahead log: positions (LSN) as integers, segments by name, what is missing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

SEGMENT_BYTES = 16 * 1024 * 1024
"""The default of initdb, which Kindling keeps."""
_PER_FILE = 0x1_0000_0000 // SEGMENT_BYTES
_NAME = re.compile(r"^[0-9A-F]{24}$")


def lsn(text: str) -> int:
    """The integer of `16/B374D848`; raises `ValueError` for anything else."""
    high, slash, low = text.partition("/")
    if not slash:
        raise ValueError(f"{text!r} is no LSN")
    return (int(high, 16) << 32) + int(low, 16)


def text(position: int) -> str:
    """As PostgreSQL writes it."""
    return f"{position >> 32:X}/{position & 0xFFFF_FFFF:X}"


@dataclass(frozen=True, order=True)
class Segment:
    """One file of WAL: the `number`th of them since the beginning, on a timeline."""

    number: int
    timeline: int

    @staticmethod
    def of(name: str) -> Segment:
        """:raises ValueError: for a name that is no segment's, such as that of a history file."""
        if not _NAME.match(name):
            raise ValueError(f"{name!r} is no WAL segment")
        file, part = int(name[8:16], 16), int(name[16:24], 16)
        return Segment(file * _PER_FILE + part, int(name[:8], 16))

    @property
    def name(self) -> str:
        file, part = divmod(self.number, _PER_FILE)
        return f"{self.timeline:08X}{file:08X}{part:08X}"

    @property
    def begin(self) -> int:
        return self.number * SEGMENT_BYTES

    @property
    def end(self) -> int:
        return self.begin + SEGMENT_BYTES


@dataclass(frozen=True)
class Archived:
    """What a recovery along a timeline finds of WAL: up to `last`, but for `missing`, the first gap."""

    last: Segment
    missing: Segment | None


def archived(names: Iterable[str], *, begin: str, branches: Mapping[int, int | None]) -> Archived | None:
    """Of a backup that needs WAL from the segment `begin`; None where there is no segment from there on.

    `branches` are the timelines that are recovered along, each with the position where it was left; None for
    the last. Any other segment is of a branch that was left, or of a clone that pushed into its source's
    archive, and does not count.
    """
    first = Segment.of(begin)
    found = {
        segment.number
        for segment in map(Segment.of, names)
        if segment.number >= first.number and _passes(segment, branches)
    }
    if not found:
        return None
    timeline = max(branches)
    last = Segment(max(found), timeline)
    for number in range(first.number, last.number):
        if number not in found:
            return Archived(last, Segment(number, timeline))
    return Archived(last, None)


def _passes(segment: Segment, branches: Mapping[int, int | None]) -> bool:
    if segment.timeline not in branches:
        return False
    left = branches[segment.timeline]
    return left is None or segment.begin <= left


def reaches(reached: int, last: Segment) -> bool:
    """Whether a recovery that ended at `reached` has replayed the last segment.

    Its last record usually goes on in the next segment, which is not there yet, so the segment's end is not
    to be asked for. Where the segment before was closed early, recovery is at its very beginning without it.
    """
    return reached > last.begin
