"""A handler that fails on every message ends the consumer once, and keeps it unready until a success."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pulsar_consumer.failing import FAILURES, SECONDS, Failing, HandlerFailing
from pulsar_consumer.handler import Delayed, Failed, Handled, Mismatched, Rejected, Verdict
from pulsar_consumer.health import Health
from pulsar_consumer.metrics import Metrics
from pulsar_consumer.recent import Recent
from pulsar_consumer.unfinished import Unfinished
from pulsar_consumer.work import Work

from tests.unit.consumer.messages import Message, Record
from tests.unit.consumer.test_work import SETTINGS, within


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def failed(failing: Failing, clock: Clock, *, times: int, seconds: float) -> None:
    for number in range(times):
        failing.failure(f"5:{number}:-1", "ValueError: canary")
        clock.now += seconds / times


def test_ends_once_with_the_kind_of_the_error_and_not_its_words(tmp_path: Path) -> None:
    clock, marker = Clock(), tmp_path / "pod" / "marker"
    failing = Failing(marker, clock=clock)
    failed(failing, clock, times=FAILURES, seconds=SECONDS)
    with pytest.raises(HandlerFailing) as raised:
        failing.check()
    assert str(raised.value) == (
        "10 failures and no success in 60 s, the last with ValueError of message 5:9:-1"
    )
    # The container that is started again: unready, and it does not end another time.
    again = Failing(marker, clock=clock)
    assert again.marked
    failed(again, clock, times=FAILURES, seconds=SECONDS)
    again.check()
    again.success()
    assert not again.marked
    assert not Failing(marker, clock=clock).marked
    failed(again, clock, times=FAILURES, seconds=SECONDS)
    with pytest.raises(HandlerFailing):
        again.check()


@pytest.mark.parametrize(("times", "seconds"), [(FAILURES - 1, 10 * SECONDS), (10 * FAILURES, SECONDS - 1)])
def test_few_failures_or_a_moment_of_them_are_not_reported(
    tmp_path: Path, times: int, seconds: float
) -> None:
    clock = Clock()
    failing = Failing(tmp_path / "marker", clock=clock)
    failed(failing, clock, times=times, seconds=seconds)
    failing.check()
    assert not failing.marked


def test_a_success_between_them_begins_the_count_again(tmp_path: Path) -> None:
    clock = Clock()
    failing = Failing(tmp_path / "marker", clock=clock)
    for _ in range(3):
        failed(failing, clock, times=FAILURES - 1, seconds=SECONDS)
        failing.success()
    failing.check()


@pytest.mark.parametrize(
    ("verdict", "failures"),
    [
        (Failed("A: b"), 2),
        (Rejected("HTTP 404"), 2),
        (Mismatched("field 'id' is missing"), 2),
        (Delayed(0.01, "c"), 0),
        (Handled(), 0),
    ],
)
def test_what_counts(tmp_path: Path, verdict: Verdict, failures: int) -> None:
    """Of two deliveries at least; a delay that is asked for is neither failure nor success."""
    noted: list[str] = []

    class Noting(Failing):
        def failure(self, id: str, error: str, *, topic: str = "", given_up: bool = False) -> None:
            noted.append(error)

        def success(self, id: str = "") -> None:
            noted.clear()

    calls: list[Any] = []

    def handler(message: Any) -> Verdict:
        calls.append(message)
        return verdict if len(calls) < 3 else Delayed(60, "enough")

    work = Work(
        replace(SETTINGS, max_deliveries=9),
        handler,
        Record(),
        subscription="s",
        send=Record().send,
        lane_of=lambda message: None,
        metrics=Metrics(),
        failing=Noting(tmp_path / "marker"),
        unfinished=Unfinished(tmp_path / "calls", slots=4, termination_log=tmp_path / "log"),
        recent=Recent(),
    )
    for entry in range(2):
        work.take(Message(entry=entry))
    within(5, lambda: len(calls) >= 2)
    time.sleep(0.1)
    work.stop()
    assert len(noted) == failures


def test_unready_while_marked_and_not_restarted_for_it() -> None:
    health, marked = Health(), threading.Event()
    health.watch(lambda: True)
    health.watch_handler(lambda: 0.0, 90.0, failing=marked.is_set)
    assert health.unready() is None
    marked.set()
    assert health.unready() == "the handler fails on every message"
    assert health.unhealthy() is None


def words(failing: Failing) -> str:
    """Why it ends, with its reason; empty where it does not."""
    try:
        failing.check()
    except HandlerFailing as error:
        return f"{type(error).__name__}: {error}"
    return ""


def test_one_message_that_nothing_gets_past_is_named(tmp_path: Path) -> None:
    """By a handler that has handled others, and where nothing else is tried: as in an order that is kept."""
    clock = Clock()
    failing = Failing(tmp_path / "marker", clock=clock)
    failing.success("5:0:-1")
    for _ in range(FAILURES):
        failing.failure("5:1:-1", "ValueError: canary", topic="t", given_up=True)
        clock.now += SECONDS / FAILURES
    assert words(failing) == (
        "PoisonMessage: message 5:1:-1 has failed 10 times in 60 s, the last with ValueError, and no other "
        "has been handled since"
    )
    assert failing.marked
    assert words(failing) == "", "once"
    failing.success("5:1:-1")
    assert not failing.marked


@pytest.mark.parametrize(
    ("before", "given_up", "ids"), [(0, True, 1), (1, False, 1), (1, True, 2)], ids=["never", "early", "all"]
)
def test_it_is_the_handler_that_fails(tmp_path: Path, before: int, given_up: bool, ids: int) -> None:
    """Where it never handled one, where the message is to be tried more often, and where several fail."""
    clock = Clock()
    failing = Failing(tmp_path / "marker", clock=clock)
    for number in range(before):
        failing.success(f"4:{number}:-1")
    for number in range(FAILURES):
        failing.failure(f"5:{number % ids}:-1", "ValueError: canary", given_up=given_up)
        clock.now += SECONDS / FAILURES
    assert words(failing).startswith("HandlerFailing: 10 failures and no success in 60 s")


def test_a_message_that_fails_while_others_are_handled_is_listed(tmp_path: Path) -> None:
    clock = Clock()
    failing = Failing(tmp_path / "marker", clock=clock)
    bad, topic = "5:1:-1", "persistent://public/default/t"

    def fails(*, given_up: bool = True) -> None:
        clock.now += SECONDS
        failing.failure(bad, "ValueError: canary", topic=topic, given_up=given_up)

    failing.success("5:0:-1")
    fails(given_up=False)
    failing.success("5:2:-1")
    fails(given_up=False)
    assert failing.poison() == [], "it is to be tried more often"
    fails()
    [found] = failing.poison()
    assert {name: found[name] for name in ("id", "topic", "error")} == {
        "id": bad,
        "topic": topic,
        "error": "ValueError",
    }
    assert words(failing) == "", "others are handled"
    failing.success(bad)
    assert failing.poison() == []


def test_two_of_them_are_not_the_handlers_fault_where_nothing_else_comes(tmp_path: Path) -> None:
    """A topic that is silent: the handler has taken others since they were known. One of its own anyway."""
    clock = Clock()
    failing = Failing(tmp_path / "marker", clock=clock)
    bad = ("5:1:-1", "5:2:-1")
    for id in bad:
        failing.failure(id, "A: b", given_up=True)
    failing.success("5:3:-1")
    for _ in range(FAILURES):
        clock.now += SECONDS
        failing.failure(bad[0], "A: b", given_up=True)
    assert words(failing) == "", "it is listed"
    for id in bad:
        failing.failure(id, "A: b", given_up=True)
    failing.success("5:4:-1")
    for _ in range(FAILURES):
        clock.now += SECONDS
        for id in bad:
            failing.failure(id, "A: b", given_up=True)
    assert words(failing) == ""
    assert [each["id"] for each in failing.poison()] == [*bad]
    for number in range(FAILURES):
        clock.now += SECONDS
        failing.failure(f"6:{number}:-1", "A: b", given_up=True)
    assert words(failing).startswith("HandlerFailing: 10 failures")


def test_what_is_no_proof_against_a_message(tmp_path: Path) -> None:
    """A failure for a moment, one of an outage that has ended, and one that is another's by now."""
    clock = Clock()
    failing = Failing(tmp_path / "marker", clock=clock)
    failing.failure("5:1:-1", "A: b", given_up=True)
    failing.success("5:2:-1")
    clock.now += 10 * SECONDS
    assert failing.poison() == [], "it has not failed again since another was handled"
    failing.failure("5:1:-1", "A: b", given_up=True)
    assert len(failing.poison()) == 1
    failing.renewed()
    assert failing.poison() == []
    failing.failure("5:3:-1", "A: b", given_up=True)
    failing.success("5:4:-1")
    failing.failure("5:3:-1", "A: b", given_up=True)
    assert failing.poison() == [], "for less than a minute"
    clock.now += SECONDS
    failing.settled("5:3:-1")
    assert failing.poison() == [], "a dead letter"
