"""The status tells what was observed: Ready only after a login for this generation, a reason for the rest."""

from __future__ import annotations

from typing import Any

import pytest
from kindling.kinds.conditions import find
from kindling.kinds.contract import After, Answer, Done, Findings, Invalid, Outcome, Problem, Report
from kindling.kinds.postgresql.login import Login
from kindling.kinds.progress import DEADLINE_SECONDS
from kindling.kube.resources import POD, SECRET, STATEFUL_SET, Object, Ref

from tests.unit.operator.postgresqls import KIND, THEN, observed, postgresql, running, secret

GOOD = Findings(settled=True, answer=Answer(ok=True))
POD_REF = Ref(POD, "ns", "db-0")
LONG_AGO = "2025-12-31T00:00:00Z"
CONDITIONS = ("Ready", "Available", "Progressing", "Degraded")


def report(findings: Findings, children: dict[Ref, Object] | None = None, cr: Object | None = None) -> Report:
    return KIND.status(cr or postgresql(), observed(running() if children is None else children), findings)


def truths(made: Report) -> tuple[str, ...]:
    return tuple(find(made.status, name)["status"] for name in CONDITIONS)


def inquiry(children: dict[Ref, Object], **spec: Any) -> Login | None:
    return KIND.inquire(postgresql(**spec), observed(children))


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
    assert made.outcome == Done()


@pytest.mark.parametrize(
    "findings",
    [
        Findings(settled=False),
        Findings(settled=True),
        Findings(settled=True, answer=Answer(ok=False, reason="LoginFailed", message="m")),
        Findings(settled=False, answer=Answer(ok=True)),
        Findings(settled=True, answer=Answer(ok=True), problem=Problem(reason="Refused", message="m")),
    ],
)
def test_not_ready_without_a_login_for_what_is_settled(findings: Findings) -> None:
    assert find(report(findings).status, "Ready")["status"] == "False"


def test_nothing_there_yet_is_pending() -> None:
    made = report(Findings(settled=False), {})
    assert truths(made) == ("False", "False", "True", "False")
    assert made.status["pgPhase"] == "pending"
    assert "active" not in made.status
    assert "binding" not in made.status


def test_announcing_and_starting_read_the_same() -> None:
    """Or each new resource would cost another write while its Pod starts."""
    starting = running(ready=False)
    assert report(Findings(settled=False), {}).status == report(Findings(settled=True), starting).status


def test_available_is_what_was_last_found_out() -> None:
    failed = Findings(settled=True, answer=Answer(ok=False, reason="LoginFailed", message="m"))
    once = postgresql(status={"conditions": [{"type": "Available", "status": "True"}]})
    assert find(report(failed, cr=once).status, "Available")["status"] == "False"
    assert find(report(Findings(settled=False)).status, "Available")["status"] == "False"
    assert find(report(GOOD, running(ready=False), once).status, "Available")["status"] == "False"


def test_edit_being_taken_up_keeps_what_serves() -> None:
    before = {"conditions": [{"type": "Available", "status": "True"}], "binding": {"name": "db-binding"}}
    made = report(Findings(settled=False), cr=postgresql(generation=2, status=before))
    assert truths(made) == ("False", "True", "True", "False")
    assert made.status["pgPhase"] == "up"
    assert made.status["binding"] == {"name": "db-binding"}


def test_invalid_waits_for_an_edit_alone() -> None:
    made = report(Findings(settled=False, problem=Problem(reason="InvalidSpec", message="m")), {})
    assert made.outcome == Invalid("InvalidSpec")
    assert made.status["pgPhase"] == "Failed"
    assert truths(made) == ("False", "False", "False", "True")


def test_passing_obstacle_is_no_fault() -> None:
    made = report(
        Findings(settled=False, problem=Problem(reason="Terminating", message="m", passing=True)), {}
    )
    assert truths(made) == ("False", "False", "True", "False")
    assert made.status["pgPhase"] == "pending"
    assert isinstance(made.outcome, After)


@pytest.mark.parametrize(
    ("answer", "since", "reason"),
    [
        (Answer(ok=False, reason="LoginFailed", message="m"), "2026-01-01T00:00:50Z", "Reconciling"),
        (Answer(ok=False, reason="LoginFailed", message="m"), "2025-12-31T00:00:00Z", "LoginFailed"),
        (
            Answer(ok=False, reason="SuperuserLoginFailed", message="m"),
            "2026-01-01T00:00:50Z",
            "SuperuserLoginFailed",
        ),
    ],
)
def test_login_has_its_time(answer: Answer, since: str, reason: str) -> None:
    made = report(Findings(settled=True, answer=answer), running(since=since))
    assert find(made.status, "Ready")["reason"] == reason
    assert isinstance(made.outcome, After)


def unschedulable(since: str | None) -> list[Object]:
    return [{"type": "PodScheduled", "status": "False", "lastTransitionTime": since}]


def waiting(reason: str) -> list[Object]:
    return [{"name": "postgres", "image": "i", "state": {"waiting": {"reason": reason}}}]


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ({"containerStatuses": waiting("ImagePullBackOff")}, "ImagePullFailed"),
        ({"containerStatuses": waiting("ErrImagePull")}, "ImagePullFailed"),
        ({"initContainerStatuses": waiting("CrashLoopBackOff")}, "Crashing"),
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
    made = report(Findings(settled=True), running(ready=False, **status))
    ready = find(made.status, "Ready")
    assert ready["reason"] == reason
    assert (made.status["pgPhase"] == "Failed") is (reason != "Reconciling")


def test_plaintext_password_is_flagged_and_only_then() -> None:
    assert find(report(GOOD, cr=postgresql(password="x")).status, "PlaintextPassword")["status"] == "True"
    assert find(report(GOOD).status, "PlaintextPassword") == {}


@pytest.mark.parametrize(
    "findings", [GOOD, Findings(settled=False), Findings(settled=True, paused=True)], ids=repr
)
def test_every_message_ends_and_every_reason_is_one_word(findings: Findings) -> None:
    for item in report(findings, cr=postgresql(password="x")).status["conditions"]:
        assert item["reason"].isalpha()
        assert item["message"].endswith(".")


def test_asks_a_ready_pod_of_the_current_revision_alone() -> None:
    assert inquiry(running()) is not None
    assert inquiry(running(ready=False)) is None
    assert inquiry(running(revision="r0")) is None
    unseen = running()
    unseen[Ref(STATEFUL_SET, "ns", "db")]["metadata"]["generation"] = 2
    assert inquiry(unseen) is None
    leaving = running()
    leaving[POD_REF]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert inquiry(leaving) is None
    without = {ref: obj for ref, obj in running().items() if ref.name != "db-binding"}
    assert inquiry(without) is None
    assert inquiry(without, password="given") is not None


def test_memo_changes_with_all_that_calls_for_a_new_login() -> None:
    def memo(children: dict[Ref, Object], **spec: Any) -> object:
        found = inquiry(children, **spec)
        assert found is not None
        return found.memo

    base = memo(running())
    assert memo(running()) == base
    restarted = running(containerStatuses=[{"name": "postgres", "restartCount": 1}])
    other_pod = running()
    other_pod[POD_REF]["metadata"]["uid"] = "next"
    other_password = {**running(), Ref(SECRET, "ns", "db-binding"): secret(password="edited")}
    for different in (restarted, other_pod, other_password):
        assert memo(different) != base
    assert memo(running(), defaultUser="ada") != base
    assert "made" not in repr(base)


def answered(reason: str, **facts: Any) -> Findings:
    return Findings(settled=True, answer=Answer(ok=False, reason=reason, message="m", facts=facts))


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
    assert find(made.status, "Ready")["reason"] == reason
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
def test_what_only_an_edit_mends_waits_for_one(reason: str) -> None:
    assert report(answered(reason, login=True)).outcome == Invalid(reason)
    problem = Findings(settled=False, problem=Problem(reason=reason, message="m"))
    assert report(problem).outcome == Invalid(reason)


@pytest.mark.parametrize(
    ("findings", "since", "seconds"),
    [
        (Findings(settled=False, problem=Problem(reason="Refused", message="m")), THEN, 30.0),
        (
            Findings(settled=False, problem=Problem(reason="Terminating", message="m", passing=True)),
            THEN,
            5.0,
        ),
        (answered("LoginFailed"), THEN, 0.5),
        (answered("LoginFailed"), LONG_AGO, 10.0),
        (answered("RestartPending", login=True), LONG_AGO, 10.0),
        (Findings(settled=True), THEN, 20.0),
    ],
)
def test_looks_again_the_sooner_the_sooner_it_may_change(
    findings: Findings, since: str, seconds: float
) -> None:
    assert report(findings, running(since=since)).outcome == After(seconds)


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        ({}, After(DEADLINE_SECONDS)),
        ({"conditions": unschedulable("2026-01-01T00:00:59Z")}, After(19.0)),
        ({"conditions": unschedulable("2026-01-01T00:00:00Z")}, Done()),
    ],
    ids=["on its way", "no node yet", "no node for long"],
)
def test_while_its_pod_starts_it_is_looked_at_again_only_when_time_tells(
    status: Object, outcome: Outcome
) -> None:
    assert report(Findings(settled=True), running(ready=False, **status)).outcome == outcome


def test_pending_restart_is_shown_until_another_pod_is_there() -> None:
    made = report(answered("RestartPending", login=True, pending_restart=["a", "b"]))
    assert made.status["pendingRestart"] == ["a", "b"]
    before = {**made.status, "observedGeneration": 1}
    after = report(Findings(settled=True), running(ready=False), postgresql(status=before))
    assert after.status["pendingRestart"] == ["a", "b"]
    assert find(after.status, "Ready")["reason"] == "RestartPending"
    unasked = report(Findings(settled=False), cr=postgresql(status=before))
    assert unasked.status["pendingRestart"] == ["a", "b"]
    replaced = running()
    replaced[POD_REF]["metadata"]["uid"] = "next"
    assert "pendingRestart" not in report(Findings(settled=True), replaced, postgresql(status=before)).status
    edited = postgresql(generation=2, status=before)
    assert "pendingRestart" not in report(Findings(settled=False), cr=edited).status
    assert "pendingRestart" not in report(GOOD, cr=postgresql(status=before)).status
    many = report(answered("RestartPending", pending_restart=[f"p{n}" for n in range(99)]))
    assert len(many.status["pendingRestart"]) == 64


def test_paused_says_so_and_judges_by_what_is_there() -> None:
    made = report(Findings(settled=True, answer=Answer(ok=True), paused=True))
    assert truths(made) == ("True", "True", "False", "False")
    assert find(made.status, "Paused")["status"] == "True"
    differing = report(Findings(settled=False, paused=True))
    assert truths(differing) == ("False", "False", "False", "False")
    assert find(differing.status, "Ready")["reason"] == "Paused"
    assert "spec.paused" in find(differing.status, "Ready")["message"]
    assert find(report(GOOD).status, "Paused") == {}


FULL = "TooManyConnections"


@pytest.mark.parametrize(
    ("ok", "expected"),
    [(True, ("True", "True", "False", "False")), (False, ("False", "True", "True", "False"))],
)
def test_a_server_that_is_full_serves(ok: bool, expected: tuple[str, ...]) -> None:
    answer = Answer(ok=ok, reason=FULL, message="close some", facts={"login": True, "version": "17.5"})
    made = report(Findings(settled=True, answer=answer))
    assert truths(made) == expected
    assert made.status["pgPhase"] == "up"
    ready = find(made.status, "Ready")
    assert (ready["reason"], ready["message"]) == (FULL, "close some")


@pytest.mark.parametrize(
    ("was", "told", "ready_since", "phase"),
    [
        ("True", "LoginSucceeded", None, "Failed"),
        ("False", "Reconciling", None, "pending"),
        ("False", "NotResponding", None, "Failed"),
        ("False", "Reconciling", LONG_AGO, "Failed"),
    ],
)
def test_a_server_that_does_not_respond_has_failed_unless_its_pod_has_only_just_come(
    was: str, told: str, ready_since: str | None, phase: str
) -> None:
    answer = Answer(ok=False, reason="NotResponding", message="see its node")
    cr = postgresql()
    ready = {"type": "Ready", "status": was, "reason": told}
    cr["status"] = {"conditions": [ready, {"type": "Available", "status": was}]}
    children = running(since=ready_since) if ready_since else running()
    made = report(Findings(settled=True, answer=answer), children, cr)
    assert made.status["pgPhase"] == phase
    assert find(made.status, "Available")["status"] == "False"
    assert find(made.status, "Ready")["status"] == "False"
    if phase == "Failed":
        assert find(made.status, "Ready")["reason"] == "NotResponding"
