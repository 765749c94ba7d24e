"""The status reports observed state: Ready only with every consumer connected, else a reason."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kindling.kinds.base import Done, Problem, RequeueAfter, Result, StatusReport, SyncResult, Terminal
from kindling.kinds.conditions import find_condition
from kindling.kinds.progress import DEADLINE_SECONDS
from kindling.kinds.pulsarconsumer import PulsarConsumer
from kindling.kinds.pulsarconsumer.status import CONNECT_GRACE_SECONDS, ENDING_SECONDS, NEXT_STEPS
from kindling.kube.resources import DEPLOYMENT, Object, Ref
from pulsar_consumer import client as consumers

from tests.unit.operator.pulsarconsumers import (
    BROKER,
    JUST_NOW,
    KIND,
    LOCAL,
    SPECS,
    consumer,
    observed,
    pod,
    rolled_out,
)

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guides" / "pulsarconsumer.md"
SETTLED = SyncResult(in_sync=True)
CONDITIONS = ("Ready", "Available", "Progressing", "Degraded")
UNCONNECTED = {**rolled_out(1, available=0), **pod(ready=False)}


def report(
    children: dict[Ref, Object],
    *,
    sync: SyncResult = SETTLED,
    cr: Object | None = None,
    kind: PulsarConsumer = KIND,
) -> StatusReport:
    return kind.status(cr or consumer(), observed(children), sync)


def truths(made: StatusReport) -> tuple[str, ...]:
    return tuple(find_condition(made.status, name)["status"] for name in CONDITIONS)


def reason(made: StatusReport) -> str:
    return str(find_condition(made.status, "Ready")["reason"])


def message(made: StatusReport) -> str:
    return str(find_condition(made.status, "Ready")["message"])


def test_connected() -> None:
    made = report({**rolled_out(), **pod()}, cr=consumer(generation=3))
    assert truths(made) == ("True", "True", "False", "False")
    assert reason(made) == "Connected"
    assert made.result == Done()
    assert {item["observedGeneration"] for item in made.status["conditions"]} == {3}
    del made.status["conditions"]
    assert made.status == {
        "server": "pulsar://broker:6650",
        "topic": "orders",
        "subscription": "printers",
        "replicas": 1,
        "selector": f"app.kubernetes.io/instance=printer,kindling.dev/kind={KIND.type.group_kind}",
        "observedGeneration": 3,
    }


def test_none_wanted_is_ready_once_none_is_left() -> None:
    none = consumer(replicas=0)
    made = report(rolled_out(0), cr=none)
    assert truths(made) == ("True", "False", "False", "False")
    assert reason(made) == "ScaledToZero"
    assert "keeps every message for subscription 'printers'" in message(made)
    assert made.status["replicas"] == 0
    still_one = rolled_out(0, replicas=1)
    assert truths(report({**still_one, **pod()}, cr=none))[0] == "False"


@pytest.mark.parametrize(
    "children",
    [
        {},
        pod(),
        {**rolled_out(1, available=0), **pod()},
        {**rolled_out(2, available=1), **pod()},
        {**rolled_out(), **pod(ready=False)},
        {**rolled_out(1, observedGeneration=0), **pod()},
        {**rolled_out(1, updatedReplicas=0), **pod()},
        {**rolled_out(1, replicas=2), **pod()},
    ],
)
def test_not_ready_before_all_of_this_generation_are_connected(children: dict[Ref, Object]) -> None:
    assert truths(report(children))[0] == "False"


@pytest.mark.parametrize(
    "sync",
    [
        SyncResult(in_sync=False),
        SyncResult(in_sync=True, problem=Problem(reason="ApplyRejected", message="m.")),
    ],
)
def test_not_ready_before_children_are_settled(sync: SyncResult) -> None:
    assert truths(report({**rolled_out(), **pod()}, sync=sync))[0] == "False"


def test_announcing_and_starting_read_the_same() -> None:
    """Or each new resource would cost another write while its Pods start."""
    announced = report({}, sync=SyncResult(in_sync=False)).status
    starting = {**rolled_out(1, available=0), **pod(ready=False, since=JUST_NOW)}
    cr = consumer(status=announced)
    assert report(starting, cr=cr).status == report({}, cr=cr).status == announced
    assert announced["replicas"] == 0


def test_edit_being_taken_up_keeps_what_consumes() -> None:
    known = {"server": "old", "topic": "old", "subscription": "old", "replicas": 1}
    made = report(
        {**rolled_out(), **pod()},
        cr=consumer(generation=2, status=known),
        sync=SyncResult(in_sync=False),
    )
    assert truths(made) == ("False", "True", "True", "False")
    assert (made.status["topic"], made.status["replicas"]) == ("orders", 1)


def test_the_status_of_a_held_back_resource_reports_the_running_spec() -> None:
    problem = Problem(reason="SecretNotFound", message="m.")
    known = {"server": "pulsar://old:6650", "topic": "old", "subscription": "old", "replicas": 1}
    held = SyncResult(in_sync=False, problem=problem)
    made = report({**rolled_out(), **pod()}, cr=consumer(status=known), sync=held)
    assert (made.status["server"], made.status["topic"], made.status["subscription"]) == (
        "pulsar://old:6650", "old", "old",
    )  # fmt: skip
    assert truths(made) == ("False", "True", "False", "True")
    assert isinstance(made.result, RequeueAfter)
    assert "server" not in report({}, sync=held).status


@pytest.mark.parametrize(
    ("said", "updated", "for_an_edit"),
    [
        ("InvalidTopic: no such name", 1, True),
        ("InvalidAddress: not a broker's", 1, True),
        ("InvalidTopic: no such name", 0, False),
        ("TopicNotFound: make it", 1, False),
    ],
    ids=["topic", "address", "of an earlier spec", "may come to be"],
)
def test_a_problem_that_only_an_edit_fixes_is_not_retried(said: str, updated: int, for_an_edit: bool) -> None:
    made = report({**rolled_out(1, available=0, updatedReplicas=updated), **pod(ready=False, said=said)})
    assert find_condition(made.status, "Ready")["reason"] == said.partition(":")[0]
    assert isinstance(made.result, Terminal) is for_an_edit


def test_somebody_elses_deployment_is_not_counted() -> None:
    theirs = rolled_out(7)
    theirs[Ref(DEPLOYMENT, "ns", "printer-deployment")]["metadata"]["ownerReferences"] = [{"uid": "theirs"}]
    conflict = SyncResult(in_sync=False, problem=Problem(reason="NameConflict", message="m."))
    assert report(theirs, sync=conflict).status["replicas"] == 0


def test_transient_problem_is_no_fault() -> None:
    passing = Problem(reason="Terminating", message="m.", transient=True)
    made = report({}, sync=SyncResult(in_sync=False, problem=passing))
    assert truths(made) == ("False", "False", "True", "False")


@pytest.mark.parametrize(
    ("children", "problem", "result"),
    [
        ({**rolled_out(), **pod()}, None, Done()),
        ({}, Problem(reason="Terminating", message="m.", transient=True), RequeueAfter(5.0, polls=True)),
        ({}, Problem(reason="ApplyRejected", message="m."), RequeueAfter(30.0, polls=True)),
        ({}, None, RequeueAfter(DEADLINE_SECONDS)),
        (UNCONNECTED, None, Done()),
        (pod(ready=False, since=JUST_NOW), None, RequeueAfter(CONNECT_GRACE_SECONDS - 1)),
        (
            {**UNCONNECTED, **pod(name="b", ready=False, since=JUST_NOW)},
            None,
            RequeueAfter(CONNECT_GRACE_SECONDS - 1),
        ),
    ],
    ids=["ready", "being removed", "refused", "no Pod yet", "unconnected for long", "not yet", "one not yet"],
)
def test_looks_again_the_sooner_the_sooner_it_may_change(
    children: dict[Ref, Object], problem: Problem | None, result: Result
) -> None:
    sync = SyncResult(in_sync=problem is None, problem=problem)
    assert report(children, sync=sync).result == result


def test_a_missing_broker_is_reported_after_a_while_until_it_is_back() -> None:
    fresh = {**rolled_out(1, available=0), **pod(ready=False, since=JUST_NOW)}
    assert reason(report(fresh)) == "Reconciling"
    assert isinstance(report(fresh).result, RequeueAfter)
    made = report(UNCONNECTED)
    assert reason(made) == "BrokerUnreachable"
    assert truths(made) == ("False", "False", "False", "True")
    assert "pulsar://broker:6650" in message(made)
    assert made.status["replicas"] == 1
    assert reason(report({**rolled_out(), **pod()}, cr=consumer(status=made.status))) == "Connected"


def test_one_that_may_be_ending_is_not_called_unconnected_yet() -> None:
    """It is unready before the kubelet says that it has ended: killed for its memory, say."""

    def unready(since: str) -> dict[Ref, Object]:
        gone = {"type": "Ready", "status": "False", "lastTransitionTime": since}
        return {**rolled_out(1, available=0), **pod(ready=False, conditions=[gone])}

    made = report(unready(JUST_NOW))
    assert (reason(made), made.result) == ("Reconciling", RequeueAfter(ENDING_SECONDS - 1))
    made = report(unready("2026-01-01T00:00:57Z"))
    assert (reason(made), made.result) == ("BrokerUnreachable", Done())


def test_one_of_two_unconnected_is_a_fault_while_the_other_serves() -> None:
    children = {**rolled_out(2, available=1), **pod(), **pod(name="printer-2", ready=False)}
    made = report(children, cr=consumer(replicas=2))
    assert truths(made) == ("False", "True", "False", "True")
    assert made.status["replicas"] == 2


@pytest.mark.parametrize(
    ("server", "kind", "words"),
    [
        (
            "pulsar://localhost:6650",
            KIND,
            ["the Pod itself", "spec.serverAddress", "pulsar://SERVICE.NAMESPACE:6650"],
        ),
        ("pulsar+ssl://localhost:6651", LOCAL, ["the Pod itself", "spec.serverAddress"]),
        ("pulsar://localhost:6650", LOCAL, [BROKER, "pulsar://localhost:6650"]),
        (
            "pulsar://broker:6650",
            LOCAL,
            ["pulsar://broker:6650", "kubectl logs deployment/printer-deployment -n ns"],
        ),
    ],
)
def test_unreachable_says_what_localhost_is(server: str, kind: PulsarConsumer, words: list[str]) -> None:
    made = report(UNCONNECTED, cr=consumer(serverAddress=server), kind=kind)
    assert reason(made) == "BrokerUnreachable"
    assert [word for word in words if word not in message(made)] == []


def test_every_reason_that_the_consumer_gives_has_a_next_step_and_is_in_the_guide() -> None:
    """The operator would lose one that it does not know, and report that the Pod crashes."""
    own = {"InvalidSetting", "HandlerUnavailable", "HandlerFailing", "PoisonMessage"}  # from its __main__
    own |= {consumers.CERTIFICATE_REJECTED, consumers.ISSUER_UNREACHABLE}
    given = {reason for reason, _ in consumers.REASONS.values()} | own
    assert set(NEXT_STEPS) == given
    assert all(step.endswith(".") for step in NEXT_STEPS.values())  # the consumer's words follow
    rows = [line for line in GUIDE.read_text().splitlines() if line.startswith("| `")]
    assert given <= {word for row in rows for word in re.findall(r"`(\w+)`", row.split("|")[1])}


@pytest.mark.parametrize("said", sorted(NEXT_STEPS))
def test_consumers_own_word_goes_first_until_it_is_connected(said: str) -> None:
    words = f"{said}: in its own\nwords"
    for children in (
        pod(ready=False, said=words, waiting="CrashLoopBackOff"),
        pod(ready=False, said=words, since=JUST_NOW),
    ):
        made = report({**rolled_out(1, available=0), **children})
        assert reason(made) == said
        assert NEXT_STEPS[said] in message(made)
        assert message(made).endswith("in its own words.")
    assert reason(report({**rolled_out(), **pod(said=words)})) == "Connected"


@pytest.mark.parametrize("said", ["", "Ready: yes", "killed", "BrokerUnreachable", "\0", "x" * 9000])
def test_other_last_words_are_no_reason(said: str) -> None:
    crashing = pod(ready=False, said=said, waiting="CrashLoopBackOff")
    assert reason(report({**rolled_out(1, available=0), **crashing})) == "CrashLoopBackOff"


def test_word_of_another_container_is_not_the_consumers() -> None:
    children = {**rolled_out(1, available=0), **pod(ready=False, said="TopicNotFound: no", since=JUST_NOW)}
    for ref, obj in children.items():
        if ref.type != DEPLOYMENT:
            obj["status"]["containerStatuses"][0]["name"] = "other"
    assert reason(report(children)) == "Reconciling"


@pytest.mark.parametrize(
    ("waiting", "reason_"),
    [
        ("ImagePullBackOff", "ImagePullFailed"),
        ("CreateContainerConfigError", "PodSetupFailed"),
        ("CrashLoopBackOff", "CrashLoopBackOff"),
        ("ContainerCreating", "Reconciling"),
    ],
)
def test_pods_trouble_is_named(waiting: str, reason_: str) -> None:
    assert reason(report({**rolled_out(1, available=0), **pod(ready=False, waiting=waiting)})) == reason_


def test_rejected_pods_are_reported_with_the_servers_message() -> None:
    failure = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: few"}
    made = report(rolled_out(1, replicas=0, updatedReplicas=0, available=0, conditions=[failure]))
    assert reason(made) == "FailedCreate"
    assert "exceeded quota: few" in message(made)


def test_what_is_well_is_said_in_whole_sentences_too() -> None:
    for made in (report({**rolled_out(), **pod()}), report(rolled_out(0), cr=consumer(replicas=0))):
        assert all(item["message"].endswith(".") for item in made.status["conditions"])


STATUSES = st.sampled_from([{}, {"conditions": None, "containerStatuses": None}, {"containerStatuses": [{}]}])


@given(spec=SPECS, status=STATUSES, ready=st.booleans(), settled=st.booleans(), local=st.booleans())
def test_total_and_every_message_ends(
    spec: Object, status: Object, ready: bool, settled: bool, local: bool
) -> None:
    children = {**rolled_out(1, available=0, **status), **pod(ready=ready, **status)}
    made = report(
        children,
        cr={**consumer(), "spec": spec},
        kind=LOCAL if local else KIND,
        sync=SyncResult(in_sync=settled),
    )
    for item in made.status["conditions"]:
        assert item["reason"].isalpha()
        assert item["message"].endswith((".", ")."))
