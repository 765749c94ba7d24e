"""A Pod's status: whether it is ready, and why it does not run, in the kubelet's own terms."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from kindling.kinds.pods import UNSCHEDULABLE_AFTER_SECONDS, pod_problem, pod_ready
from kindling.kinds.times import seconds_since
from kindling.kube.resources import Object

NOW = datetime(2026, 1, 1, tzinfo=UTC)
# As the kubelet has them, in a container's state.waiting.reason.
NO_IMAGE = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")
NO_CONTAINER = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")
STARTING = ("ContainerCreating", "PodInitializing")


def pod(**status: Any) -> Object:
    return {"metadata": {"namespace": "ns", "name": "p"}, "status": status}


def waiting(reason: str) -> list[Object]:
    return [{"name": "c", "image": "i:1", "state": {"waiting": {"reason": reason}}}]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        *((said, "ImagePullFailed") for said in NO_IMAGE),
        *((said, "PodSetupFailed") for said in NO_CONTAINER),
        ("CrashLoopBackOff", "CrashLoopBackOff"),
    ],
)
@pytest.mark.parametrize("of", ["initContainerStatuses", "containerStatuses"])
def test_container_that_cannot_start_is_a_problem(of: str, said: str, reason: str) -> None:
    problem = pod_problem(pod(**{of: waiting(said)}), now=NOW)
    assert problem is not None
    assert problem.reason == reason
    assert "-n ns" in problem.message


@pytest.mark.parametrize("said", STARTING)
def test_container_on_its_way_is_no_trouble(said: str) -> None:
    assert pod_problem(pod(containerStatuses=waiting(said)), now=NOW) is None


@pytest.mark.parametrize(
    ("waited", "late"), [(UNSCHEDULABLE_AFTER_SECONDS - 1, False), (UNSCHEDULABLE_AFTER_SECONDS, True)]
)
def test_pod_that_no_node_takes_has_its_time(waited: float, late: bool) -> None:
    since = (NOW - timedelta(seconds=waited)).isoformat()
    unscheduled = {"type": "PodScheduled", "status": "False", "lastTransitionTime": since, "message": "full"}
    problem = pod_problem(pod(conditions=[unscheduled]), now=NOW)
    assert (problem is not None and problem.reason == "Unschedulable" and "full" in problem.message) is late


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ("0/3 nodes are available: 3 Insufficient memory.", " Free what it requests, or request less."),
        (
            "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found",
            ". It waits for a volume: see `kubectl describe pvc -n ns`.",
        ),
        (
            "0/3 nodes are available: 3 node(s) didn't find available persistent volumes to bind.",
            " It waits for a volume: see `kubectl describe pvc -n ns`.",
        ),
    ],
)
def test_where_a_volume_is_missing_there_is_no_advice_to_request_less(said: str, remedy: str) -> None:
    since = (NOW - timedelta(seconds=UNSCHEDULABLE_AFTER_SECONDS)).isoformat()
    unscheduled = {"type": "PodScheduled", "status": "False", "lastTransitionTime": since, "message": said}
    problem = pod_problem(pod(conditions=[unscheduled]), now=NOW)
    assert problem is not None
    assert problem.message.endswith(f"{said}{remedy}")


@pytest.mark.parametrize("status", [None, {}, {"conditions": None}, {"containerStatuses": [{"state": None}]}])
def test_total_over_half_a_status(status: Object | None) -> None:
    half = {**pod(), "status": status}
    assert pod_problem(half, now=NOW) is None
    assert not pod_ready(half)


@pytest.mark.parametrize(
    ("moment", "seconds"),
    [("2025-12-31T23:59:50Z", 10.0), ("2026-01-01T00:00:10Z", 0.0), (None, 0.0), ("yesterday", 0.0)],
)
def test_a_time_to_come_and_what_is_none_count_as_now(moment: object, seconds: float) -> None:
    assert seconds_since(moment, now=NOW) == seconds
