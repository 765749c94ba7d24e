"""A Deployment's own counts, taken for true only while they are of the Deployment as it stands."""

from __future__ import annotations

import pytest
from kindling.kinds.rollout import Rollout, refused, rollout
from kindling.kube.resources import Object


def deployment(*, generation: int = 2, wanted: int = 3, **status: object) -> Object:
    """All of it rolled out, but for what is said otherwise."""
    counts = {"observedGeneration": generation, "replicas": wanted, "updatedReplicas": wanted}
    return {
        "metadata": {"namespace": "ns", "name": "x", "generation": generation},
        "spec": {"replicas": wanted},
        "status": {**counts, "availableReplicas": wanted, **status},
    }


def test_complete_once_every_pod_is_of_the_template_and_available() -> None:
    assert rollout(deployment()).complete
    assert rollout(deployment(wanted=0)).complete


@pytest.mark.parametrize(
    "status",
    [{"replicas": 4}, {"updatedReplicas": 2}, {"availableReplicas": 2}, {"availableReplicas": None}],
    ids=["an old one left", "an old template", "one not available", "none counted"],
)
def test_not_complete_before(status: Object) -> None:
    assert not rollout(deployment(**status)).complete


@pytest.mark.parametrize(("seen", "current"), [(None, False), (0, False), (1, False), (2, True), (3, True)])
def test_counts_of_an_earlier_generation_say_nothing_of_this_one(seen: int | None, current: bool) -> None:
    """The controller has not looked at the last edit yet: all that it counts is of the one before."""
    found = rollout(deployment(observedGeneration=seen))
    assert (found.current, found.complete) == (current, current)


@pytest.mark.parametrize("found", [None, {}, {"metadata": None, "spec": None, "status": None}])
def test_total_over_what_is_not_there(found: Object | None) -> None:
    assert rollout(found) == Rollout(current=False, wanted=0, total=0, updated=0, available=0)
    assert refused(found) is None


@pytest.mark.parametrize(
    ("type", "status", "reason"),
    [("ReplicaFailure", "True", "FailedCreate"), ("Progressing", "False", "ReplicaSetCreateError")],
    ids=["of Pods", "of the ReplicaSet"],
)
def test_a_rejection_by_quota_or_policy_is_reported_with_the_servers_message(
    type: str, status: str, reason: str
) -> None:
    said = {"type": type, "status": status, "reason": reason, "message": "exceeded quota: few"}
    problem = refused(deployment(conditions=[{"type": "Available", "status": "False"}, said]))
    assert problem is not None
    assert problem.reason == "FailedCreate"
    assert "exceeded quota: few. Allow it" in problem.message
    assert "at once after `kubectl annotate deployment x -n ns tried=again --overwrite`." in problem.message


@pytest.mark.parametrize(
    ("type", "status", "reason"),
    [
        ("ReplicaFailure", "False", "FailedCreate"),
        ("Progressing", "True", "NewReplicaSetCreated"),
        ("Progressing", "False", "ProgressDeadlineExceeded"),
        ("Available", "True", "MinimumReplicasAvailable"),
    ],
)
def test_other_conditions_are_no_refusal(type: str, status: str, reason: str) -> None:
    condition = {"type": type, "status": status, "reason": reason, "message": "m"}
    assert refused(deployment(conditions=[condition])) is None
