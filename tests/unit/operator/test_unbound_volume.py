"""A claim that gets no volume: when that is said, whose fault it is, and when it is looked at again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from kindling.kinds.base import Done, Observed, RequeueAfter, WarningEvent
from kindling.kinds.conditions import find_condition
from kindling.kinds.postgresql.unbound import SELECTED_NODE
from kindling.kube.resources import VOLUME_CLAIM, Object, Ref

from tests.unit.operator import postgresqls
from tests.unit.operator.test_progress import DB, SETTLED, at, pod, status_at, workload

CLAIM = Ref(VOLUME_CLAIM, "ns", "db-data")
AT_ONCE = "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found"
STATIC = "0/3 nodes are available: 3 node(s) didn't find available persistent volumes to bind"
FULL = "0/3 nodes are available: 3 Insufficient memory."
UNKNOWN = WarningEvent("ProvisioningFailed", 'storageclass "fast" not found', "")


def claim(*, phase: str = "Pending", storage_class: str | None = "fast", chosen: bool = False) -> Object:
    meta: Object = {"namespace": "ns", "name": "db-data", "uid": "claim-uid"}
    if chosen:
        meta["annotations"] = {SELECTED_NODE: "node-1"}
    spec = {"storageClassName": storage_class} if storage_class is not None else {}
    return {"metadata": meta, "spec": spec, "status": {"phase": phase}}


def unplaced(said: str) -> Object:
    found = pod({}, PodScheduled="False")
    found["status"]["conditions"][0]["message"] = said
    return found


def not_yet_placed() -> Object:
    found = pod({})
    found["status"]["conditions"] = []
    return found


def judged(seconds: float, found: Object, volume: Object, said: WarningEvent | None = None) -> Any:
    """Ready's reason, whether it is a fault, the seconds until it is looked at again, and the message."""
    cr = postgresqls.postgresql(status=status_at(0))
    children = {**workload(), DB: found, CLAIM: volume}
    observed = Observed(objects=children, now=at(seconds), entropy=b"")
    asked = postgresqls.KIND.warnings(cr, observed)
    if said is not None:
        observed = replace(observed, warnings=dict.fromkeys(asked, said))
    report = postgresqls.KIND.status(cr, observed, SETTLED)
    left = report.result.seconds if isinstance(report.result, RequeueAfter) else None
    if left is None:
        assert report.result == Done()
    ready, degraded = (find_condition(report.status, type) for type in ("Ready", "Degraded"))
    return ready["reason"], degraded["status"], left, ready["message"]


@pytest.mark.parametrize("waiting", [(unplaced(AT_ONCE), False), (unplaced(STATIC), False), (None, True)])
def test_it_is_a_fault_once_the_provisioner_says_that_it_fails(waiting: tuple[Object | None, bool]) -> None:
    found, chosen = waiting[0] or not_yet_placed(), waiting[1]
    volume = claim(chosen=chosen)
    assert judged(19, found, volume, UNKNOWN)[:3] == ("Reconciling", "False", 1.0)
    reason, degraded, left, message = judged(20, found, volume, UNKNOWN)
    assert (reason, degraded, left) == ("VolumeNotBound", "True", 20.0)
    assert message.startswith(
        'PersistentVolumeClaim db-data has no volume: storageclass "fast" not found. Create or fix '
        "StorageClass fast, or its provisioner (`kubectl describe pvc db-data -n ns`). For another class, "
    )
    assert judged(20, found, volume)[:3] == ("VolumeNotBound", "False", 20.0)
    assert judged(600, found, volume)[:3] == ("VolumeNotBound", "True", 600.0)


def test_an_event_that_comes_late_is_found_with_few_looks() -> None:
    looks, seconds = 0, 20.0
    while seconds < 24 * 3600:
        left = judged(seconds, unplaced(AT_ONCE), claim())[2]
        assert left is not None
        # Until the deadline it may come before: then it is that one which is waited for.
        assert left == seconds or (seconds < 600 and seconds + left == 600)
        looks, seconds = looks + 1, seconds + left
    assert looks <= 14


def test_a_class_that_is_not_named_and_has_no_default() -> None:
    reason, degraded, left, message = judged(20, unplaced(AT_ONCE), claim(storage_class=None))
    assert (reason, degraded, left) == ("VolumeNotBound", "True", 20.0)
    assert "it names no StorageClass, and the cluster has no default one. Mark a StorageClass" in message


@pytest.mark.parametrize(
    ("found", "volume"),
    [
        (
            unplaced(FULL),
            claim(),
        ),  # A class that waits for the first Pod: that no node takes is not its fault.
        (unplaced(AT_ONCE), claim(phase="Bound")),
        (unplaced(AT_ONCE), claim(phase="Lost")),
    ],
)
def test_what_is_the_pods_fault_is_said_of_the_pod(found: Object, volume: Object) -> None:
    reason, degraded, _, message = judged(20, found, volume, UNKNOWN)
    assert (reason, degraded) == ("Unschedulable", "True")
    said = "Insufficient memory. Free" if volume["status"]["phase"] == "Pending" else "not found. It waits"
    assert said in message, "a sentence ends before the next one begins"


def test_nothing_is_said_of_a_claim_whose_pod_is_on_its_way() -> None:
    assert judged(20, pod({"state": {"waiting": {}}}), claim())[0] == "Reconciling"
    assert judged(20, not_yet_placed(), claim())[0] == "Reconciling"
