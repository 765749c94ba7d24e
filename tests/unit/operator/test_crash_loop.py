"""A container that keeps failing is said to until it runs, and not only while the kubelet waits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from kindling.kinds.crash_loop import RESET_SECONDS, RUN_SECONDS
from kindling.kinds.pods import deadlines, pod_problem
from kindling.kube.resources import Object

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def ago(seconds: float) -> str:
    return (NOW - timedelta(seconds=seconds)).isoformat()


def ended(*, began: float = 4, stopped: float = 3, code: int = 1, reason: str = "Error") -> Object:
    return {"startedAt": ago(began), "finishedAt": ago(stopped), "exitCode": code, "reason": reason}


def running(since: float = 2) -> Object:
    return {"running": {"startedAt": ago(since)}}


def pod(state: Object, *, last: Object | None = None, restarts: int = 2, ready: bool = False) -> Object:
    limits = {"limits": {"memory": "256Mi"}}
    item: Object = {
        "name": "c",
        "state": state,
        "restartCount": restarts,
        "ready": ready,
        "resources": limits,
    }
    if last is not None:
        item["lastState"] = {"terminated": last}
    return {"metadata": {"namespace": "ns", "name": "p"}, "status": {"containerStatuses": [item]}}


WAITING = {"waiting": {"reason": "CrashLoopBackOff"}}


@pytest.mark.parametrize(
    "found",
    [
        pod(WAITING, last=ended()),
        pod(WAITING, restarts=0),
        pod({"terminated": ended()}),
        pod(running(), last=ended()),
        pod(running(RUN_SECONDS - 1), last=ended(began=60, stopped=30)),
    ],
    ids=["waits", "waits, nothing known", "has just ended", "just started", "about to be on its way"],
)
def test_it_keeps_failing(found: Object) -> None:
    problem = pod_problem(found, now=NOW)
    assert problem is not None
    assert (problem.reason, problem.transient) == ("CrashLoopBackOff", False)


@pytest.mark.parametrize(
    "found",
    [
        pod(running(), last=ended(), restarts=1),
        pod(running(RUN_SECONDS), last=ended(began=60, stopped=31)),
        pod(running(), last=ended(began=RESET_SECONDS + 3)),
        pod(running(), last=ended(code=0)),
        pod(running(), last=ended(), ready=True),
        pod(running()),
        pod({"terminated": ended(code=0)}),
        pod({"terminated": {"exitCode": 1}}),
        pod({}),
    ],
    ids=[
        "failed once",
        "runs",
        "had run for long",
        "ended well",
        "is ready",
        "its last end is not known",
        "has ended well",
        "the time of its end is not known",
        "nothing is known",
    ],
)
def test_it_does_not(found: Object) -> None:
    assert pod_problem(found, now=NOW) is None
    assert deadlines([found], now=NOW) == []


def test_that_it_runs_is_seen_at_its_time() -> None:
    """No event says so."""
    assert deadlines([pod(running(2), last=ended())], now=NOW) == [RUN_SECONDS - 2]
    assert deadlines([pod(WAITING, last=ended())], now=NOW) == []


@pytest.mark.parametrize(
    ("last", "message"),
    [
        (
            ended(code=137, reason="OOMKilled"),
            "Container c keeps failing: it uses more memory than its limit, 256Mi, and is killed for that "
            "(OOMKilled). Raise the limit in the spec, or have it use less.",
        ),
        (
            ended(code=3),
            "Container c keeps failing, the last time with exit code 3: see "
            "`kubectl logs p -c c --previous -n ns`.",
        ),
        (None, "Container c keeps failing: see `kubectl logs p -c c --previous -n ns`."),
    ],
)
def test_the_message_has_how_it_ended(last: Object | None, message: str) -> None:
    problem = pod_problem(pod(WAITING, last=last), now=NOW)
    assert problem is not None
    assert problem.message == message
