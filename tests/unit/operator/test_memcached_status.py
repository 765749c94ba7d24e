"""The status reports observed state: as many ready as desired, of the current template, or why not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kindling.kinds.base import Done, Problem, RequeueAfter, Result, StatusReport, SyncResult
from kindling.kinds.conditions import find_condition
from kindling.kinds.pods import UNSCHEDULABLE_AFTER_SECONDS
from kindling.kinds.progress import DEADLINE_SECONDS
from kindling.kube.resources import POD, Object, Ref

from tests.unit.operator.memcacheds import KIND, SPECS, deployment, memcached, observed, pod, running

SETTLED = SyncResult(in_sync=True)
CONDITIONS = ("Ready", "Available", "Progressing", "Degraded")


def report(children: dict[Ref, Object], cr: Object | None = None, sync: SyncResult = SETTLED) -> StatusReport:
    return KIND.status(cr or memcached(), observed(children), sync)


def truths(made: StatusReport) -> tuple[str, ...]:
    return tuple(find_condition(made.status, name)["status"] for name in CONDITIONS)


def reason(made: StatusReport) -> str:
    return str(find_condition(made.status, "Ready")["reason"])


def test_ready() -> None:
    made = report(running(["10.0.0.2", "10.0.0.1"]), memcached(size=2, generation=3))
    assert truths(made) == ("True", "True", "False", "False")
    assert made.status["serverList"] == ["10.0.0.1:11211", "10.0.0.2:11211"]
    assert made.status["replicas"] == 2
    assert made.status["observedGeneration"] == 3
    assert {item["observedGeneration"] for item in made.status["conditions"]} == {3}
    assert made.result == Done()


def test_scale_subresource_finds_the_pods() -> None:
    selector = dict(word.split("=") for word in report({}).status["selector"].split(","))
    labels = running()[Ref(POD, "ns", "cache-0")]["metadata"]["labels"]
    assert selector
    assert selector.items() <= labels.items()


def test_nothing_there_yet_is_on_its_way() -> None:
    made = report({}, sync=SyncResult(in_sync=False))
    assert truths(made) == ("False", "False", "True", "False")
    assert (made.status["replicas"], made.status["serverList"]) == (0, [])
    assert isinstance(made.result, RequeueAfter)


@pytest.mark.parametrize("size", [1, 3])
def test_announcing_and_starting_read_the_same(size: int) -> None:
    """Or each new resource would cost further writes while its Pods start."""
    cr = memcached(size=size)
    announced = report({}, cr, SyncResult(in_sync=False)).status
    unseen = deployment(replicas=size, total=0, seen=0)
    started = deployment(replicas=size)
    for number in range(size):
        started |= pod(f"cache-{number}", ready=False, ip=None)
    assert report(unseen, cr).status == report(started, cr).status == announced


@pytest.mark.parametrize(
    "seen",
    [
        deployment(replicas=1, seen=0),
        deployment(replicas=1, updated=0),
        deployment(replicas=1, total=2, updated=1),
        deployment(replicas=1, total=2),
    ],
    ids=["of an earlier spec", "none of them new", "an old one left", "one too many"],
)
def test_not_ready_while_the_deployment_moves(seen: dict[Ref, Object]) -> None:
    made = report({**pod("cache-0"), **seen})
    assert truths(made) == ("False", "True", "True", "False")
    assert reason(made) == "Reconciling"


def test_not_ready_before_the_children_are_settled() -> None:
    made = report(running(), memcached(generation=2), SyncResult(in_sync=False))
    assert truths(made) == ("False", "True", "True", "False")


def test_fewer_than_wanted_is_said_with_both_numbers() -> None:
    children = {**running(["10.0.0.1", "10.0.0.2"]), **pod("cache-2", ready=False), **deployment(replicas=3)}
    made = report(children, memcached(size=3))
    assert truths(made) == ("False", "True", "True", "False")
    assert reason(made) == "MinimumReplicasUnavailable"
    assert "2, wanted: 3" in find_condition(made.status, "Ready")["message"]


def test_a_pod_is_listed_once_the_deployment_counts_it() -> None:
    """Listed before, it would need a write of its own, and come before the Deployment's status."""
    early = {**running(), **deployment(replicas=1, availableReplicas=0)}
    assert report(early).status == report(deployment(replicas=1)).status
    assert truths(report(running()))[0] == "True"


def test_as_many_ready_pods_are_listed_as_the_deployment_counts() -> None:
    found = running(["10.0.0.1", "10.0.0.2", "10.0.0.3"]) | deployment(replicas=3, availableReplicas=2)
    cr = memcached(size=3, status={"serverList": ["10.0.0.2:11211"]})
    assert report(found, cr).status["serverList"] == ["10.0.0.1:11211", "10.0.0.2:11211"]
    assert truths(report(found, cr))[0] == "False"


def test_a_pod_that_is_no_longer_ready_is_removed_at_once() -> None:
    """Whatever the Deployment counts, whose status changes later; the ready Pods stay listed."""
    cr = memcached(size=2, status={"serverList": ["10.0.0.1:11211", "10.0.0.2:11211"]})
    left = {**deployment(replicas=2), **pod("a", ready=False), **pod("b", ip="10.0.0.2")}
    assert report(left, cr).status["serverList"] == ["10.0.0.2:11211"]
    uncounted = left | deployment(replicas=2, availableReplicas=0)
    assert report(uncounted, cr).status["serverList"] == ["10.0.0.2:11211"]


def test_server_list_without_a_deployment_stays_as_it_was() -> None:
    cr = memcached(status={"serverList": ["10.0.0.1:11211"]})
    made = report(pod("cache-0"), cr)
    assert (truths(made), reason(made)) == (("False", "True", "True", "False"), "Reconciling")


def test_server_list_names_each_pod_by_its_own_port() -> None:
    """While a changed port rolls out, the old Pods still have the old one."""
    children = {**pod("cache-0", ip="10.0.0.1"), **pod("cache-1", ip="10.0.0.2", port="80")}
    children |= deployment(replicas=2)
    found = report(children, memcached(containerPort=80)).status["serverList"]
    assert found == ["10.0.0.1:11211", "10.0.0.2:80"]


def test_server_list_leaves_out_what_does_not_serve() -> None:
    leaving = pod("cache-3", ip="10.0.0.4")
    leaving[Ref(POD, "ns", "cache-3")]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    strangers = pod("cache-4", ip="10.0.0.5")
    strangers[Ref(POD, "ns", "cache-4")]["metadata"]["labels"]["app.kubernetes.io/instance"] = "other"
    children = {
        **pod("cache-0", ip="fd00::a"),
        **pod("cache-1", ready=False, ip="10.0.0.2"),
        **pod("cache-2", ip=None),
        **pod("cache-5", port="11211 and more"),
        **pod("cache-6", port="none"),
        **leaving,
        **strangers,
        **deployment(replicas=6),
    }
    assert report(children).status["serverList"] == ["[fd00::a]:11211"]


def waiting(why: str) -> list[Object]:
    return [{"name": "memcached", "image": "i", "state": {"waiting": {"reason": why}}}]


def unschedulable(since: str) -> list[Object]:
    return [{"type": "PodScheduled", "status": "False", "lastTransitionTime": since}]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"containerStatuses": waiting("ImagePullBackOff")}, "ImagePullFailed"),
        ({"containerStatuses": waiting("CrashLoopBackOff")}, "CrashLoopBackOff"),
        ({"containerStatuses": waiting("CreateContainerError")}, "PodSetupFailed"),
        ({"containerStatuses": waiting("ContainerCreating")}, "Reconciling"),
        ({"conditions": unschedulable("2026-01-01T00:00:00Z")}, "Unschedulable"),
        ({"conditions": unschedulable("2026-01-01T00:00:59Z")}, "Reconciling"),
        ({"conditions": None, "containerStatuses": None}, "Reconciling"),
    ],
)
def test_a_pods_trouble_is_named(status: Object, expected: str) -> None:
    made = report({**deployment(replicas=1), **pod("cache-0", ready=False, **status)})
    assert reason(made) == expected
    assert truths(made)[3] == str(expected != "Reconciling")


def test_trouble_beside_one_that_serves() -> None:
    stuck = pod("cache-1", ready=False, containerStatuses=waiting("ErrImagePull"))
    made = report({**running(), **stuck, **deployment(replicas=1, total=2, updated=1)})
    assert truths(made) == ("False", "True", "False", "True")


@pytest.mark.parametrize(
    ("condition", "expected", "word"),
    [
        (
            {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: pods"},
            "FailedCreate",
            "exceeded quota: pods",
        ),
        ({"type": "ReplicaFailure", "status": "True", "message": "x" * 9000}, "FailedCreate", "Allow it"),
        (
            {
                "type": "ReplicaFailure",
                "status": "True",
                "message": 'pods "cache-" is forbidden: error looking up service account ns/shop: '
                'serviceaccount "shop" not found',
            },
            "FailedCreate",
            'serviceaccount "shop" not found. Create that ServiceAccount, or name another in spec.',
        ),
        (
            {
                "type": "Progressing",
                "status": "False",
                "reason": "ReplicaSetCreateError",
                "message": "policy",
            },
            "FailedCreate",
            "policy",
        ),
        ({"type": "Progressing", "status": "True", "reason": "NewReplicaSetCreated"}, "Reconciling", "wait"),
    ],
)
def test_the_deployments_trouble_is_named(condition: Object, expected: str, word: str) -> None:
    made = report(deployment(replicas=1, total=0, conditions=[condition]))
    assert reason(made) == expected
    assert word in find_condition(made.status, "Ready")["message"]
    assert len(find_condition(made.status, "Ready")["message"]) <= 4096


def test_a_conflict_is_no_matter_of_the_running_pods() -> None:
    problem = Problem(reason="NameConflict", message="Rename it.")
    made = report(running(), sync=SyncResult(in_sync=False, problem=problem))
    assert truths(made) == ("False", "True", "False", "True")
    assert reason(made) == "NameConflict"
    assert isinstance(made.result, RequeueAfter)


def test_transient_problem_is_no_fault() -> None:
    problem = Problem(reason="Terminating", message="Wait.", transient=True)
    assert truths(report({}, sync=SyncResult(in_sync=False, problem=problem))) == (
        "False", "False", "True", "False",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("problem", "result"),
    [
        (Problem(reason="Terminating", message="Wait.", transient=True), RequeueAfter(5.0, polls=True)),
        (Problem(reason="ApplyRejected", message="Fix it."), RequeueAfter(30.0, polls=True)),
        (None, RequeueAfter(UNSCHEDULABLE_AFTER_SECONDS)),
    ],
)
def test_looks_again_the_sooner_the_sooner_it_may_change(problem: Problem | None, result: Result) -> None:
    made = report({}, sync=SyncResult(in_sync=False, problem=problem))
    assert made.result == result


@pytest.mark.parametrize(
    ("status", "result"),
    [
        ({}, RequeueAfter(DEADLINE_SECONDS)),
        ({"containerStatuses": waiting("ImagePullBackOff")}, Done()),
        (
            {"conditions": unschedulable("2026-01-01T00:00:59Z")},
            RequeueAfter(UNSCHEDULABLE_AFTER_SECONDS - 1),
        ),
        ({"conditions": unschedulable("2026-01-01T00:00:40Z")}, Done()),
    ],
    ids=["on its way", "no image", "no node yet", "no node for long"],
)
def test_in_sync_it_is_requeued_at_deadlines_alone(status: Object, result: Result) -> None:
    """Events report everything else: thousands that start at once are not reconciled every few seconds."""
    made = report({**deployment(replicas=1), **pod("cache-0", ready=False, **status)})
    assert made.result == result


def test_every_message_ends_and_every_reason_is_one_word() -> None:
    for made in (report({}), report(running())):
        for item in made.status["conditions"]:
            assert item["reason"].isalpha()
            assert item["message"].endswith(".")


@given(SPECS, st.sampled_from([None, {}, {"conditions": None}, {"podIP": None}]), st.booleans())
def test_total(wanted: Object, status: Object | None, settled: bool) -> None:
    """Whatever is missing in what was observed, there is a status, and it is not Ready."""
    bare = pod("cache-0")
    bare[Ref(POD, "ns", "cache-0")]["status"] = status
    empty = {ref: {"metadata": {}, "spec": {}, "status": status} for ref in deployment(replicas=1)}
    made = report({**bare, **empty}, memcached(**wanted), SyncResult(in_sync=settled))
    assert truths(made)[:2] == ("False", "False")
