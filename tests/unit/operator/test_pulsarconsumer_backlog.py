"""status.backlog: what the broker said last, coarse, seldom written, and named where it is stuck."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kindling.kinds.base import (
    CachedResult,
    Done,
    ExternalResult,
    Observed,
    RequeueAfter,
    StatusReport,
    SyncResult,
)
from kindling.kinds.conditions import find_condition
from kindling.kinds.pulsarconsumer.backlog import MOST, STUCK_SECONDS, BacklogRequest
from kindling.kinds.pulsarconsumer.backlog_metrics import METRICS
from kindling.kube.resources import Object

from tests.unit.operator.pulsarconsumers import KIND, NOW, consumer, observed, pod, rolled_out, token

URL = "http://pulsar.pulsar.svc:8080"
TOKEN: Object = {"auth": {"tokenSecretRef": {"name": "pulsar-token"}}}
FAILED = ExternalResult(ok=False, reason="AdminUnreachable", message="Nobody is there.")
EARLIER, LONG_BEFORE = "2026-01-01T00:00:00Z", "2025-12-31T23:00:00Z"
ABOUT = {"topic": "orders", "subscription": "printers"}
KNOWN: Object = {
    **ABOUT,
    "messages": 120,
    "unacknowledged": 9,
    "consumers": 1,
    "lastChangedTime": EARLIER,
    "since": LONG_BEFORE,
}


def said(
    messages: int = 125, unacknowledged: int = 9, consumers: int = 1, *, quiet: bool = False, age: float = 0
) -> ExternalResult:
    """`age`: that of the oldest message, in seconds; 0 where the broker says nothing of it."""
    figures = {"messages": messages, "unacknowledged": unacknowledged, "consumers": consumers}
    oldest = int((NOW.timestamp() - age) * 1000) if age else 0
    return ExternalResult(ok=True, facts={**figures, "quiet": quiet, "oldest": oldest})


def report(
    answer: ExternalResult | None = None, *, known: Object | None = None, after: float = 0, **spec: Any
) -> StatusReport:
    status = {**ABOUT, **({"backlog": known} if known else {})}
    cr = consumer(status=status, **{"adminURL": URL, **spec})
    seen = rolled_out() | pod()
    results = {}
    if answer is not None:
        key = KIND.probes(cr, observed(seen))["backlog"].cache_key
        results["backlog"] = CachedResult(cache_key=key, result=answer, at=NOW)
    now = NOW + timedelta(seconds=after)
    found = Observed(objects=seen, now=now, entropy=b"e" * 32, results=results)
    return KIND.status(cr, found, SyncResult(in_sync=True))


def moving(found: StatusReport) -> tuple[str, str]:
    condition = find_condition(found.status, "BacklogMoving")
    return condition["status"], condition["reason"]


def test_who_names_no_address_is_not_asked_about_and_has_the_status_of_before() -> None:
    cr = consumer(status={"backlog": KNOWN})
    assert KIND.probes(cr, observed()) == {}
    status = KIND.status(cr, observed(), SyncResult(in_sync=True)).status
    assert "backlog" not in status
    assert find_condition(status, "BacklogMoving") == {}


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [(URL, "pulsar.pulsar.svc", 8080), ("http://a", "a", 80), ("http://10.0.0.1/", "10.0.0.1", 80)],
)
def test_it_is_asked_in_the_background(url: str, host: str, port: int) -> None:
    [probe] = KIND.probes(consumer(adminURL=url), observed()).values()
    assert probe.background
    assert probe.request == BacklogRequest(
        namespace="ns", host=host, port=port, topic="orders", subscription="printers"
    )


def test_the_token_goes_to_the_prober_and_into_no_cache_key() -> None:
    cr = consumer(adminURL=URL, **TOKEN)
    [probe] = KIND.probes(cr, observed(token(token="canary"))).values()
    assert isinstance(probe.request, BacklogRequest)
    assert probe.request.authorization == "Bearer canary"
    assert "canary" not in repr(probe.cache_key)
    assert KIND.probes(cr, observed()) == {}


def test_it_is_asked_again_once_a_consumer_is_connected() -> None:
    """The first consumer may have made topic and subscription, which were not there a moment ago."""
    cr = consumer(adminURL=URL)
    [before], [after] = (
        [probe.cache_key for probe in KIND.probes(cr, seen).values()]
        for seen in (observed(), observed(rolled_out() | pod()))
    )
    assert before != after


def test_figures_have_two_digits_and_the_time_when_they_came() -> None:
    found = report(said(messages=12_599, unacknowledged=101), known=None)
    assert found.status["backlog"] == {
        **ABOUT,
        "messages": 12_000,
        "unacknowledged": 100,
        "consumers": 1,
        "lastChangedTime": "2026-01-01T00:01:00Z",
        "since": "2026-01-01T00:01:00Z",
    }
    assert moving(found) == ("True", "Acknowledging")


def test_what_did_not_change_keeps_its_times() -> None:
    assert report(said(messages=129), known=KNOWN).status["backlog"] == KNOWN
    changed = report(said(messages=130), known=KNOWN).status["backlog"]
    assert changed == {**KNOWN, "messages": 130, "lastChangedTime": "2026-01-01T00:01:00Z"}


def oldest(found: StatusReport) -> str | None:
    value: str | None = found.status["backlog"].get("oldestPublishTime")
    return value


def test_the_oldest_message_is_dated_once_it_is_older_than_a_minute() -> None:
    """Else the status of each consumer that keeps up would be written again and again."""
    assert oldest(report(said(age=59))) is None
    assert oldest(report(said(age=3600))) == "2025-12-31T23:01:00Z"
    assert oldest(report(said())) is None
    assert oldest(report(said(messages=0, age=3600))) is None


def test_its_time_stays_while_the_first_two_digits_of_its_age_do() -> None:
    known = {**KNOWN, "oldestPublishTime": "2025-12-31T23:01:00Z"}
    assert oldest(report(said(age=3699), known=known)) == "2025-12-31T23:01:00Z"
    assert oldest(report(said(age=3599), known=known)) == "2025-12-31T23:01:01Z"
    assert oldest(report(said(age=3700), known=known)) == "2025-12-31T22:59:20Z"
    assert report(said(age=3600), known=known).status["backlog"] == known


@pytest.mark.parametrize("consumers", [0, 1])
def test_it_is_dated_in_time_though_the_broker_says_the_same_as_before(consumers: int) -> None:
    """An answer that is as the last one has the resource looked at by nobody."""
    found = report(said(consumers=consumers, age=20))
    assert found.result == RequeueAfter(40.0)
    assert report(said(consumers=consumers, age=60)).result == Done()
    # A broker whose clock is ahead.
    assert report(said(consumers=consumers, age=-20)).result == Done()


@pytest.mark.parametrize("milliseconds", [MOST, -(2**60), 253_402_300_800_000])
def test_a_time_that_is_none_is_left_out(milliseconds: int) -> None:
    answer = said()
    facts = {**answer.facts, "oldest": milliseconds}
    assert oldest(report(ExternalResult(ok=True, facts=facts))) is None


def test_without_a_backlog_nothing_waits() -> None:
    found = report(said(messages=0, unacknowledged=0), known=KNOWN)
    assert "since" not in found.status["backlog"]
    assert moving(found) == ("True", "NoBacklog")


def test_until_there_is_an_answer_the_last_one_stays() -> None:
    assert report(known=KNOWN).status["backlog"] == KNOWN


def test_figures_of_another_subscription_do_not_stay() -> None:
    assert "backlog" not in report(known=KNOWN, subscriptionName="others").status
    assert report(said(), known=KNOWN, topic="others").status["backlog"]["since"] == "2026-01-01T00:01:00Z"


def test_while_a_wrong_spec_is_held_back_the_figures_of_its_subscription_keep_their_times() -> None:
    """The status has the topic of the consumers that run on."""
    known = {**KNOWN, "topic": "others"}
    assert report(said(), known=known, topic="others").status["backlog"] == known


def test_an_api_that_does_not_answer_is_said_and_leaves_ready_alone() -> None:
    found = report(FAILED, known=KNOWN)
    assert moving(found) == ("Unknown", "AdminUnreachable")
    assert "backlog" not in found.status
    assert find_condition(found.status, "Ready")["status"] == "True"
    assert find_condition(found.status, "Degraded")["status"] == "False"
    assert found.result == Done()


def test_an_api_that_hangs_until_it_is_ended_is_said_to_be_unreachable() -> None:
    hangs = ExternalResult(ok=False, reason="NotResponding", message="Nothing came.")
    assert moving(report(hangs)) == ("Unknown", "AdminUnreachable")


def test_a_backlog_that_nobody_reads_is_not_stuck() -> None:
    assert moving(report(said(consumers=0), known=KNOWN)) == ("False", "NoConsumers")


def test_stuck_is_a_backlog_of_long_of_which_nothing_is_acknowledged() -> None:
    assert moving(report(said(quiet=True), known=KNOWN)) == ("False", "BacklogStuck")
    assert moving(report(said(quiet=False), known=KNOWN)) == ("True", "Acknowledging")


def test_messages_that_came_just_now_are_not_stuck_and_become_so_in_time() -> None:
    """The topic was silent for an hour, so nothing was acknowledged; then a message came."""
    known = {**KNOWN, "since": EARLIER}
    found = report(said(quiet=True), known=known)
    assert moving(found) == ("True", "Acknowledging")
    assert found.result == RequeueAfter(STUCK_SECONDS - 60)
    assert moving(report(said(quiet=True), known=known, after=STUCK_SECONDS - 60)) == (
        "False",
        "BacklogStuck",
    )


def test_a_handler_that_takes_long_has_longer() -> None:
    slow: Object = {"handler": {"http": {"url": "http://a", "timeoutSeconds": 3600}}}
    [probe] = KIND.probes(consumer(adminURL=URL, **slow), observed()).values()
    assert isinstance(probe.request, BacklogRequest)
    assert probe.request.quiet_seconds == 7260
    assert moving(report(said(quiet=True), known=KNOWN, **slow)) == ("True", "Acknowledging")


@given(
    figures=st.tuples(*[st.integers(0, MOST)] * 3),
    quiet=st.booleans(),
    after=st.floats(0, 10_000),
)
def test_the_same_answer_again_writes_nothing(
    figures: tuple[int, int, int], quiet: bool, after: float
) -> None:
    first = report(said(*figures, quiet=quiet), after=after)
    again = report(said(*figures, quiet=quiet), known=first.status["backlog"], after=after)
    assert again.status == first.status


def test_metrics_are_of_the_status() -> None:
    def values(found: StatusReport) -> list[float | None]:
        return [metric.read({"metadata": {}, "status": found.status}) for metric in METRICS]

    assert values(report(said(), known=KNOWN)) == [120.0, 9.0, 1.0, None, 0.0]
    hour = NOW.timestamp() - 3600
    assert values(report(said(quiet=True, age=3600), known=KNOWN)) == [120.0, 9.0, 1.0, hour, 1.0]
    assert values(report(FAILED)) == [None] * 5
