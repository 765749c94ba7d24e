"""The prober, about one subscription of several topics, and of those that match a pattern."""

from __future__ import annotations

from typing import Any

import pytest
from kindling.kinds.pulsarconsumer.backlog import BacklogRequest
from kindling.kinds.pulsarconsumer.deletion import UnsubscribeRequest
from kindling.prober import jobs
from kindling.prober.jobs import Job

from tests.unit.operator.test_prober_pulsar import ask, stats, unsubscribe

SPACE = "/admin/v2/persistent/shop/eu"
PATTERN = "persistent://shop/eu/orders-.*"
NO_TOPIC = (404, {"reason": "Topic not found"})
NOT_THERE = {"subscriptions": {"others": stats()["subscriptions"]["workers"]}}


def of(**topics: Any) -> dict[str, tuple[int, Any]]:
    """Statistics by topic, and the namespace's list of them."""
    listed = [f"persistent://shop/eu/{name.replace('_', '-')}" for name in topics]
    return {SPACE: (200, listed)} | {
        f"{SPACE}/{name.replace('_', '-')}/stats": (200, said) for name, said in topics.items()
    }


def test_it_says_the_sums_and_the_fewest_consumers() -> None:
    answers = of(
        a=stats(backlog=100, unacknowledged=1, consumers=3, oldest=9_000),
        b=stats(backlog=20, unacknowledged=2, consumers=2, oldest=8_000),
        c=stats(backlog=3, unacknowledged=0, consumers=3),
    )
    answer, admin = ask(answers, topics=("shop/eu/a", "shop/eu/b", "shop/eu/c"))
    assert answer.facts == {
        "messages": 123, "unacknowledged": 3, "consumers": 2, "partitions": 3, "quiet": True,
        "topics": 3, "missing": 0, "oldest": 8_000,
    }  # fmt: skip
    assert SPACE not in [path for path, _ in admin.asked]


def test_it_is_quiet_where_no_topic_has_an_acknowledgement() -> None:
    answers = of(a=stats(acknowledged=900), b=stats(acknowledged=5))
    assert ask(answers, topics=("shop/eu/a", "shop/eu/b"))[0].facts["quiet"] is False


def test_a_topic_or_subscription_that_is_not_made_yet_has_nothing() -> None:
    answer, _ = ask(of(a=stats(backlog=7), b=NOT_THERE), topics=("shop/eu/a", "shop/eu/b", "shop/eu/gone"))
    assert (answer.facts["messages"], answer.facts["topics"], answer.facts["missing"]) == (7, 1, 2)


@pytest.mark.parametrize(
    ("answers", "reason", "words"),
    [
        (of(a=NOT_THERE), "SubscriptionNotFound", "'shop/eu/a' has no subscription 'workers'"),
        ({}, "TopicNotFound", "has no topic 'shop/eu/a'"),
        (of(a=stats()) | {f"{SPACE}/b/stats": (403, {})}, "NotAuthorized", "answered 403"),
    ],
)
def test_where_none_has_it_or_one_is_not_answered_for_nothing_is_known(
    answers: Any, reason: str, words: str
) -> None:
    answer, _ = ask(answers, topics=("shop/eu/a", "shop/eu/b"))
    assert (answer.ok, answer.reason) == (False, reason)
    assert words in answer.message


def test_a_pattern_is_of_the_topics_that_the_namespace_has() -> None:
    answers = of(orders_a=stats(backlog=1), orders_b=stats(backlog=2), invoices=stats(backlog=4))
    answer, _ = ask(answers, pattern=PATTERN, topic="")
    assert (answer.facts["messages"], answer.facts["topics"]) == (3, 2)


@pytest.mark.parametrize(
    ("listed", "reason", "words"),
    [
        (
            (200, ["persistent://shop/eu/invoices"]),
            "TopicNotFound",
            f"No topic matches spec.topicsPattern '{PATTERN}'",
        ),
        (NO_TOPIC, "TopicNotFound", "has no namespace 'shop/eu'"),
        ((403, {}), "NotAuthorized", "answered 403"),
        ((200, {"a": "b"}), "AdminUnreachable", "no admin API of Pulsar"),
        (
            (200, [f"persistent://shop/eu/orders-{n}" for n in range(101)]),
            "TooManyTopics",
            "101 topics match spec.topicsPattern",
        ),
    ],
)
def test_a_pattern_that_cannot_be_summed_is_said_why(listed: Any, reason: str, words: str) -> None:
    answer, admin = ask({SPACE: listed}, pattern=PATTERN, topic="")
    assert (answer.ok, answer.reason) == (False, reason)
    assert words in answer.message
    assert len(admin.asked) == 1


def test_a_pattern_that_computes_for_ever_ends() -> None:
    """`.*.*.*` tries each place in a name for each of them."""
    listed = [f"persistent://shop/eu/{'a' * 250}-{n}" for n in range(50)]
    pattern = f"persistent://shop/eu/{'.*' * 12}b"
    answer, _ = ask({SPACE: (200, listed)}, pattern=pattern, topic="")
    assert (answer.ok, answer.reason) == (False, "NotResponding")


def test_more_topics_than_one_server_may_take_the_time_of_one_are_all_asked() -> None:
    names = [f"t{n}" for n in range(100)]
    answer, admin = ask(
        of(**{name: stats(backlog=1) for name in names}), topics=tuple(f"shop/eu/{n}" for n in names)
    )
    assert (answer.facts["messages"], len(admin.asked)) == (100, 100)


def test_the_subscription_is_deleted_from_each_topic_that_matches() -> None:
    gone: dict[str, tuple[int, Any]] = {
        SPACE: (200, [f"persistent://shop/eu/{name}" for name in ("orders-a", "orders-b", "x")]),
        f"{SPACE}/orders-a/subscription/workers": (204, None),
    }
    answer, admin = unsubscribe(gone, pattern=PATTERN, topic="")
    assert answer.ok
    assert [path for path, _ in admin.asked[1:]] == [f"{SPACE}/orders-{n}/subscription/workers" for n in "ab"]
    assert admin.methods == ["GET", "DELETE", "DELETE"]


def test_a_subscription_that_others_use_stays_and_is_said() -> None:
    answers: dict[str, tuple[int, Any]] = {
        SPACE: (200, ["persistent://shop/eu/orders-a"]),
        f"{SPACE}/orders-a/subscription/workers": (412, {"reason": "busy"}),
    }
    answer, _ = unsubscribe(answers, pattern=PATTERN, topic="")
    assert (answer.ok, answer.reason) == (False, "SubscriptionBusy")
    assert "'persistent://shop/eu/orders-a'" in answer.message


@pytest.mark.parametrize(("status", "ok"), [(404, True), (403, False), (500, False)])
def test_without_the_namespace_there_is_nothing_to_delete(status: int, ok: bool) -> None:
    assert unsubscribe({SPACE: (status, {"reason": "no"})}, pattern=PATTERN, topic="")[0].ok is ok


def test_a_job_of_several_comes_back_as_it_was_and_has_more_time() -> None:
    where: Any = {"namespace": "ns", "host": "a", "port": 1, "subscription": "s"}
    one = BacklogRequest(**where, topic="t")
    several = BacklogRequest(**where, topic="", topics=("a", "b"))
    matched = UnsubscribeRequest(**where, topic="", pattern=PATTERN)
    for request, quick in ((one, True), (several, False), (matched, False)):
        job = Job(request=request, host="a", port=1)
        assert (jobs.job(job.line()), job.quick) == (job, quick)
