"""The deadline on progress: why a resource makes none, when that becomes a fault, when it is requeued.

The Pods are as a kubelet, the node and the taint eviction controller of Kubernetes 1.34 leave them.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from kindling.kinds.base import (
    Done,
    ExternalResult,
    Kind,
    Observed,
    Problem,
    RequeueAfter,
    SyncResult,
    Terminal,
    WarningEvent,
)
from kindling.kinds.conditions import find_condition, rfc3339, with_stalled, with_transition_times
from kindling.kinds.pods import UNSCHEDULABLE_AFTER_SECONDS
from kindling.kinds.postgresql import observation
from kindling.kinds.progress import DEADLINE_SECONDS
from kindling.kube.resources import DEPLOYMENT, POD, STATEFUL_SET, Object, Ref

from tests.unit.operator import memcacheds, postgresqls, pulsarconsumers

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
SETTLED = SyncResult(in_sync=True)
WORKLOAD, DB = Ref(STATEFUL_SET, "ns", "db"), Ref(POD, "ns", "db-0")
QUOTA = 'create Pod db-0 in StatefulSet db failed error: pods "db-0" is forbidden: exceeded quota: few'
NO_ACCOUNT = (
    'create Pod db-0 in StatefulSet db failed error: pods "db-0" is forbidden: error looking up service '
    'account ns/shop: serviceaccount "shop" not found'
)
MULTI_ATTACH = 'Multi-Attach error for volume "pvc-1" Volume is already exclusively attached to one node'


def at(seconds: float) -> datetime:
    return BEGAN + timedelta(seconds=seconds)


def status_at(seconds: float, *, kind: Kind = postgresqls.KIND, cr: Object | None = None) -> Object:
    """That of a resource that began to be on its way so many seconds after the start."""
    new = cr or postgresqls.postgresql()
    report = kind.status(new, Observed(objects={}, now=at(seconds), entropy=b""), SyncResult(in_sync=False))
    return with_transition_times(report.status, known={}, now=at(seconds))


def workload(*, seen: int = 1) -> dict[Ref, Object]:
    meta = {"namespace": "ns", "name": "db", "uid": "set-uid", "generation": 1}
    return {WORKLOAD: {"metadata": meta, "status": {"observedGeneration": seen, "updateRevision": "r1"}}}


def pod(state: Object | None = None, *, made: float = 0, ending: bool = False, **truths: Any) -> Object:
    """The database's Pod, bound as soon as it was made; `truths` are its further conditions."""
    conditions = {"PodScheduled": "True", **truths}
    container = {"name": "postgres", "restartCount": 0, "started": False, **(state or {})}
    meta: Object = {
        "namespace": "ns", "name": "db-0", "uid": "pod-uid", "creationTimestamp": rfc3339(at(made)),
        "labels": {"controller-revision-hash": "r1"},
    }  # fmt: skip
    if ending:
        meta["deletionTimestamp"] = rfc3339(at(made + 30))
    status = {
        "phase": "Pending",
        "conditions": [
            {"type": type, "status": truth, "lastTransitionTime": rfc3339(at(made))}
            for type, truth in conditions.items()
        ],
        "containerStatuses": [container],
    }
    return {"metadata": meta, "status": status}


def ran(*, started: float, ready: str, since: float) -> Object:
    """The Pod of a server that runs since then, with Ready so since then."""
    found = pod({"state": {"running": {"startedAt": rfc3339(at(started))}}}, Ready=ready)
    found["status"]["conditions"][-1]["lastTransitionTime"] = rfc3339(at(since))
    return found


CREATING = pod({"state": {"waiting": {"reason": "ContainerCreating"}}}, PodReadyToStartContainers="False")
STARTING = pod({"state": {"running": {"startedAt": rfc3339(at(0))}}}, Ready="False", ContainersReady="False")
# Its node stopped reporting: the node controller marks the Pod not ready, and changes nothing else.
NODE_LOST = pod(
    {"ready": True, "started": True, "state": {"running": {"startedAt": rfc3339(at(0))}}},
    Initialized="True",
    ContainersReady="True",
    Ready="False",
)
NODE_LOST["status"]["conditions"][-1]["lastTransitionTime"] = rfc3339(at(1))
EVICTED = pod({}, Ready="False", ContainersReady="False", ending=True)
EVICTED["status"]["conditions"].append(
    {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}
)


def judged(
    seconds: float, found: Object | None, *, said: WarningEvent | None = None, **spec: Any
) -> tuple[str, str, float | None]:
    """Ready's reason, whether it is a fault, and in how many seconds the resource is requeued."""
    cr = postgresqls.postgresql(status=status_at(0), **spec)
    children = {**workload(), **({DB: found} if found is not None else {})}
    observed = Observed(objects=children, now=at(seconds), entropy=b"")
    asked = postgresqls.KIND.warnings(cr, observed)
    observed = replace(observed, warnings=dict.fromkeys(asked, said) if said else {})
    report = postgresqls.KIND.status(cr, observed, SETTLED)
    left = report.result.seconds if isinstance(report.result, RequeueAfter) else None
    degraded = find_condition(report.status, "Degraded")["status"]
    assert (find_condition(report.status, "Progressing")["status"] == "True") is (degraded == "False")
    assert report.status["pgPhase"] == ("Failed" if degraded == "True" else "pending")
    return find_condition(report.status, "Ready")["reason"], degraded, left


def refusal(seconds: float, reason: str = "FailedCreate") -> WarningEvent:
    return WarningEvent(reason, QUOTA, rfc3339(at(seconds)))


@pytest.mark.parametrize(
    ("seconds", "found", "said", "expected"),
    [
        (0, None, None, ("Reconciling", "False", UNSCHEDULABLE_AFTER_SECONDS)),
        (20, None, None, ("Reconciling", "False", 580.0)),
        (20, None, refusal(5), ("PodMissing", "False", 580.0)),
        # What was said before it began, and what is no refusal, is not of now.
        (20, None, refusal(-9), ("Reconciling", "False", 580.0)),
        (20, None, refusal(5, "RecreatingFailedPod"), ("Reconciling", "False", 580.0)),
        (600, None, None, ("PodMissing", "True", None)),
        (600, None, refusal(-9), ("PodMissing", "True", None)),
        (599, CREATING, None, ("Reconciling", "False", 1.0)),
        (600, CREATING, None, ("ProgressDeadlineExceeded", "True", None)),
        (
            600,
            CREATING,
            WarningEvent("FailedAttachVolume", MULTI_ATTACH, rfc3339(at(9))),
            ("VolumeNotMounted", "True", None),
        ),
        (
            600,
            CREATING,
            WarningEvent("FailedMount", "timed out", rfc3339(at(9))),
            ("VolumeNotMounted", "True", None),
        ),
        (
            600,
            CREATING,
            WarningEvent("FailedCreatePodSandBox", "no", ""),
            ("ProgressDeadlineExceeded", "True", None),
        ),
        (600, STARTING, WarningEvent("FailedMount", "once", ""), ("Recovering", "True", None)),
        (29, STARTING, None, ("Reconciling", "False", 1.0)),
        (30, STARTING, None, ("Recovering", "False", 570.0)),
        (30, NODE_LOST, None, ("NodeLost", "False", 570.0)),
        (600, NODE_LOST, None, ("NodeLost", "True", None)),
        # It was not ready before either.
        (600, CREATING, WarningEvent("NodeNotReady", "Node is not ready", ""), ("NodeLost", "True", None)),
        (600, EVICTED, None, ("NodeLost", "True", None)),
        (600, pod({}, ending=True), None, ("ProgressDeadlineExceeded", "True", None)),
    ],
)
def test_what_holds_a_database_up_and_when_that_is_a_fault(
    seconds: float, found: Object | None, said: WarningEvent | None, expected: tuple[str, str, float | None]
) -> None:
    assert judged(seconds, found, said=said) == expected


def test_the_deadline_is_the_specs() -> None:
    assert judged(59, CREATING, progressDeadlineSeconds=60) == ("Reconciling", "False", 1.0)
    assert judged(60, CREATING, progressDeadlineSeconds=60) == ("ProgressDeadlineExceeded", "True", None)


@pytest.mark.parametrize("step", ["PodScheduled", "PodReadyToStartContainers", "Initialized"])
def test_a_pods_next_step_restarts_the_deadline(step: str) -> None:
    moved = pod({"state": {"waiting": {"reason": "PodInitializing"}}})
    moved["status"]["conditions"] = [
        {"type": step, "status": "True", "lastTransitionTime": rfc3339(at(590))},
        {"type": "Ready", "status": "False", "lastTransitionTime": rfc3339(at(595))},
    ]
    assert judged(600, moved) == ("Reconciling", "False", 590.0)
    assert judged(600, pod({"state": {"waiting": {}}}, made=550)) == ("Reconciling", "False", 550.0)


def test_once_past_it_stays_past_until_something_moves() -> None:
    cr = postgresqls.postgresql(status=status_at(0))
    children = {**workload(), DB: CREATING}
    for seconds in (600, 601, 6000):
        observed = Observed(objects=children, now=at(seconds), entropy=b"")
        report = postgresqls.KIND.status(cr, observed, SETTLED)
        assert find_condition(report.status, "Ready")["reason"] == "ProgressDeadlineExceeded"
        cr["status"] = with_transition_times(report.status, known=cr["status"], now=at(seconds))
    edited = {**cr, "metadata": {**cr["metadata"], "generation": 2}}
    restarted = postgresqls.KIND.status(edited, observed, SETTLED)
    assert find_condition(restarted.status, "Progressing")["status"] == "True"
    assert restarted.result == RequeueAfter(DEADLINE_SECONDS)


def test_the_end_of_another_fault_restarts_the_deadline() -> None:
    status = status_at(0)
    for type, truth in (("Degraded", "True"), ("Progressing", "False")):
        find_condition(status, type).update(status=truth, reason="CrashLoopBackOff")
    cr = postgresqls.postgresql(status=status)
    observed = Observed(objects={**workload(), DB: CREATING}, now=at(3600), entropy=b"")
    report = postgresqls.KIND.status(cr, observed, SETTLED)
    assert find_condition(report.status, "Ready")["reason"] == "Reconciling"


def test_a_volume_that_grew_for_long_is_not_counted() -> None:
    """Progressing was True all the while, Ready only now turned False."""
    status = status_at(0)
    find_condition(status, "Ready")["lastTransitionTime"] = rfc3339(at(5000))
    cr = postgresqls.postgresql(status=status)
    observed = Observed(objects=workload(), now=at(5001), entropy=b"")
    assert (
        find_condition(postgresqls.KIND.status(cr, observed, SETTLED).status, "Degraded")["status"] == "False"
    )


def test_paused_is_no_reason_to_keep_silent_but_what_differs_by_wish_is() -> None:
    paused = postgresqls.postgresql(paused=True, status=status_at(0))
    by_wish = SyncResult(in_sync=False, paused=True)
    silent = SyncResult(in_sync=True, paused=True)
    observed = Observed(objects=workload(), now=at(601), entropy=b"")
    report = postgresqls.KIND.status(paused, observed, by_wish)
    assert find_condition(report.status, "Ready")["reason"] == "Paused"
    assert find_condition(report.status, "Degraded")["status"] == "False"
    paused["status"] = with_transition_times(report.status, known=paused["status"], now=at(601))
    report = postgresqls.KIND.status(paused, observed, silent)
    assert find_condition(report.status, "Ready")["reason"] == "PodMissing"
    differs = SyncResult(
        in_sync=True, paused=True, results={"server": ExternalResult(ok=False, reason="Paused", message="m")}
    )
    ready = {**postgresqls.running(), **workload()}
    report = postgresqls.KIND.status(paused, replace(observed, objects=ready), differs)
    assert find_condition(report.status, "Ready")["reason"] == "Paused"


@pytest.mark.parametrize("reason", ["Terminating", "ServerError"])
@pytest.mark.parametrize(
    ("kind", "cr"),
    [
        (postgresqls.KIND, postgresqls.postgresql()),
        (memcacheds.KIND, memcacheds.memcached()),
        (pulsarconsumers.KIND, pulsarconsumers.consumer()),
    ],
)
def test_a_transient_problem_becomes_a_fault_at_the_deadline(kind: Kind, cr: Object, reason: str) -> None:
    sync = SyncResult(in_sync=False, problem=Problem(reason=reason, message="m.", transient=True))
    cr = {**cr, "status": status_at(0, kind=kind, cr=cr)}
    for seconds, broken in ((599, "False"), (600, "True"), (9000, "True")):
        observed = Observed(objects={}, now=at(seconds), entropy=b"")
        report = kind.status(cr, observed, sync)
        assert find_condition(report.status, "Degraded")["status"] == broken
        assert find_condition(report.status, "Ready")["reason"] == reason
        assert report.result == RequeueAfter(5.0, polls=True)
        cr["status"] = with_transition_times(report.status, known=cr["status"], now=at(seconds))


def replica(kind: Kind, instance: str, **truths: Any) -> dict[Ref, Object]:
    found = pod({"state": {"waiting": {"reason": "ContainerCreating"}}}, **truths)
    meta = {
        **found["metadata"], "name": "one",
        "labels": {"app.kubernetes.io/instance": instance, "kindling.dev/kind": kind.type.group_kind},
    }  # fmt: skip
    return {Ref(POD, "ns", "one"): {**found, "metadata": meta}}


@pytest.mark.parametrize(
    ("kind", "cr", "workload"),
    [
        (memcacheds.KIND, memcacheds.memcached(), memcacheds.deployment(replicas=1, availableReplicas=0)),
        (pulsarconsumers.KIND, pulsarconsumers.consumer(), pulsarconsumers.rolled_out(1, available=0)),
    ],
    ids=["memcached", "pulsarconsumer"],
)
def test_what_runs_in_a_deployment_has_the_same_deadline(
    kind: Kind, cr: Object, workload: dict[Ref, Object]
) -> None:
    owner = next(ref for ref in workload if ref.type == DEPLOYMENT)
    waiting = Ref(POD, "ns", "one")
    name = cr["metadata"]["name"]
    cr = {**cr, "status": status_at(0, kind=kind, cr=cr)}
    cases: list[tuple[float, dict[Ref, Object], list[Ref], str, str]] = [
        (599, {}, [], "Reconciling", "False"),
        (600, {}, [owner], "PodMissing", "True"),
        (599, replica(kind, name), [], "Reconciling", "False"),
        (600, replica(kind, name), [waiting], "VolumeNotMounted", "True"),
        (60, replica(kind, name, Ready="False", ContainersReady="True"), [], "NodeLost", "False"),
        (600, replica(kind, name, Ready="False", ContainersReady="True"), [], "NodeLost", "True"),
    ]
    for seconds, pods, asked, reason, broken in cases:
        observed = Observed(objects={**workload, **pods}, now=at(seconds), entropy=b"")
        assert list(kind.warnings(cr, observed)) == asked
        said = {waiting: WarningEvent("FailedMount", "no such Secret", "")}
        report = kind.status(cr, replace(observed, warnings=said), SETTLED)
        assert find_condition(report.status, "Ready")["reason"] == reason
        assert find_condition(report.status, "Degraded")["status"] == broken
        assert report.result == (RequeueAfter(600 - seconds) if broken == "False" else Done())


def test_the_message_has_the_words_and_the_next_step() -> None:
    cr = postgresqls.postgresql(status=status_at(0))
    for said, children, words in (
        (
            refusal(5),
            workload(),
            [
                f"{QUOTA}. Allow it, or request less; it is retried at growing intervals, and at once after ",
                "`kubectl annotate statefulset db -n ns tried=again --overwrite`",
            ],
        ),
        (
            WarningEvent("FailedCreate", NO_ACCOUNT, rfc3339(at(5))),
            workload(),
            [NO_ACCOUNT, ". Create that ServiceAccount, or name another in spec.podTemplate.spec."],
        ),
        (None, workload(), ["no Event says why", "`kubectl describe statefulset db -n ns`"]),
        (
            WarningEvent("FailedMount", MULTI_ATTACH, ""),
            {**workload(), DB: CREATING},
            [MULTI_ATTACH, "Free the volume"],
        ),
        (None, {**workload(), DB: NODE_LOST}, ["`kubectl get pod db-0 -n ns -o wide`", "out-of-service"]),
        (
            None,
            {**workload(), DB: STARTING},
            ["since 2026-01-01T00:00:00Z", "`kubectl logs db-0"],
        ),
    ):
        observed = Observed(objects=children, now=at(700), entropy=b"")
        warnings = dict.fromkeys(postgresqls.KIND.warnings(cr, observed), said) if said else {}
        report = postgresqls.KIND.status(cr, replace(observed, warnings=warnings), SETTLED)
        message = find_condition(report.status, "Ready")["message"]
        assert [word for word in words if word not in message] == [], message
        assert message.endswith((".", ")."))
        assert not isinstance(report.result, Terminal)
        assert find_condition(with_stalled(report), "Stalled") == {}


@pytest.mark.parametrize(
    ("found", "starts"),
    [
        (ran(started=5, ready="False", since=0), 5),
        # It was ready, and its container was started again.
        (ran(started=90, ready="False", since=88), 90),
        (ran(started=90, ready="False", since=90), 90),
        # It was ready since, and is no more: it answers nobody, or its node is lost.
        (ran(started=5, ready="False", since=60), None),
        (ran(started=5, ready="True", since=6), None),
        (CREATING, None),
    ],
)
def test_a_server_starts_until_it_was_ready_once(found: Object, starts: float | None) -> None:
    expected = None if starts is None else rfc3339(at(starts))
    assert observation.starting_since(found) == expected
