"""Targets: which can be read, which backup each begins with, what PostgreSQL gets."""

from __future__ import annotations

from typing import Any

import pytest
from postgres_backup import targets, wal
from postgres_backup.outcome import Failed, rfc3339
from postgres_backup.targets import Target

from tests.unit.backup.sets import NOON, backup_set

HOUR = 3600
SETS = [
    backup_set(5),
    backup_set(9, full=False, stopped=NOON + HOUR),
    backup_set(20, stopped=NOON + 2 * HOUR),
]


def chosen(target: Target | None, **more: Any) -> str:
    return targets.choose(SETS, target, **more).label


def at(seconds: float) -> Target:
    return Target("time", f"{rfc3339(seconds)[:-1]}.{round(seconds % 1 * 1e6):06}Z")


def test_the_newest_that_was_complete_before_the_target() -> None:
    assert chosen(None) == chosen(Target("immediate", "True")) == "label-20"
    assert chosen(at(NOON + HOUR - 5)) == "label-5"
    assert chosen(at(NOON + HOUR + 1)) == "label-9"
    assert chosen(at(NOON + 9 * HOUR)) == "label-20"
    # By the second, the backup may have ended after it.
    assert chosen(at(NOON + HOUR + 0.9)) == "label-5"
    assert chosen(Target("lsn", wal.text(SETS[1].end_lsn))) == "label-9"
    assert chosen(Target("lsn", wal.text(SETS[1].end_lsn - 1))) == "label-5"
    # Nothing says when these were.
    assert chosen(Target("xid", "900")) == chosen(Target("name", "before")) == "label-5"
    assert chosen(Target("name", "before"), label="label-9") == "label-9"


@pytest.mark.parametrize("target", [at(NOON), Target("lsn", "0/1")])
def test_what_is_before_the_first_is_refused_with_the_limit(target: Target) -> None:
    with pytest.raises(Failed) as raised:
        chosen(target)
    assert raised.value.reason == "TargetTooEarly"
    assert rfc3339(NOON + 1) in raised.value.message
    assert wal.text(SETS[0].end_lsn) in raised.value.message


def test_no_backup_and_no_such_backup() -> None:
    for sets, label in (([], None), (SETS, "label-7")):
        with pytest.raises(Failed) as raised:
            targets.choose(sets, None, label=label)
        assert raised.value.reason == "BackupNotFound"


def test_postgresql_is_given_the_same_moment() -> None:
    given = {"time": "2026-11-24T08:00:00.123456+01:00", "exclusive": True}
    target = Target.read(given)
    assert targets.settings(target) == {
        "recovery_target_time": "2026-11-24 07:00:00.123456+00",
        "recovery_target_inclusive": "off",
        "recovery_target_action": "promote",
    }
    assert targets.settings(None) == {}
    assert targets.settings(Target.read({"immediate": True}))["recovery_target"] == "immediate"
    by_lsn = targets.settings(Target.read({"lsn": "0/5000060", "time": None}))
    assert (by_lsn["recovery_target_lsn"], by_lsn["recovery_target_inclusive"]) == ("0/5000060", "on")


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"time": "2026-11-24T07:00:00Z", "lsn": "0/1"},
        {"time": "2026-11-24T07:00:00"},
        {"time": "yesterday"},
        {"lsn": "12"},
        {"xid": "one"},
        {"immediate": False},
    ],
)
def test_what_is_no_target_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(Failed) as raised:
        Target.read(given)
    assert raised.value.reason == "InvalidRequest"
