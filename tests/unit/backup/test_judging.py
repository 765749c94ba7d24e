"""What a recovery proves, when a full backup is due, what a query has to give, what is left of a run."""

from __future__ import annotations

import json

import pytest
from postgres_backup import actions, checks, judging, outcome, wal
from postgres_backup.outcome import Failed
from postgres_backup.request import VOLUME, Folder, Request, S3Store, store_of
from postgres_backup.targets import Target

from tests.unit.backup.sets import NOON, backup_set, later, repository

ENDED = "FATAL:  recovery ended before configured recovery target was reached"
DAY, WEEK = 86400, 7 * 86400
TIME = Target("time", "2026-11-24T07:00:00Z")


@pytest.mark.parametrize(
    ("log", "reason", "said"),
    [
        (f"LOG:  last completed transaction was at log time 2026-11-24 06:59:01.123456+00\n{ENDED}",
         "TargetNotReached",
         "2026-11-24T06:59:01.123456Z"),
        (ENDED, "TargetNotReached", "immediate"),
        ("FATAL:  requested stop point is before consistent recovery point", "TargetTooEarly", "later"),
        ("FATAL:  could not locate required checkpoint record at 0/4000080", "WalGap", "full"),
        ("FATAL:  WAL ends before end of online backup", "WalGap", "full"),
        ("PANIC:  could not write: No space left on device", "VolumeFull", "larger"),
        ("FATAL:  aborted because of insufficient parameter settings", "RestoreFailed", "parameters"),
        # What PostgreSQL takes for the end of the archive was the store's trouble.
        (f"ERROR: [049]: unable to connect to 'store:443'\n{ENDED}", "StoreUnreachable", "store"),
        (f"ERROR: [095]: unable to flush\n{ENDED}", "ChecksumFailed", "damaged"),
        ("something else", "RestoreFailed", "log"),
    ],
)  # fmt: skip
def test_a_server_that_gave_up(log: str, reason: str, said: str) -> None:
    failed = judging.ended(log, TIME)
    assert failed.reason == reason
    assert said in failed.message


def test_an_early_end_and_a_gap_say_where() -> None:
    segment = wal.Segment(6, 1)
    assert segment.name in judging.gap(segment).message
    failed = judging.short(segment.begin, segment)
    assert failed.reason == "WalGap"
    assert failed.facts == {"reachedLSN": "0/6000000", "archivedLSN": "0/7000000"}


def test_a_full_backup_is_due() -> None:
    full, increment = backup_set(5), backup_set(9, full=False, stopped=NOON + DAY)
    kept = repository(full, increment)
    assert actions.full_is_due(None, every=None, now=NOON)
    assert actions.full_is_due(repository(increment), every=None, now=NOON)
    assert not actions.full_is_due(kept, every=None, now=NOON + 99 * WEEK)
    assert not actions.full_is_due(kept, every=WEEK, now=NOON + 6 * DAY)
    # A schedule's run comes a little early at times.
    assert actions.full_is_due(kept, every=WEEK, now=NOON + WEEK - 60)
    assert not actions.full_is_due(repository(full, later(full, WEEK)), every=WEEK, now=NOON + WEEK + DAY)


def test_a_query_has_to_give_what_was_expected() -> None:
    checks.judge("q", "3", rows=1, value=b"3")
    checks.judge("q", None, rows=1, value=None)
    for expect, rows, value in (("3", 1, b"4"), ("3", 1, None), ("3", 0, None), (None, 0, None)):
        with pytest.raises(Failed) as raised:
            checks.judge("q", expect, rows=rows, value=value)
        assert raised.value.reason == "QueryFailed"
        assert "4" not in raised.value.message


def test_a_message_is_whole_and_small_whatever_is_in_it() -> None:
    said = outcome.message("verify", "WalGap", "\x00\né" * 9999, began=0, ended=1, facts={"x": "y" * 9000})
    assert len(said) <= 4096
    found = json.loads(said)
    assert (found["ok"], found["reason"], found["startedAt"]) == (False, "WalGap", "1970-01-01T00:00:00Z")
    assert found["message"].isascii()
    assert found["message"].isprintable()
    good = json.loads(outcome.message("backup", "Succeeded", "x", began=0, ended=1, facts={"label": "l"}))
    assert (good["ok"], good["label"]) == (True, "l")


def test_requests_and_stores_that_cannot_be_used_are_refused_by_name() -> None:
    for given, said in (
        ({"type": "differential"}, "type"),
        ({"amcheck": "All"}, "amcheck"),
        ({"fullEverySeconds": 0}, "fullEverySeconds"),
        ({"queries": [{"sql": "SELECT 1"}]}, "queries[0]"),
        ({"target": {"time": "x"}}, "time"),
    ):
        with pytest.raises(Failed) as raised:
            Request.read(given)
        assert raised.value.reason == "InvalidRequest"
        assert said in raised.value.message
    asked = Request.read({"settings": {"max_connections": 200, "archive_command": "x"}})
    assert asked.settings == {"max_connections": "200"}
    assert Request.read({"type": "full", "target": "ns/db"}).target is None
    for url in ({"url": "ftp://bucket"}, {"url": "gs:///x"}, {}):
        with pytest.raises(Failed):
            store_of({"path": "/x", "accessKeyId": "a", "secretAccessKey": "s", **url})
    for scheme in ("gs", "azblob"):
        assert store_of({"url": f"{scheme}://b/p", "path": "/p/x"}) is None
    place = store_of({"url": "pvc://claim/p", "path": "/p/ns/db/1"})
    assert isinstance(place, Folder)
    assert (place.volume, place.path) == (VOLUME, VOLUME / "p/ns/db/1")
    store = store_of({"url": "s3://b/p", "path": "/p/x", "accessKeyId": "a", "secretAccessKey": "canary"})
    assert isinstance(store, S3Store)
    assert (store.bucket, store.path, store.ca) == ("b", "p/x", None)
    assert "canary" not in repr(store)
