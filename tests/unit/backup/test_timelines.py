"""Timelines: what a history file says, which backups lead to one, what a server is left to hand over."""

from __future__ import annotations

from pathlib import Path

import pytest
from postgres_backup import recovery, timelines, wal
from postgres_backup.outcome import Failed

from tests.unit.backup.sets import backup_set, repository

HISTORY = """\
1\t0/6000100\tbefore 2026-11-24 07:00:00+00

2\t0/9000000\tno recovery target specified
"""


def test_a_history_file_says_where_each_timeline_was_left() -> None:
    assert timelines.parents(HISTORY) == {1: wal.lsn("0/6000100"), 2: wal.lsn("0/9000000")}
    assert timelines.parents("") == {}


def test_a_backup_of_a_branch_that_was_left_leads_nowhere() -> None:
    along = {1: wal.Segment(6, 1).begin + 0x100, 2: None}
    before, after, now = backup_set(5), backup_set(6), backup_set(7, timeline=2)
    assert [timelines.leads(each, along) for each in (before, after, now)] == [True, False, True]
    assert not timelines.leads(now, {1: None}), "one of a restore that was undone"
    with pytest.raises(Failed) as raised:
        recovery._leading(repository(after, now), {1: 5, 3: None})
    assert raised.value.reason == "BackupNotFound"
    assert "timeline 3" in raised.value.message


def test_history_files_are_handed_over_once(tmp_path: Path) -> None:
    log = tmp_path / "pg_wal"
    log.mkdir()
    for name in ("00000002.history", "00000003.history", "000000030000000000000007"):
        (log / name).touch()
    (log / "archive_status").mkdir()
    (log / "archive_status/00000002.history.done").touch()
    timelines.hand_over(tmp_path)
    assert timelines.waiting(tmp_path) == ["00000003.history"]
