"""What a consumer serves to Prometheus is what it did, read by Prometheus' own parser from the port."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from pulsar_consumer.__main__ import receive
from pulsar_consumer.failing import Failing
from pulsar_consumer.handler import Delayed, Failed, Handled, Mismatched, Rejected, Verdict
from pulsar_consumer.handling import lanes
from pulsar_consumer.health import Health
from pulsar_consumer.metrics import Served
from pulsar_consumer.recent import Recent
from pulsar_consumer.unfinished import Unfinished
from pulsar_consumer.work import Work

from tests.ports import free_port
from tests.unit.consumer.messages import Message, Record
from tests.unit.consumer.test_consume import SINGLE, Subscription
from tests.unit.consumer.test_work import SETTINGS, within


@pytest.fixture
def served() -> Iterator[Served]:
    found = Served(free_port())
    yield found
    found.close()


def read(served: Served) -> dict[str, float]:
    """The values by name and labels."""
    with urllib.request.urlopen(f"http://127.0.0.1:{served.port}/metrics", timeout=5) as answer:
        text = answer.read().decode()
    return {
        " ".join([sample.name, *sample.labels.values()]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def handle(
    served: Served, tmp_path: Path, handler: Callable[[Any], Verdict], record: Record, **settings: Any
) -> Work:
    return Work(
        replace(SETTINGS, **settings),
        handler,
        record,
        subscription="s",
        send=record.send,
        lane_of=lanes("Shared"),
        failing=Failing(tmp_path / "marker"),
        unfinished=Unfinished(tmp_path / "calls", slots=4, termination_log=tmp_path / "log"),
        recent=Recent(),
        metrics=served,
    )


def test_every_series_is_there_before_anything_has_happened(served: Served) -> None:
    """A counter that begins with its first event has no increase that an alert could see."""
    found = read(served)
    for result in ("handled", "failed", "rejected", "delayed", "mismatched"):
        assert found[f"kindling_consumer_handler_seconds_count {result}"] == 0
    for reason in ("Rejected", "MaxDeliveries", "SchemaMismatch"):
        assert found[f"kindling_consumer_dead_letters_total {reason}"] == 0
    for name in ("messages_total", "outputs_total", "messages_held", "handler_slowest_seconds"):
        assert found[f"kindling_consumer_{name}"] == 0
    assert found["process_resident_memory_bytes"] > 2**20
    assert not [name for name in found if "_created" in name]


def test_seconds_of_a_call_are_the_handlers_alone(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is noted of it before and after, on a volume that may be slow, is not counted."""
    begin, end = Unfinished.begin, Unfinished.end

    def slow_begin(unfinished: Unfinished, id: str) -> int | None:
        time.sleep(0.3)
        return begin(unfinished, id)

    def slow_end(unfinished: Unfinished, id: str, place: int | None) -> None:
        time.sleep(0.3)
        end(unfinished, id, place)

    monkeypatch.setattr(Unfinished, "begin", slow_begin)
    monkeypatch.setattr(Unfinished, "end", slow_end)
    record = Record()
    work = handle(served, tmp_path, lambda message: Handled(), record)
    work.take(Message(entry=0))
    within(5, lambda: len(record.acknowledged()) == 1)
    work.stop()
    assert read(served)["kindling_consumer_handler_seconds_sum handled"] < 0.3


def test_each_end_of_a_call_is_counted_once(served: Served, tmp_path: Path) -> None:
    verdicts: dict[int, list[Verdict]] = {
        0: [Handled(b"out")],
        1: [Failed("once"), Handled()],
        2: [Rejected("never")],
        3: [Delayed(0.01, "later"), Failed("a"), Failed("b"), Failed("c")],
        4: [Mismatched("field 'id' is missing")],
    }
    record = Record()
    work = handle(
        served,
        tmp_path,
        lambda message: verdicts[message.entry].pop(0),
        record,
        output_topic="done",
        dead_letter_topic="dead",
    )
    for entry in verdicts:
        work.take(Message(entry=entry))
    within(5, lambda: len(record.acknowledged()) == len(verdicts))
    within(5, lambda: read(served)["kindling_consumer_messages_held"] == 0)
    work.stop()
    found = read(served)
    counted = {
        result: found[f"kindling_consumer_handler_seconds_count {result}"]
        for result in ("handled", "failed", "rejected", "delayed", "mismatched")
    }
    assert counted == {"handled": 2, "failed": 4, "rejected": 1, "delayed": 1, "mismatched": 1}
    assert found["kindling_consumer_messages_total"] == 5
    assert found["kindling_consumer_outputs_total"] == 1
    assert found["kindling_consumer_dead_letters_total Rejected"] == 1
    assert found["kindling_consumer_dead_letters_total MaxDeliveries"] == 1
    assert found["kindling_consumer_dead_letters_total SchemaMismatch"] == 1


def test_what_hangs_is_seen_while_it_hangs(served: Served, tmp_path: Path) -> None:
    gate = threading.Event()

    def handler(_message: Any) -> Verdict:
        gate.wait(10)
        return Handled()

    work = handle(served, tmp_path, handler, Record())
    for entry in range(3):
        work.take(Message(entry=entry))
    time.sleep(0.3)
    found = read(served)
    assert found["kindling_consumer_messages_held"] == 3
    assert 0.2 < found["kindling_consumer_handler_slowest_seconds"] < 10
    gate.set()
    within(5, lambda: read(served)["kindling_consumer_messages_total"] == 3)
    work.stop()
    found = read(served)
    assert found["kindling_consumer_handler_seconds_sum handled"] > 0.2
    assert found["kindling_consumer_handler_slowest_seconds"] == 0


def test_what_is_printed_is_counted_too(served: Served) -> None:
    out = io.BytesIO()
    subscription = Subscription([*SINGLE], stop_after=2, written=out.getvalue)
    receive(subscription, stop=subscription.stop, health=Health(), out=out, metrics=served)
    assert read(served)["kindling_consumer_messages_total"] == len(subscription.acknowledged) == 2


def test_what_a_function_records_is_summed_by_its_name(served: Served) -> None:
    for name, value in (("amount", 3.0), ("amount", 4.5), ("weight", 1.0)):
        assert served.recorded(name, value)
    found = read(served)
    assert found["kindling_consumer_user_metric_sum amount"] == 7.5
    assert found["kindling_consumer_user_metric_count amount"] == 2
    assert found["kindling_consumer_user_metric_count weight"] == 1


def test_a_port_that_is_taken_is_an_error(served: Served) -> None:
    with pytest.raises(OSError, match="in use"):
        Served(served.port)


def test_without_a_port_the_library_is_not_imported() -> None:
    words = "import sys, pulsar_consumer.__main__; print('prometheus_client' in sys.modules)"
    env = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", words], env=env, capture_output=True, text=True, timeout=60)
    assert done.stdout == "False\n", done.stderr
