"""A PulsarConsumer of several topics, or of those that match a pattern: what is made, asked, and reported."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kindling.kinds.base import CachedResult, ExternalResult, Observed, StatusReport, SyncResult
from kindling.kinds.conditions import find_condition
from kindling.kinds.pulsarconsumer import autoscaling, deletion, topics
from kindling.kinds.pulsarconsumer.backlog import BacklogRequest
from kindling.kinds.pulsarconsumer.topics import LONGEST_LABEL, Topics
from kindling.kube.resources import Object

from tests.unit.operator.pulsarconsumers import KIND, NOW, consumer, observed, pod, rolled_out

URL = "http://pulsar.pulsar.svc:8080"
PATTERN = "persistent://public/default/orders-.*"
FULL = "persistent://public/default/"


def reads(*names: str, pattern: str = "", **spec: Any) -> Object:
    cr = consumer(adminURL=URL, **spec)
    del cr["spec"]["topic"]
    cr["spec"] |= {"topicsPattern": pattern} if pattern else {"topics": list(names)}
    return cr


def env(cr: Object) -> dict[str, str]:
    [workload] = [child for child in KIND.desired(cr, observed()) if child.type.kind == "Deployment"]
    [container] = workload.body["spec"]["template"]["spec"]["containers"]
    return {item["name"]: item["value"] for item in container["env"] if "TOPIC" in item["name"]}


def report(cr: Object, **facts: Any) -> StatusReport:
    answer = ExternalResult(
        ok=True,
        facts={"messages": 6, "unacknowledged": 2, "consumers": 1, "topics": 3, "quiet": False} | facts,
    )
    seen = rolled_out() | pod()
    key = KIND.probes(cr, observed(seen))["backlog"].cache_key
    results = {"backlog": CachedResult(cache_key=key, result=answer, at=NOW)}
    found = Observed(objects=seen, now=NOW, entropy=b"e" * 32, results=results)
    return KIND.status(cr, found, SyncResult(in_sync=True))


def test_consumers_get_one_of_three_variables() -> None:
    assert env(consumer()) == {"PULSAR_TOPIC": "orders"}
    assert env(reads("a", "shop/eu/b", f"{FULL}a")) == {"PULSAR_TOPICS": "a shop/eu/b"}
    assert env(reads(pattern=PATTERN)) == {"PULSAR_TOPICS_PATTERN": PATTERN}


def test_the_column_topic_has_the_names_or_the_pattern() -> None:
    assert report(consumer(adminURL=URL)).status["topic"] == "orders"
    assert report(reads("a", "b")).status["topic"] == "a, b"
    assert report(reads(pattern=PATTERN)).status["topic"] == PATTERN


@given(st.lists(st.from_regex(r"\S{1,512}", fullmatch=True), min_size=1, max_size=100, unique=True))
def test_however_many_names_there_are_their_label_fits_into_the_status(names: list[str]) -> None:
    label = Topics(names=tuple(names)).label
    assert len(label) <= LONGEST_LABEL + len(" and 99 more")
    assert label.startswith(names[0])


def test_of_many_as_many_are_named_as_fit() -> None:
    names = tuple(f"{'t' * 200}{n}" for n in range(5))
    assert Topics(names=names).label == f"{names[0]}, {names[1]} and 3 more"


def test_the_admin_api_is_asked_once_about_all_of_them() -> None:
    for cr, asked in (
        (consumer(adminURL=URL), {"topic": "orders"}),
        (reads("a", "b"), {"topic": "", "topics": ("a", "b")}),
        (reads(pattern=PATTERN), {"topic": "", "pattern": PATTERN}),
    ):
        [probe] = KIND.probes(cr, observed()).values()
        assert isinstance(probe.request, BacklogRequest)
        assert {name: getattr(probe.request, name) for name in asked} == asked
    keys = {KIND.probes(reads(*names), observed())["backlog"].cache_key for names in ("ab", "abc", "a")}
    assert len(keys) == 3


def test_the_figures_are_of_all_of_them_and_say_of_how_many() -> None:
    said = report(reads("a", "b", "c")).status
    figures = {name: said["backlog"][name] for name in ("topic", "topics", "messages", "consumers")}
    assert figures == {"topic": "a, b, c", "topics": 3, "messages": 6, "consumers": 1}
    assert "topics" not in report(consumer(adminURL=URL)).status["backlog"]


def test_another_list_of_topics_begins_with_times_of_its_own() -> None:
    known = report(reads("a", "b")).status["backlog"] | {"lastChangedTime": "2025-01-01T00:00:00Z"}
    for names, kept in ((("a", "b"), True), (("a", "c"), False)):
        cr = reads(*names)
        cr["status"] = {"backlog": known}
        assert (report(cr).status["backlog"]["lastChangedTime"] == "2025-01-01T00:00:00Z") is kept


def test_topics_without_the_subscription_are_named_with_who_makes_it() -> None:
    said = find_condition(report(reads(pattern=PATTERN), missing=2, messages=0).status, "BacklogMoving")
    assert (said["status"], said["reason"]) == ("True", "NoBacklog")
    assert (
        "Of the topics 2 have no such subscription yet: a consumer that connects makes it." in said["message"]
    )


def test_a_topic_without_a_consumer_is_said_where_messages_wait() -> None:
    said = find_condition(report(reads("a", "b"), consumers=0).status, "BacklogMoving")
    assert said["reason"] == "NoConsumers"
    assert "a topic has no consumer" in said["message"]


@pytest.mark.parametrize(("missing", "wanted"), [(0, 0), (1, 1)])
def test_a_topic_without_the_subscription_is_worth_one_consumer(missing: int, wanted: int) -> None:
    """Only a consumer makes it, and until then no message waits."""
    cr = reads(pattern=PATTERN, replicas=0, autoscaling={"max": 5, "targetBacklog": 10})
    key = KIND.probes(cr, observed())["backlog"].cache_key
    answer = ExternalResult(ok=True, facts={"messages": 0, "missing": missing})
    results = {"backlog": CachedResult(cache_key=key, result=answer, at=NOW)}
    found = Observed(objects={}, now=NOW, entropy=b"e" * 32, results=results)
    assert autoscaling.decide(cr, found)["autoscaling"]["replicas"] == wanted


def test_failover_has_as_many_consumers_as_topics_and_partitions_at_most() -> None:
    cr = reads("a", "b", replicas=1, subscriptionType="Failover", autoscaling={"max": 9, "targetBacklog": 1})
    key = KIND.probes(cr, observed())["backlog"].cache_key
    answer = ExternalResult(ok=True, facts={"messages": 100, "partitions": 4})
    results = {"backlog": CachedResult(cache_key=key, result=answer, at=NOW)}
    found = Observed(objects={}, now=NOW, entropy=b"e" * 32, results=results)
    assert autoscaling.decide(cr, found)["autoscaling"]["replicas"] == 4


def test_every_topic_is_on_record_before_a_consumer_starts() -> None:
    cr = reads("a", "b", deletionPolicy="Unsubscribe")
    recorded = deletion.record(cr)["subscriptions"]
    assert recorded == [{"topic": name, "subscription": "printers"} for name in "ab"]
    cr["status"] = {"subscriptions": recorded}
    assert deletion.record(cr) == {}
    by_pattern = reads(pattern=PATTERN, deletionPolicy="Unsubscribe")
    by_pattern["status"] = {"subscriptions": recorded}
    found = deletion.record(by_pattern)["subscriptions"]
    assert found == [{"topicsPattern": PATTERN, "subscription": "printers"}, *recorded]


def test_what_is_read_now_is_never_pushed_out_of_the_record() -> None:
    known: list[Object] = []
    for number in range(4):
        names = ["kept", *(f"t{number}-{n}" for n in range(99))]
        cr = reads(*names, deletionPolicy="Unsubscribe")
        cr["status"] = {"subscriptions": known}
        known = deletion.record(cr)["subscriptions"]
        assert [entry["topic"] for entry in known[:100]] == names
    assert len(known) == deletion.MOST


NAMES = [
    f"{FULL}orders-eu", f"{FULL}orders-p-partition-0", f"{FULL}orders-p-partition-1", f"{FULL}my-orders-x",
    f"{FULL}orders-", "persistent://public/other/orders-eu", "non-persistent://public/default/orders-eu",
]  # fmt: skip


@pytest.mark.parametrize(
    ("pattern", "matched"),
    [
        (PATTERN, ["orders-", "orders-eu", "orders-p"]),
        (f"{FULL}orders", []),
        (f"{FULL}orders-(eu|us)", ["orders-eu"]),
        (rf"{FULL}[a-z]+\d*-..?", ["orders-eu", "orders-p"]),
    ],
)
def test_a_pattern_matches_whole_names_and_a_topic_with_partitions_once(
    pattern: str, matched: list[str]
) -> None:
    assert topics.matching(pattern, NAMES) == [f"{FULL}{name}" for name in matched]
