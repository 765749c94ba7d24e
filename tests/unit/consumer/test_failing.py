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
        def failure(self, id: str, error: str) -> None:
            noted.append(error)

        def success(self) -> None:
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
