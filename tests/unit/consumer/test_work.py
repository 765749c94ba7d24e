"""What becomes of a message: acknowledged after its output, retried, a dead letter, or left to the broker."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pulsar
import pytest
from pulsar_consumer.failing import Failing
from pulsar_consumer.handler import Delayed, Failed, Handled, Mismatched, Rejected, Verdict
from pulsar_consumer.handling import lanes
from pulsar_consumer.metrics import Metrics
from pulsar_consumer.recent import Recent
from pulsar_consumer.schema import Schema
from pulsar_consumer.settings import Handling, Python
from pulsar_consumer.unfinished import Unfinished
from pulsar_consumer.work import LEAST_HELD, Work

from tests.unit.consumer.messages import Message, Record

SETTINGS = Handling(
    handler=Python(name="m:f", hash="h", files=Path("/f"), copies=Path("/c"), timeout_seconds=60),
    concurrency=1,
    output_topic="",
    dead_letter_topic="",
    max_deliveries=3,
    backoff_initial_seconds=0.01,
    backoff_factor=2,
    backoff_max_seconds=0.05,
    marker=Path("/nowhere/marker"),
)
Start = Callable[..., Work]
NOT_SERVED = Metrics()


@pytest.fixture
def record() -> Record:
    return Record()


@pytest.fixture
def failing(tmp_path: Path) -> Failing:
    return Failing(tmp_path / "marker")


@pytest.fixture
def start(record: Record, failing: Failing, tmp_path: Path) -> Iterator[Start]:
    made: list[Work] = []

    def start(
        handler: Callable[[Any], Verdict],
        type: str = "Shared",
        metrics: Metrics = NOT_SERVED,
        **settings: Any,
    ) -> Work:
        handling = replace(SETTINGS, **settings)
        work = Work(
            handling,
            handler,
            record,
            subscription="s",
            send=record.send,
            lane_of=lanes(type),
            failing=failing,
            unfinished=Unfinished(tmp_path / "calls", slots=4, termination_log=tmp_path / "log"),
            recent=Recent(),
            metrics=metrics,
        )
        made.append(work)
        return work

    yield start
    for work in made:
        work.stop()


def within(seconds: float, holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_output_is_the_brokers_before_the_message_is_acknowledged(record: Record, start: Start) -> None:
    message = Message(b"in", entry=4, key="k", sent={"a": "b"}, event=9)
    start(lambda m: Handled(b"out"), output_topic="done").take(message)
    within(5, lambda: len(record.events) == 2)
    properties = {"a": "b", "REAL_TOPIC": message.topic_name(), "ORIGIN_MESSAGE_ID": "7:4:-1"}
    arguments = {"properties": properties, "partition_key": "k", "event_timestamp": 9}
    assert record.events == [("send", "done", b"out", arguments), ("acknowledge", message)]


def test_nothing_is_sent_without_a_topic_or_without_an_output(record: Record, start: Start) -> None:
    start(lambda m: Handled(b"out")).take(Message())
    start(lambda m: Handled(None), output_topic="done").take(Message())
    within(5, lambda: len(record.events) == 2)
    assert [event[0] for event in record.events] == ["acknowledge"] * 2


def test_broker_that_does_not_take_the_output_ends_the_work_and_nothing_is_acknowledged(
    record: Record, start: Start
) -> None:
    record.failure = pulsar.Timeout()
    work = start(lambda m: Handled(b"out"), output_topic="done")
    work.take(Message())
    within(5, lambda: work.failure is record.failure)
    assert not work.wait_for_capacity(0)
    assert record.events == []


def test_output_too_big_is_the_handlers_failure(record: Record, start: Start) -> None:
    record.failure = pulsar.MessageTooBig()
    work = start(lambda m: Handled(b"out"), output_topic="done")
    work.take(Message())
    time.sleep(0.1)
    assert work.failure is None
    assert record.events == []


def test_failing_message_is_retried_and_then_acknowledged(record: Record, start: Start) -> None:
    verdicts = [Failed("once"), Failed("twice"), Failed("three times"), Failed("for ever"), Handled()]
    work = start(lambda m: verdicts.pop(0))
    work.take(Message())
    within(5, lambda: len(record.events) == 1)
    assert verdicts == []


def test_what_fails_too_often_is_a_dead_letter_that_says_why(record: Record, start: Start) -> None:
    calls: list[Any] = []

    def handler(message: Any) -> Verdict:
        calls.append(message)
        return Failed("ValueError: no")

    message = Message(b"bad", entry=1, index=2, key="k", sent={"a": "b"})
    start(handler, dead_letter_topic="dead").take(message)
    within(5, lambda: record.acknowledged() == [message])
    [(payload, arguments)] = record.sent("dead")
    assert (payload, arguments["partition_key"], len(calls)) == (b"bad", "k", 3)
    assert arguments["properties"] == {
        "a": "b",
        "REAL_TOPIC": "persistent://public/default/t",
        "REAL_SUBSCRIPTION": "s",
        "ORIGIN_MESSAGE_ID": "7:1:-1:2",
        "DEAD_LETTER_REASON": "MaxDeliveries",
        "DEAD_LETTER_ERROR": "ValueError: no",
        "DEAD_LETTER_DELIVERIES": "3",
    }
    assert [event[0] for event in record.events] == ["send", "acknowledge"]


def test_rejected_message_is_a_dead_letter_at_once_and_a_tombstone_stays_one(
    record: Record, start: Start
) -> None:
    start(lambda m: Rejected("HTTP 422"), dead_letter_topic="dead").take(Message(b"", null=True))
    within(5, lambda: len(record.events) == 2)
    [(payload, arguments)] = record.sent("dead")
    assert payload is None
    assert arguments["properties"]["DEAD_LETTER_REASON"] == "Rejected"
    assert arguments["properties"]["DEAD_LETTER_DELIVERIES"] == "1"


def test_dead_letter_that_does_not_fit_its_schema_says_so_and_has_its_version(
    record: Record, start: Start
) -> None:
    schema = Schema(type="JSON")
    work = start(lambda m: Mismatched("field 'id' is missing"), dead_letter_topic="dead", schema=schema)
    work.take(Message(b"{}", version=200))
    within(5, lambda: len(record.acknowledged()) == 1)
    work.take(Message(b"none"))
    within(5, lambda: len(record.acknowledged()) == 2)
    [(_, first), (_, second)] = record.sent("dead")
    assert first["properties"]["DEAD_LETTER_REASON"] == "SchemaMismatch"
    assert first["properties"]["DEAD_LETTER_ERROR"] == "SchemaMismatch: field 'id' is missing"
    assert first["properties"]["DEAD_LETTER_SCHEMA_VERSION"] == "200"
    assert "DEAD_LETTER_SCHEMA_VERSION" not in second["properties"]


def test_without_a_schema_a_dead_letter_has_no_version(record: Record, start: Start) -> None:
    """It is what it was before there were schemas, whatever its producer published with."""
    start(lambda m: Rejected("no"), dead_letter_topic="dead").take(Message(version=3))
    within(5, lambda: len(record.acknowledged()) == 1)
    [(_, arguments)] = record.sent("dead")
    assert "DEAD_LETTER_SCHEMA_VERSION" not in arguments["properties"]


def test_what_does_not_fit_is_retried_where_no_topic_is_named(record: Record, start: Start) -> None:
    calls: list[Any] = []

    def handler(message: Any) -> Verdict:
        calls.append(message)
        return Mismatched("field 'id' is missing")

    start(handler, schema=Schema(type="JSON")).take(Message())
    within(5, lambda: len(calls) > 3)
    assert record.events == []


def test_nothing_is_given_up_where_no_topic_is_named(record: Record, start: Start) -> None:
    calls: list[Any] = []

    def handler(message: Any) -> Verdict:
        calls.append(message)
        return Rejected("no") if len(calls) % 2 else Failed("no")

    start(handler).take(Message())
    within(5, lambda: len(calls) > 5)
    assert record.events == []


def test_dead_letter_that_no_broker_takes_is_not_acknowledged(record: Record, start: Start) -> None:
    record.failure = pulsar.ConnectError()
    work = start(lambda m: Rejected("no"), dead_letter_topic="dead")
    work.take(Message())
    within(5, lambda: work.failure is not None)
    assert record.acknowledged() == []


def test_delay_that_is_asked_for_is_no_failure(record: Record, start: Start) -> None:
    verdicts: list[Verdict] = [*[Delayed(0.01, "later")] * 9, Handled()]
    start(lambda m: verdicts.pop(0), dead_letter_topic="dead").take(Message())
    within(5, lambda: len(record.events) == 1)
    assert record.sent("dead") == []


def test_backoff_grows_up_to_its_most() -> None:
    handling = replace(SETTINGS, backoff_initial_seconds=1.0, backoff_factor=10.0, backoff_max_seconds=5000.0)
    waits = [handling.backoff_seconds(failures) for failures in (1, 2, 3, 4, 5, 10_000)]
    assert waits == [1, 10, 100, 1000, 5000, 5000]


def test_so_many_at_once_and_no_more(record: Record, start: Start) -> None:
    gate, inside, most = threading.Semaphore(0), Counter[str](), []

    def handler(message: Any) -> Verdict:
        inside["now"] += 1
        most.append(inside["now"])
        gate.acquire(timeout=5)
        inside["now"] -= 1
        return Handled()

    work = start(handler, concurrency=3)
    for entry in range(6):
        work.take(Message(entry=entry))
    within(5, lambda: inside["now"] == 3)
    time.sleep(0.05)
    for _ in range(6):
        gate.release()
    within(5, lambda: len(record.acknowledged()) == 6)
    assert max(most) == 3


@pytest.mark.parametrize(
    ("type", "in_order"), [("Shared", False), ("Key_Shared", True), ("Failover", True), ("Exclusive", True)]
)
def test_retry_keeps_the_order_that_the_subscription_has(
    record: Record, start: Start, type: str, in_order: bool
) -> None:
    failed: set[int] = set()

    def handler(message: Any) -> Verdict:
        if message.entry == 0 and 0 not in failed:
            failed.add(0)
            return Failed("once")
        return Handled()

    work = start(handler, type, backoff_initial_seconds=0.2, backoff_max_seconds=0.2)
    for entry in range(4):
        work.take(Message(entry=entry, key="k"))
    within(5, lambda: len(record.acknowledged()) == 4)
    assert ([message.entry for message in record.acknowledged()] == [0, 1, 2, 3]) == in_order


def test_another_key_does_not_wait_for_one_that_fails(record: Record, start: Start) -> None:
    work = start(lambda m: Failed("no") if m.key == "a" else Handled(), "Key_Shared")
    for entry, key in enumerate("aabab"):
        work.take(Message(entry=entry, key=key))
    within(5, lambda: [message.entry for message in record.acknowledged()] == [2, 4])


def test_no_more_is_taken_than_fits(start: Start) -> None:
    work = start(lambda m: Failed("no"), backoff_initial_seconds=9, backoff_max_seconds=9)
    for entry in range(LEAST_HELD):
        assert work.wait_for_capacity(1)
        work.take(Message(entry=entry))
    assert not work.wait_for_capacity(0.05)


def test_stop_ends_what_is_begun_and_leaves_to_the_broker_what_waits(record: Record, start: Start) -> None:
    def handler(message: Any) -> Verdict:
        time.sleep(0.05)
        return Failed("no") if message.entry == 0 else Handled()

    work = start(handler, backoff_initial_seconds=60, backoff_max_seconds=60)
    for entry in range(4):
        work.take(Message(entry=entry))
    began = time.monotonic()
    work.drain(20)
    assert time.monotonic() - began < 5
    assert [message.entry for message in record.acknowledged()] == [1, 2, 3]


def test_stop_does_not_wait_for_ever_for_a_handler(record: Record, start: Start) -> None:
    gate = threading.Event()

    def handler(message: Any) -> Verdict:
        gate.wait(5)
        return Handled()

    work = start(handler)
    work.take(Message())
    within(5, lambda: work.slowest_seconds() > 0)
    work.drain(0.1)
    assert record.events == []
    gate.set()


def test_stop_retries_nothing(record: Record, start: Start) -> None:
    calls = Counter[int]()

    def handler(message: Any) -> Verdict:
        calls[message.entry] += 1
        if message.entry == 1:
            time.sleep(0.4)
            return Handled()
        return Failed("no")

    work = start(handler, concurrency=2)
    work.take(Message(entry=0))
    work.take(Message(entry=1))
    within(5, lambda: calls[0] > 2)
    before = calls[0]
    work.drain(20)
    assert calls[0] <= before + 1
    assert [message.entry for message in record.acknowledged()] == [1]


@pytest.mark.parametrize("type", ["Exclusive", "Failover", "Key_Shared"])
def test_each_of_several_topics_has_an_order_of_its_own(type: str) -> None:
    """A retry in one does not hold up another."""
    here, there = Message(key="k", topic="here"), Message(key="k", topic="there")
    lane = lanes(type, several=True)
    assert lane(here) == lane(Message(b"later", key="k", topic="here"))
    assert lane(here) != lane(there)
    assert lanes(type)(here) == lanes(type)(there)
