"""The status reports observed state: Ready only after a login for this generation, else a reason."""

from __future__ import annotations

from typing import Any

import pytest
from kindling.kinds.base import (
    Done,
    ExternalResult,
    Problem,
    RequeueAfter,
    Result,
    StatusReport,
    SyncResult,
    Terminal,
)
from kindling.kinds.conditions import find_condition
from kindling.kinds.postgresql.login import Login
from kindling.kinds.progress import DEADLINE_SECONDS
from kindling.kube.resources import POD, SECRET, STATEFUL_SET, Object, Ref

from tests.unit.operator.postgresqls import KIND, THEN, observed, postgresql, request, running, secret

GOOD = SyncResult(in_sync=True, results={"server": ExternalResult(ok=True)})
POD_REF = Ref(POD, "ns", "db-0")
LONG_AGO = "2025-12-31T00:00:00Z"
CONDITIONS = ("Ready", "Available", "Progressing", "Degraded")


def report(
    sync: SyncResult, children: dict[Ref, Object] | None = None, cr: Object | None = None
) -> StatusReport:
    return KIND.status(cr or postgresql(), observed(running() if children is None else children), sync)


def truths(made: StatusReport) -> tuple[str, ...]:
    return tuple(find_condition(made.status, name)["status"] for name in CONDITIONS)


def login_of(children: dict[Ref, Object], **spec: Any) -> Login | None:
    return request(postgresql(**spec), observed(children))


def test_up() -> None:
    made = report(GOOD, cr=postgresql(generation=3))
    assert truths(made) == ("True", "True", "False", "False")
    assert made.status["pgPhase"] == "up"
    assert made.status["observedGeneration"] == 3
    assert {item["observedGeneration"] for item in made.status["conditions"]} == {3}
    assert made.status["active"] == {
        "apiVersion": "v1", "kind": "Pod", "namespace": "ns", "name": "db-0", "uid": "pod-uid",
    }  # fmt: skip
    assert made.status["binding"] == {"name": "db-binding"}
    assert made.result == Done()


@pytest.mark.parametrize(
    "sync",
    [
        SyncResult(in_sync=False),
        SyncResult(in_sync=True),
        SyncResult(
            in_sync=True, results={"server": ExternalResult(ok=False, reason="LoginFailed", message="m")}
        ),
        SyncResult(in_sync=False, results={"server": ExternalResult(ok=True)}),
        SyncResult(
            in_sync=True,
            results={"server": ExternalResult(ok=True)},
            problem=Problem(reason="ApplyRejected", message="m"),
        ),
    ],
)
def test_not_ready_without_a_login_for_what_is_settled(sync: SyncResult) -> None:
    assert find_condition(report(sync).status, "Ready")["status"] == "False"


def test_nothing_there_yet_is_pending() -> None:
    made = report(SyncResult(in_sync=False), {})
    assert truths(made) == ("False", "False", "True", "False")
    assert made.status["pgPhase"] == "pending"
    assert "active" not in made.status
    assert "binding" not in made.status


def test_announcing_and_starting_read_the_same() -> None:
    """Or each new resource would cost another write while its Pod starts."""
    starting = running(ready=False)
    assert report(SyncResult(in_sync=False), {}).status == report(SyncResult(in_sync=True), starting).status


def test_available_is_what_was_last_found_out() -> None:
    failed = SyncResult(
        in_sync=True, results={"server": ExternalResult(ok=False, reason="LoginFailed", message="m")}
    )
    once = postgresql(status={"conditions": [{"type": "Available", "status": "True"}]})
    assert find_condition(report(failed, cr=once).status, "Available")["status"] == "False"
    assert find_condition(report(SyncResult(in_sync=False)).status, "Available")["status"] == "False"
    assert find_condition(report(GOOD, running(ready=False), once).status, "Available")["status"] == "False"


def test_edit_being_taken_up_keeps_what_serves() -> None:
    before = {"conditions": [{"type": "Available", "status": "True"}], "binding": {"name": "db-binding"}}
    made = report(SyncResult(in_sync=False), cr=postgresql(generation=2, status=before))
    assert truths(made) == ("False", "True", "True", "False")
    assert made.status["pgPhase"] == "up"
    assert made.status["binding"] == {"name": "db-binding"}


def test_invalid_waits_for_an_edit_alone() -> None:
    made = report(SyncResult(in_sync=False, problem=Problem(reason="InvalidSpec", message="m")), {})
    assert made.result == Terminal("InvalidSpec")
    assert made.status["pgPhase"] == "Failed"
    assert truths(made) == ("False", "False", "False", "True")


def test_transient_problem_is_no_fault() -> None:
    made = report(
        SyncResult(in_sync=False, problem=Problem(reason="Terminating", message="m", transient=True)), {}
    )
    assert truths(made) == ("False", "False", "True", "False")
    assert made.status["pgPhase"] == "pending"
    assert isinstance(made.result, RequeueAfter)


@pytest.mark.parametrize(
    ("answer", "since", "reason"),
    [
        (ExternalResult(ok=False, reason="LoginFailed", message="m"), "2026-01-01T00:00:50Z", "Reconciling"),
        (ExternalResult(ok=False, reason="LoginFailed", message="m"), "2025-12-31T00:00:00Z", "LoginFailed"),
        (
            ExternalResult(ok=False, reason="SuperuserLoginFailed", message="m"),
            "2026-01-01T00:00:50Z",
            "SuperuserLoginFailed",
        ),
    ],
)
def test_login_has_its_time(answer: ExternalResult, since: str, reason: str) -> None:
    made = report(SyncResult(in_sync=True, results={"server": answer}), running(since=since))
    assert find_condition(made.status, "Ready")["reason"] == reason
    assert isinstance(made.result, RequeueAfter)


def unschedulable(since: str | None) -> list[Object]:
    return [{"type": "PodScheduled", "status": "False", "lastTransitionTime": since}]


def waiting(reason: str) -> list[Object]:
    return [{"name": "postgres", "image": "i", "state": {"waiting": {"reason": reason}}}]


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ({"containerStatuses": waiting("ImagePullBackOff")}, "ImagePullFailed"),
        ({"containerStatuses": waiting("ErrImagePull")}, "ImagePullFailed"),
        ({"initContainerStatuses": waiting("CrashLoopBackOff")}, "CrashLoopBackOff"),
        ({"containerStatuses": waiting("CreateContainerConfigError")}, "PodSetupFailed"),
        ({"containerStatuses": waiting("ContainerCreating")}, "Reconciling"),
        (
            {"conditions": unschedulable("2026-01-01T00:00:00Z")},
            "Unschedulable",
        ),
        (
            {"conditions": unschedulable("2026-01-01T00:00:59Z")},
            "Reconciling",
        ),
        ({"conditions": None, "containerStatuses": None}, "Reconciling"),
        (
            {"conditions": unschedulable(None)},
            "Reconciling",
        ),
    ],
)
def test_pods_trouble_is_named(status: Object, reason: str) -> None:
    made = report(SyncResult(in_sync=True), running(ready=False, **status))
    ready = find_condition(made.status, "Ready")
    assert ready["reason"] == reason
    assert (made.status["pgPhase"] == "Failed") is (reason != "Reconciling")


def test_plaintext_password_is_flagged_and_only_then() -> None:
    assert (
        find_condition(report(GOOD, cr=postgresql(password="x")).status, "PlaintextPassword")["status"]
        == "True"
    )
    assert find_condition(report(GOOD).status, "PlaintextPassword") == {}


@pytest.mark.parametrize(
    "sync", [GOOD, SyncResult(in_sync=False), SyncResult(in_sync=True, paused=True)], ids=repr
)
def test_every_message_ends_and_every_reason_is_one_word(sync: SyncResult) -> None:
    for item in report(sync, cr=postgresql(password="x")).status["conditions"]:
        assert item["reason"].isalpha()
        assert item["message"].endswith(".")


def test_asks_a_ready_pod_of_the_current_revision_alone() -> None:
    assert login_of(running()) is not None
    assert login_of(running(ready=False)) is None
    assert login_of(running(revision="r0")) is None
    unseen = running()
    unseen[Ref(STATEFUL_SET, "ns", "db")]["metadata"]["generation"] = 2
    assert login_of(unseen) is None
    leaving = running()
    leaving[POD_REF]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert login_of(leaving) is None
    without = {ref: obj for ref, obj in running().items() if ref.name != "db-binding"}
    assert login_of(without) is None
    assert login_of(without, password="given") is not None


def test_cache_key_changes_with_all_that_needs_a_new_login() -> None:
    def cache_key(children: dict[Ref, Object], **spec: Any) -> object:
        found = login_of(children, **spec)
        assert found is not None
        return found.cache_key

    base = cache_key(running())
    assert cache_key(running()) == base
    restarted = running(containerStatuses=[{"name": "postgres", "restartCount": 1}])
    other_pod = running()
    other_pod[POD_REF]["metadata"]["uid"] = "next"
    other_password = {**running(), Ref(SECRET, "ns", "db-binding"): secret(password="edited")}
    for different in (restarted, other_pod, other_password):
        assert cache_key(different) != base
    assert cache_key(running(), defaultUser="ada") != base
    assert "made" not in repr(base)


def answered(reason: str, **facts: Any) -> SyncResult:
    return SyncResult(
        in_sync=True, results={"server": ExternalResult(ok=False, reason=reason, message="m", facts=facts)}
    )


@pytest.mark.parametrize(
    ("reason", "truth"),
    [
        ("InvalidParameter", ("False", "True", "False", "True")),
        ("SuperuserLoginFailed", ("False", "True", "False", "True")),
        ("RestartPending", ("False", "True", "True", "False")),
        ("Paused", ("False", "True", "True", "False")),
    ],
)
def test_server_that_lets_the_user_in_is_available_whatever_else_fails(
    reason: str, truth: tuple[str, ...]
) -> None:
    made = report(answered(reason, login=True))
    assert truths(made) == truth
    assert find_condition(made.status, "Ready")["reason"] == reason
    assert made.status["pgPhase"] == "up"
    assert truths(report(answered(reason)))[1] == "False"


@pytest.mark.parametrize(
    "reason",
    [
        "InvalidSpec",
        "UserConflict",
        "VersionConflict",
        "VersionUnavailable",
        "VersionMismatch",
        "InvalidParameter",
    ],
)
def test_a_problem_that_only_an_edit_fixes_waits_for_one(reason: str) -> None:
    assert report(answered(reason, login=True)).result == Terminal(reason)
    problem = SyncResult(in_sync=False, problem=Problem(reason=reason, message="m"))
    assert report(problem).result == Terminal(reason)


@pytest.mark.parametrize(
    ("sync", "since", "seconds", "polls"),
    [
        (SyncResult(in_sync=False, problem=Problem(reason="ApplyRejected", message="m")), THEN, 30.0, True),
        (
            SyncResult(in_sync=False, problem=Problem(reason="Terminating", message="m", transient=True)),
            THEN,
            5.0,
            True,
        ),
        (answered("LoginFailed"), THEN, 0.5, False),
        (answered("LoginFailed"), LONG_AGO, 10.0, True),
        (answered("RestartPending", login=True), LONG_AGO, 10.0, True),
        (SyncResult(in_sync=True), THEN, 20.0, False),
    ],
)
def test_looks_again_the_sooner_the_sooner_it_may_change(
    sync: SyncResult, since: str, seconds: float, polls: bool
) -> None:
    assert report(sync, running(since=since)).result == RequeueAfter(seconds, polls=polls)


@pytest.mark.parametrize(
    ("status", "result"),
    [
        ({}, RequeueAfter(DEADLINE_SECONDS)),
        ({"conditions": unschedulable("2026-01-01T00:00:59Z")}, RequeueAfter(19.0)),
        ({"conditions": unschedulable("2026-01-01T00:00:00Z")}, Done()),
    ],
    ids=["on its way", "no node yet", "no node for long"],
)
def test_while_its_pod_starts_it_is_requeued_at_deadlines_alone(status: Object, result: Result) -> None:
    assert report(SyncResult(in_sync=True), running(ready=False, **status)).result == result


def test_pending_restart_is_shown_until_another_pod_is_there() -> None:
    made = report(answered("RestartPending", login=True, pending_restart=["a", "b"]))
    assert made.status["pendingRestart"] == ["a", "b"]
    before = {**made.status, "observedGeneration": 1}
    after = report(SyncResult(in_sync=True), running(ready=False), postgresql(status=before))
    assert after.status["pendingRestart"] == ["a", "b"]
    assert find_condition(after.status, "Ready")["reason"] == "RestartPending"
    unasked = report(SyncResult(in_sync=False), cr=postgresql(status=before))
    assert unasked.status["pendingRestart"] == ["a", "b"]
    replaced = running()
    replaced[POD_REF]["metadata"]["uid"] = "next"
    assert (
        "pendingRestart" not in report(SyncResult(in_sync=True), replaced, postgresql(status=before)).status
    )
    edited = postgresql(generation=2, status=before)
    assert "pendingRestart" not in report(SyncResult(in_sync=False), cr=edited).status
    assert "pendingRestart" not in report(GOOD, cr=postgresql(status=before)).status
    many = report(answered("RestartPending", pending_restart=[f"p{n}" for n in range(99)]))
    assert len(many.status["pendingRestart"]) == 64


def test_paused_says_so_and_judges_by_what_is_there() -> None:
    made = report(SyncResult(in_sync=True, results={"server": ExternalResult(ok=True)}, paused=True))
    assert truths(made) == ("True", "True", "False", "False")
    assert find_condition(made.status, "Paused")["status"] == "True"
    differing = report(SyncResult(in_sync=False, paused=True))
    assert truths(differing) == ("False", "False", "False", "False")
    assert find_condition(differing.status, "Ready")["reason"] == "Paused"
    assert "spec.paused" in find_condition(differing.status, "Ready")["message"]
    assert find_condition(report(GOOD).status, "Paused") == {}


FULL = "TooManyConnections"


@pytest.mark.parametrize(
    ("ok", "expected"),
    [(True, ("True", "True", "False", "False")), (False, ("False", "True", "True", "False"))],
)
def test_a_server_that_is_full_serves(ok: bool, expected: tuple[str, ...]) -> None:
    answer = ExternalResult(
        ok=ok, reason=FULL, message="close some", facts={"login": True, "version": "17.5"}
    )
    made = report(SyncResult(in_sync=True, results={"server": answer}))
    assert truths(made) == expected
    assert made.status["pgPhase"] == "up"
    ready = find_condition(made.status, "Ready")
    assert (ready["reason"], ready["message"]) == (FULL, "close some")


@pytest.mark.parametrize(
    ("was", "reason", "ready_since", "phase"),
    [
        ("True", "LoginSucceeded", None, "Failed"),
        ("False", "Reconciling", None, "pending"),
        ("False", "NotResponding", None, "Failed"),
        ("False", "Reconciling", LONG_AGO, "Failed"),
    ],
)
def test_a_server_that_does_not_respond_has_failed_unless_its_pod_has_only_just_come(
    was: str, reason: str, ready_since: str | None, phase: str
) -> None:
    answer = ExternalResult(ok=False, reason="NotResponding", message="see its node")
    cr = postgresql()
    ready = {"type": "Ready", "status": was, "reason": reason}
    cr["status"] = {"conditions": [ready, {"type": "Available", "status": was}]}
    children = running(since=ready_since) if ready_since else running()
    made = report(SyncResult(in_sync=True, results={"server": answer}), children, cr)
    assert made.status["pgPhase"] == phase
    assert find_condition(made.status, "Available")["status"] == "False"
    assert find_condition(made.status, "Ready")["status"] == "False"
    if phase == "Failed":
        assert find_condition(made.status, "Ready")["reason"] == "NotResponding"
