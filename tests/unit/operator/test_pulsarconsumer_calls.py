"""What the consumers say of their handler: who is asked, and what is made of it, and when."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kindling.kinds.base import CachedResult, ExternalResult, Observed, RequeueAfter, StatusReport, SyncResult
from kindling.kinds.conditions import find_condition, rfc3339
from kindling.kinds.http import HttpRequest
from kindling.kinds.pulsarconsumer import PulsarConsumer, calls
from kindling.kube.resources import NETWORK_POLICY, Object, Ref
from pulsar_consumer.failing import MOST_LISTED, SECONDS, Failing
from pulsar_consumer.health import Health
from pulsar_consumer.recent import Recent

from tests.unit.operator.pulsarconsumers import (
    KIND,
    LONG_AGO,
    NOW,
    consumer,
    observed,
    pod,
    rolled_out,
)

HTTP = {"http": {"url": "http://orders:8080"}}
SETTLED = SyncResult(in_sync=True)
BAD = {
    "id": "5:1:-1",
    "topic": "persistent://public/default/orders",
    "error": "ValueError",
    "since": "2026-01-01T00:00:00Z",
}
FIGURES = {"calls": 1200, "failures": 12, "p99Milliseconds": 250}
FEW = {"consumers": 1, "lastChangedTime": "2026-01-01T00:00:50Z", **FIGURES}


def says(body: object) -> ExternalResult:
    text = body if isinstance(body, str) else json.dumps(body)
    return ExternalResult(ok=True, facts={"status": 200, "body": text})


NO_ANSWER = ExternalResult(ok=False, reason="NotResponding", message="GET /handler failed.")


def seen(cr: Object, answers: Mapping[str, ExternalResult | None], *, now: datetime = NOW) -> Observed:
    """All is rolled out, and these are the Pods' answers to what is asked."""
    children = dict(rolled_out(len(answers)))
    for number, name in enumerate(answers):
        children |= pod(name=name, podIP=f"10.0.0.{number + 1}", phase="Running")
    found = replace(observed(children), now=now)
    results = {
        name: CachedResult(cache_key=probe.cache_key, result=answer, at=NOW)
        for name, probe in KIND.probes(cr, found).items()
        if (answer := answers[name]) is not None
    }
    return replace(found, results=results)


def report(cr: Object, *answers: ExternalResult | None, now: datetime = NOW) -> StatusReport:
    names = {f"printer-{number}": answer for number, answer in enumerate(answers)}
    replicas = {"spec": {**cr["spec"], "replicas": len(answers)}}
    return KIND.status({**cr, **replicas}, seen(cr, names, now=now), SETTLED)


def figures(cr: Object, *answers: ExternalResult | None, now: datetime = NOW) -> Object | None:
    found: Object | None = report(cr, *answers, now=now).status.get("handler")
    return found


def test_each_consumer_that_runs_is_asked_in_the_background() -> None:
    cr = consumer(handler=HTTP)
    [(name, probe)] = KIND.probes(cr, seen(cr, {"printer-0": None})).items()
    assert name == "printer-0"
    assert probe.background
    assert probe.request == HttpRequest(
        namespace="ns", host="10.0.0.1", port=8080, pod="printer-0", path="/handler"
    )
    again = seen(cr, {"printer-0": None}).objects
    container = next(iter(o for r, o in again.items() if r.name == "printer-0"))
    container["status"]["containerStatuses"][0]["restartCount"] = 1
    assert KIND.probes(cr, observed(again))["printer-0"].cache_key != probe.cache_key, "asked at once"


@pytest.mark.parametrize(
    "shown",
    [{"podIP": None}, {"podIP": "a.b"}, {"podIP": "fe80::1%eth0"}, {"podIP": "10.0.0.1", "waiting": "Crash"}],
)
def test_nothing_else_is_asked(shown: dict[str, Any]) -> None:
    assert KIND.probes(consumer(handler=HTTP), observed(pod(**shown))) == {}


def test_without_a_handler_and_of_a_deleted_resource_nobody_is_asked() -> None:
    known = observed(pod(podIP="10.0.0.1"))
    assert len(KIND.probes(consumer(handler=HTTP), known)) == 1
    assert KIND.probes(consumer(), known) == {}
    deleted = consumer(handler=HTTP)
    deleted["metadata"]["deletionTimestamp"] = LONG_AGO
    assert KIND.probes(deleted, known) == {}


def test_of_very_many_some_are_asked() -> None:
    many: dict[Ref, Object] = {}
    for number in range(150):
        many |= pod(name=f"printer-{number:03}", podIP=f"10.0.0.{number}")
    asked = KIND.probes(consumer(handler=HTTP, replicas=150), observed(many))
    assert list(asked) == [f"printer-{number:03}" for number in range(calls.MOST_ASKED)]


@pytest.mark.parametrize("metrics", [None, {"enabled": True}])
def test_the_operator_alone_may_ask(metrics: Object | None) -> None:
    kind = PulsarConsumer(image="i", operator_namespace="ops")

    def rules(cr: Object) -> list[Object]:
        [found] = [child for child in kind.desired(cr, observed()) if child.ref.type == NETWORK_POLICY]
        ingress: list[Object] = found.body["spec"]["ingress"]
        return ingress

    for_metrics = rules(consumer(metrics=metrics))
    asked, *others = rules(consumer(handler=HTTP, metrics=metrics))
    assert others == for_metrics, "without a handler nothing is opened for it"
    assert asked["ports"] == [{"port": 8080, "protocol": "TCP"}]
    [peer] = asked["from"]
    assert peer["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "ops"}
    assert peer["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "operator"


def test_sums_and_the_slowest() -> None:
    other = {"calls": 345, "failures": 0, "p99Milliseconds": 999}
    assert figures(consumer(handler=HTTP), says(FIGURES), says(other), NO_ANSWER) == {
        "consumers": 2,
        "calls": 1500,
        "failures": 12,
        "p99Milliseconds": 990,
        "lastChangedTime": rfc3339(NOW),
    }


def test_of_consumers_that_were_not_called_there_is_no_percentile() -> None:
    idle = says({"calls": 0, "failures": 0, "poison": []})
    assert figures(consumer(handler=HTTP), idle) == {
        "consumers": 1,
        "calls": 0,
        "failures": 0,
        "lastChangedTime": rfc3339(NOW),
    }


def test_the_last_ones_stay_until_every_consumer_has_answered_or_failed_to() -> None:
    cr = consumer(handler=HTTP, status={"handler": FEW})
    assert figures(cr, says({"calls": 9, "failures": 9}), None) == FEW
    assert figures(cr, NO_ANSWER, NO_ANSWER) is None, "what is not known is not said"
    assert figures(consumer(status={"handler": FEW}), says(FIGURES)) is None, "of no handler nothing is said"


@pytest.mark.parametrize(
    ("moved", "written"),
    [
        ({"calls": 1300}, False),
        ({"calls": 1400}, True),
        ({"failures": 11}, False),
        ({"failures": 0}, True),
        ({"p99Milliseconds": 230}, False),
        ({"p99Milliseconds": 300}, True),
    ],
)
def test_figures_that_have_moved_little_are_not_written(moved: Object, written: bool) -> None:
    cr = consumer(handler=HTTP, status={"handler": {**FEW, "lastChangedTime": LONG_AGO}})
    found = figures(cr, says({**FIGURES, **moved}))
    assert found is not None
    assert found["lastChangedTime"] == (rfc3339(NOW) if written else LONG_AGO)
    assert found["calls"] == (moved.get("calls", 1200) if written else 1200)


def test_figures_that_move_all_the_time_are_written_once_a_minute() -> None:
    """Ten seconds ago they were written last."""
    cr, moved = consumer(handler=HTTP, status={"handler": FEW}), says({**FIGURES, "calls": 9000})
    made = report(cr, moved)
    assert made.status["handler"] == FEW
    assert made.result == RequeueAfter(50.0)
    made = report(cr, moved, now=NOW + timedelta(seconds=50))
    assert made.status["handler"]["calls"] == 9000


def test_a_message_that_fails_while_others_are_handled_is_named() -> None:
    """The consumers are connected, and go on: so it is available."""
    cr = consumer(handler=HTTP, status={"handler": FEW})
    made = report(cr, says({**FIGURES, "poison": [BAD]}))
    assert made.status["handler"] == {**FEW, "poisonMessages": [BAD]}, "at once, unlike figures"
    ready, available, degraded = (
        find_condition(made.status, name) for name in ("Ready", "Available", "Degraded")
    )
    assert (ready["status"], ready["reason"]) == ("False", "PoisonMessage")
    assert ready["message"] == (
        "Set spec.deadLetter.topic, where a message goes that has failed spec.retry.maxDeliveries times, or "
        "fix the handler for this one: the consumer's log has each failure, and its previous log "
        "(--previous) the last lines of a process that ended. Message 5:1:-1 of "
        "persistent://public/default/orders has failed with ValueError since 2026-01-01T00:00:00Z, and "
        "others have been handled since."
    )
    assert (available["status"], degraded["status"]) == ("True", "True")
    known = consumer(handler=HTTP, status=made.status)
    unknown = report(known, None)
    assert find_condition(unknown.status, "Ready")["reason"] == "PoisonMessage", (
        "a new leader knows no better"
    )
    healed = report(known, says(FIGURES))
    assert find_condition(healed.status, "Ready")["reason"] == "Connected"
    assert healed.status["handler"] == FEW


def test_of_several_the_oldest_is_named() -> None:
    later = {**BAD, "id": "5:2:-1", "since": "2026-01-01T00:00:30Z"}
    made = report(
        consumer(handler=HTTP), says({**FIGURES, "poison": [later]}), says({**FIGURES, "poison": [BAD] * 20})
    )
    listed = made.status["handler"]["poisonMessages"]
    assert (len(listed), listed[0]) == (10, BAD)
    message = find_condition(made.status, "Ready")["message"]
    assert "Message 5:1:-1 of" in message
    assert message.endswith("handled since (and 9 more: status.handler.poisonMessages).")


def test_what_a_consumer_that_ends_says_goes_first() -> None:
    cr = consumer(handler=HTTP, status={"handler": {**FEW, "poisonMessages": [BAD]}})
    line = "PoisonMessage: the process has ended 3 times while it handled message 5:7:-1"
    known = {**rolled_out(1, available=0), **pod(ready=False, waiting="CrashLoopBackOff", said=line)}
    ready = find_condition(KIND.status(cr, observed(known), SETTLED).status, "Ready")
    assert ready["reason"] == "PoisonMessage"
    assert ready["message"].endswith(
        "The consumer says: PoisonMessage: the process has ended 3 times while it handled message 5:7:-1."
    )


@pytest.mark.parametrize(
    "body",
    [
        "",
        "[]",
        "{",
        "[" * 3000,
        "{}",
        {"calls": 1},
        {"calls": -1, "failures": 0},
        {"calls": True, "failures": 0},
    ],
)
def test_what_is_no_answer_of_a_consumer_is_none(body: object) -> None:
    """An image of one's own has no such page, or another one."""
    assert figures(consumer(handler=HTTP), says(body)) is None


@pytest.mark.parametrize(
    "item",
    [
        None,
        [],
        {},
        {**BAD, "id": "a message"},
        {**BAD, "id": 5},
        {**BAD, "since": "now"},
        {**BAD, "id": "5" * 200},
    ],
)
def test_what_is_no_message_is_not_listed(item: object) -> None:
    found = figures(consumer(handler=HTTP), says({**FIGURES, "poison": [item]}))
    assert found is not None
    assert "poisonMessages" not in found


def test_a_topic_or_an_error_of_other_letters_is_left_out() -> None:
    odd = {**BAD, "topic": "überall", "error": "a\nb"}
    made = report(consumer(handler=HTTP), says({**FIGURES, "poison": [odd]}))
    assert made.status["handler"]["poisonMessages"] == [{"id": BAD["id"], "since": BAD["since"]}]
    assert "Message 5:1:-1 has failed since" in find_condition(made.status, "Ready")["message"]


NAMES = st.sampled_from(["calls", "failures", "p99Milliseconds", "poison", "id", "since"])
BODIES = st.recursive(
    st.none() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(NAMES, inner),
    max_leaves=20,
)


@given(body=BODIES)
def test_any_answer_is_read_without_an_error(body: object) -> None:
    report(consumer(handler=HTTP), says(body))


def test_the_consumer_serves_what_is_asked_for(tmp_path: Any) -> None:
    """The page of the runner, read by the operator; of its longest the prober keeps all."""
    now = [0.0]
    failing, recent = Failing(tmp_path / "marker", clock=lambda: now[0]), Recent()
    for entry in range(9):
        for _ in range(2):
            failing.failure(
                f"{2**63}:{entry}:{2**31}:999", "E" * 200 + ": words", topic="t" * 400, given_up=True
            )
            failing.success()
        recent.called(0.2, failed=True)
    now[0] = SECONDS
    page = json.dumps({**recent.figures(), "poison": failing.poison()})
    assert len(page) < 4096
    made = report(consumer(handler=HTTP), says(page))
    said = made.status["handler"]
    assert (said["calls"], said["failures"]) == (9, 9)
    assert 180 <= said["p99Milliseconds"] <= 220
    assert len(said["poisonMessages"]) == MOST_LISTED
    assert "words" not in json.dumps(made.status)
    assert Health().page is None
