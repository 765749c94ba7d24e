"""What is made of a run's end: the words of its Pod, and the order in which Job and Pod are seen to end."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from kindling.kinds.backup import results
from kindling.kinds.base import Observed, RequeueAfter
from kindling.kinds.conditions import find_condition
from kindling.kinds.metadata import labels_of
from kindling.kinds.restore import Restore
from kindling.kube.resources import JOB, POD, Object, Ref

from tests.unit.operator.backups import KIND, NOW, backup, finished, observed, result, secrets
from tests.unit.operator.test_backup import SETTLED, decided

RESTORE = Restore(image="backup:17")
JUST_NOW = NOW.replace(minute=2, second=5)
"""Seconds after the Job of `finished` ended."""
MINUTE = timedelta(seconds=results.UNSEEN_SECONDS)


def with_run(name: str, **fields: Any) -> tuple[Object, dict[Ref, Object]]:
    """A Backup whose run was begun, and the objects once that has ended."""
    cr = decided(backup(), observed())
    return cr, {**secrets(), **finished(cr, name, **fields)}


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("DatabaseUnreachable", "DatabaseUnreachable"),
        ("UntrustedCertificate", "StoreUnreachable"),
        ("EngineFailed", "RunFailed"),
        (["AccessDenied"], "RunFailed"),
        (None, "RunFailed"),
    ],
)
def test_what_a_failed_run_says_is_the_reason_where_the_list_has_it(said: object, reason: str) -> None:
    message = result(ok=False, reason=said, message="the server's archiver does not answer: wait")
    cr, ended = with_run("nightly-now-1", how="Failed", message=message)
    cr = decided(cr, observed(ended, now=JUST_NOW))
    assert cr["status"]["runs"][0]["reason"] == reason
    ready = find_condition(KIND.status(cr, observed(now=JUST_NOW), SETTLED).status, "Ready")
    assert (ready["status"], ready["reason"]) == ("False", reason)
    assert ready["message"].startswith("The server's archiver does not answer: wait.")


def unseen(objects: dict[Ref, Object], status: Object | None) -> dict[Ref, Object]:
    """The same before the Pod's end was seen: the Pod with that status, or not even the Pod."""
    kept = {ref: obj for ref, obj in objects.items() if ref.type != POD}
    if status is not None:
        kept |= {ref: {**obj, "status": status} for ref, obj in objects.items() if ref.type == POD}
    return kept


PODS = pytest.mark.parametrize(
    "status",
    [
        None,
        {},
        {"phase": "Running", "containerStatuses": [{"name": "run", "state": {"running": {}}}]},
        {"containerStatuses": [{"name": "other", "state": {"terminated": {"exitCode": 0}}}]},
    ],
    ids=["no Pod", "no status", "running", "another container ended"],
)


@PODS
@pytest.mark.parametrize("how", ["Complete", "Failed"])
def test_a_run_whose_pod_is_not_seen_to_have_ended_is_under_way(status: Object | None, how: str) -> None:
    said = result(ok=how == "Complete", reason="AccessDenied", message="m")
    cr, ended = with_run("nightly-now-1", how=how, message=said)
    soon = decided(cr, observed(unseen(ended, status), now=JUST_NOW))
    assert [run["phase"] for run in soon["status"]["runs"]] == ["Running"]
    assert soon["status"]["attempts"]["backup"]["number"] == 1
    known = decided(soon, observed(ended, now=JUST_NOW))
    reason = "Succeeded" if how == "Complete" else "AccessDenied"
    assert [run["reason"] for run in known["status"]["runs"]] == [reason]


@PODS
def test_what_is_not_seen_for_a_minute_is_lost(status: Object | None) -> None:
    cr, ended = with_run("nightly-now-1")
    cr = decided(cr, observed(unseen(ended, status), now=NOW.replace(minute=2) + MINUTE))
    assert [run["reason"] for run in cr["status"]["runs"]] == ["RunFailed"]
    assert "left no result" in cr["status"]["runs"][0]["message"]


def test_a_pod_that_ended_without_a_word_is_not_waited_for() -> None:
    """One that a node evicted has no containers any more."""
    cr, ended = with_run("nightly-now-1", how="Failed")
    cr = decided(cr, observed(unseen(ended, {"phase": "Failed", "reason": "Evicted"}), now=JUST_NOW))
    assert [run["reason"] for run in cr["status"]["runs"]] == ["RunFailed"]


@PODS
def test_a_restore_waits_for_its_pods_word_too(status: Object | None) -> None:
    meta = {"namespace": "ns", "name": "before", "uid": "cr-uid", "generation": 1}
    spec = {"source": {"backupRef": {"name": "nightly"}}, "databaseRef": {"name": "clone"}}
    cr: Object = {"metadata": meta, "spec": spec, "status": {"phase": "Restoring", "attempt": 1}}
    ended = finished(cr, "before-restore-1", action="restore")
    for obj in ended.values():
        obj["metadata"]["labels"] |= labels_of(RESTORE.type, cr)
    before = RESTORE.durable_state(cr, Observed(objects=unseen(ended, status), now=JUST_NOW, entropy=b""))
    assert before == {}
    after = RESTORE.durable_state(cr, Observed(objects=ended, now=JUST_NOW, entropy=b""))
    assert after["phase"] == "Restored"
    assert Ref(JOB, "ns", "before-restore-1") in ended


@pytest.mark.parametrize(
    ("status", "seconds"),
    [
        ({}, 30.0),
        ({"failure": {"attempt": 1, "at": "2026-01-01T00:02:00Z"}}, 25.0),
        # The second attempt runs, and the first one's failure still stands there.
        ({"attempt": 2, "failure": {"attempt": 1, "at": "2026-01-01T00:00:00Z"}}, 30.0),
    ],
)
def test_a_restore_under_way_is_not_asked_after_twice_a_second(status: Object, seconds: float) -> None:
    meta = {"namespace": "ns", "name": "before", "uid": "cr-uid", "generation": 1}
    spec = {"source": {"backupRef": {"name": "nightly"}}, "databaseRef": {"name": "clone"}}
    cr: Object = {"metadata": meta, "spec": spec, "status": {"phase": "Restoring", **status}}
    seen = Observed(objects={}, now=JUST_NOW, entropy=b"")
    assert RESTORE.status(cr, seen, SETTLED).result == RequeueAfter(seconds)
