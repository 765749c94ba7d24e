"""How far a Restore is: which Pod is asked, and what is made of its answer."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kindling.kinds.backup import runs
from kindling.kinds.base import CachedResult, ExternalResult, Observed, SyncResult
from kindling.kinds.conditions import find_condition
from kindling.kinds.http import HttpRequest
from kindling.kinds.metadata import labels_of, owner_of
from kindling.kinds.restore import Restore, progress
from kindling.kube.resources import JOB, NETWORK_POLICY, POD, Object, Ref
from postgres_backup import progress_page
from postgres_backup.__main__ import SERVED
from postgres_backup.request import TARGET_FILES

from tests.unit.operator.backups import NOW

KIND = Restore(image="backup:17", operator_namespace="ops")
KNOWN = {"step": "Download", "bytes": 100, "totalBytes": 1000, "percent": 10}


def restore(phase: str = "Restoring", **status: Any) -> Object:
    return {
        "apiVersion": "database.technotuesday.io/v1",
        "kind": "Restore",
        "metadata": {"name": "back", "namespace": "ns", "uid": "cr-uid", "generation": 1},
        "spec": {"source": {"backupRef": {"name": "nightly"}}, "databaseRef": {"name": "copy"}},
        "status": {"phase": phase, "attempt": 1, "source": {"systemIdentifier": "7"}, **status},
    }


def observed(cr: Object, *, answer: ExternalResult | None = None, **pod_status: Any) -> Observed:
    """With the Pod of its run, and that answer of it."""
    labels = {**labels_of(KIND.type, cr), "kindling.dev/run": "restore"}
    meta = {"namespace": "ns", "labels": labels, "creationTimestamp": "2026-01-01T00:01:00Z"}
    owned = {"ownerReferences": [owner_of(KIND.type, cr)]}
    job = {"metadata": {**meta, "name": "back-restore-1", "uid": "job-uid", **owned}, "status": {}}
    pod = {
        "metadata": {
            **meta, "name": "back-restore-1-x", "uid": "pod-uid",
            "labels": {**labels, "batch.kubernetes.io/job-name": "back-restore-1"},
        },
        "status": {"phase": "Running", "podIP": "10.0.0.7", **pod_status},
    }  # fmt: skip
    found = Observed(
        objects={Ref(JOB, "ns", "back-restore-1"): job, Ref(POD, "ns", "back-restore-1-x"): pod},
        now=NOW,
        entropy=b"e" * 32,
    )
    if answer is None:
        return found
    (key,) = (probe.cache_key for probe in KIND.probes(cr, found).values())
    return replace(found, results={"run": CachedResult(cache_key=key, result=answer, at=NOW)})


def says(body: object) -> ExternalResult:
    text = body if isinstance(body, str) else json.dumps(body)
    return ExternalResult(ok=True, facts={"status": 200, "body": text})


def status(cr: Object, seen: Observed) -> Object:
    return KIND.status(cr, seen, SyncResult(in_sync=True)).status


def test_the_pod_of_the_run_is_asked_while_it_restores() -> None:
    probe = KIND.probes(restore(), observed(restore()))["run"]
    assert probe.request == HttpRequest(
        namespace="ns", host="10.0.0.7", port=8433, pod="back-restore-1-x", path="/progress"
    )
    for phase in ("Stopping", "Restored", "Completed", "Failed", "Undoing"):
        assert KIND.probes(restore(phase), observed(restore())) == {}
    nowhere = ({"podIP": None}, {"podIP": "shop.example"}, {"podIP": "fe80::1%eth0"})
    for pod in (*nowhere, {"phase": "Pending"}, {"phase": "Succeeded"}):
        assert KIND.probes(restore(), observed(restore(), **pod)) == {}


def test_the_run_serves_what_is_asked_for() -> None:
    assert (progress.PORT, progress.PATH) == (progress_page.PORT, progress_page.PATH)
    assert set(SERVED) == {runs.RESTORE, runs.LOAD}
    assert Path(runs.TARGET) == TARGET_FILES


def test_the_operator_alone_may_connect() -> None:
    (policy,) = (
        child for child in KIND.desired(restore(), observed(restore())) if child.ref.type == NETWORK_POLICY
    )
    (rule,) = policy.body["spec"]["ingress"]
    assert rule["ports"] == [{"port": 8433, "protocol": "TCP"}]
    (peer,) = rule["from"]
    assert peer["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "ops"}
    assert peer["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "operator"


def test_its_answer_is_in_the_status_and_in_words() -> None:
    cr = restore()
    answer = says({"phase": "download", "bytes": 256_789_000, "of": 1_024_000_000, "seconds": 61.0})
    found = status(cr, observed(cr, answer=answer))
    # 767 of 1024 MB are left, at 4.2 MB in a second.
    assert found["progress"] == {
        "step": "Download", "bytes": 250_000_000, "totalBytes": 1_024_000_000, "percent": 25,
        "secondsLeft": 180,
    }  # fmt: skip
    assert find_condition(found, "Ready")["message"] == (
        "The data is being restored into volume copy-data: Download is at 25 %, with about 180 s left."
    )


def test_no_time_is_estimated_of_nothing() -> None:
    cr = restore()
    for said in ({"bytes": 0, "seconds": 60}, {"bytes": 40, "seconds": 1}):
        answer = says({"phase": "replay", "of": 1000, **said})
        progress = status(cr, observed(cr, answer=answer))["progress"]
        assert progress["step"] == "Replay"
        assert "secondsLeft" not in progress


def test_the_last_answer_stays_until_there_is_another() -> None:
    cr = restore(progress=KNOWN)
    assert status(cr, observed(cr))["progress"] == KNOWN
    silent = ExternalResult(ok=False, reason="NotResponding", message="GET /progress failed")
    found = status(cr, observed(cr, answer=silent))
    assert "progress" not in found
    assert "kubectl logs job/back-restore-1" in find_condition(found, "Ready")["message"]
    over = restore("Restored", progress=KNOWN)
    assert "progress" not in status(over, observed(over))


@pytest.mark.parametrize("said", ["", "[]", "1", "null", "{", "[" * 4000, '{"phase": 1}', '{"phase": "x"}'])
def test_what_is_no_answer_is_none(said: str) -> None:
    cr = restore()
    assert "progress" not in status(cr, observed(cr, answer=says(said)))


NUMBERS = st.one_of(
    st.integers(),
    st.integers(0, 9),
    st.floats(),
    st.floats(0, 9),
    st.none(),
    st.booleans(),
    st.text(max_size=3),
)


@given(done=NUMBERS, of=NUMBERS, seconds=NUMBERS)
def test_whatever_the_numbers_are_the_status_is_valid(done: object, of: object, seconds: object) -> None:
    cr = restore()
    answer = says({"phase": "download", "bytes": done, "of": of, "seconds": seconds})
    progress = status(cr, observed(cr, answer=answer))["progress"]
    assert progress.pop("step") == "Download"
    assert all(isinstance(value, int) and 0 <= value < 2**63 for value in progress.values())
    assert progress.get("percent", 0) <= 100
    assert progress.get("totalBytes", 1) >= 1
