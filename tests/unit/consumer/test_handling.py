"""The receive loop with a handler: whole batches at a stop, no acknowledgement without output, readiness."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pulsar
import pytest
from pulsar_consumer.client import Hopeless
from pulsar_consumer.decoded import Mismatch
from pulsar_consumer.handling import HandlingLoop
from pulsar_consumer.health import Health
from pulsar_consumer.metrics import Metrics
from pulsar_consumer.python_handler import digest
from pulsar_consumer.settings import Consumer
from pulsar_consumer.unfinished import ENDS, Unfinished

from tests.unit.consumer.messages import Message

LEAST = {
    "PULSAR_SERVER": "pulsar://localhost:6650",
    "PULSAR_TOPIC": "t",
    "PULSAR_SUBSCRIPTION_NAME": "s",
    "PULSAR_HANDLER_PYTHON": "orders:handle",
}


@dataclass
class Producer:
    """Of one topic: connected or not, and what it sent."""

    connected: bool = True
    failure: Exception | None = None
    sent: list[bytes | None] = field(default_factory=list)

    def is_connected(self) -> bool:
        return self.connected

    def send(self, content: bytes | None, **arguments: Any) -> None:
        if self.failure is not None:
            raise self.failure
        self.sent.append(content)


@dataclass
class Client:
    """Makes a producer of each topic, unless it refuses."""

    refusal: Exception | None = None
    producers: dict[str, Producer] = field(default_factory=dict)

    kept: list[str] = field(default_factory=list)

    def subscribe(self, topic: str, name: str, **options: Any) -> Client:
        self.kept.append(topic)
        return self

    def close(self) -> None: ...

    def create_producer(self, topic: str, *, block_if_queue_full: bool) -> Producer:
        if self.refusal is not None:
            raise self.refusal
        assert topic not in self.producers
        return self.producers.setdefault(topic, Producer())


@dataclass
class Subscription:
    """Gives out what waits; a stop comes once so many are acknowledged."""

    waiting: list[Message]
    stop_after: int
    stop: threading.Event = field(default_factory=threading.Event)
    acknowledged: list[Message] = field(default_factory=list)

    def receive(self, *, timeout_millis: int) -> Message:
        assert timeout_millis <= 1000
        if not self.waiting:
            self.stop.wait(timeout_millis / 1000)
            raise pulsar.Timeout
        return self.waiting.pop(0)

    def acknowledge(self, message: Message) -> None:
        self.acknowledged.append(message)
        if len(self.acknowledged) >= self.stop_after:
            self.stop.set()

    def is_connected(self) -> bool:
        return True


Make = Callable[..., HandlingLoop]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    known, path = set(sys.modules), list(sys.path)

    def make(code: str = "def handle(message): return message.data()", **env: str) -> HandlingLoop:
        (tmp_path / "files").mkdir()
        (tmp_path / "files" / "orders.py").write_text(code)
        places = {
            "PULSAR_HANDLER_HASH": digest({"orders.py": code.encode()}),
            "PULSAR_HANDLER_FILES": str(tmp_path / "files"),
            "PULSAR_HANDLER_COPIES": str(tmp_path / "copies"),
            "PULSAR_HANDLER_MARKER": str(tmp_path / "marker"),
            "PULSAR_HANDLER_CALLS": str(tmp_path / "calls"),
        }
        settings = Consumer.load({**LEAST, **places, **env})
        assert settings.handling is not None
        return HandlingLoop(settings, settings.handling, Metrics())

    yield make
    for name in set(sys.modules) - known:
        del sys.modules[name]
    sys.path[:] = path


def received(
    loop: HandlingLoop, messages: Sequence[Message], *, stop_after: int
) -> tuple[Subscription, Health]:
    subscription, health = Subscription(list(messages), stop_after), Health()
    loop.receive(subscription, stop=subscription.stop, health=health)
    return subscription, health


BATCHES = [Message(b"%d" % number, entry=number // 3, index=number % 3) for number in range(30)]


@pytest.mark.parametrize("concurrency", ["1", "4"])
@pytest.mark.parametrize("stop_after", [1, 2, 4])
def test_stop_ends_each_batch_that_is_begun(make: Make, stop_after: int, concurrency: str) -> None:
    loop = make(PULSAR_HANDLER_CONCURRENCY=concurrency)
    loop.connect(Client())
    subscription, _ = received(loop, BATCHES, stop_after=stop_after)
    done = {message.entry for message in subscription.acknowledged}
    assert sorted(message.payload for message in subscription.acknowledged) == sorted(
        message.payload for message in BATCHES if message.entry in done
    )
    assert 0 < len(done) < 10


def test_output_goes_by_the_client_of_now(make: Make) -> None:
    loop = make(PULSAR_OUTPUT_TOPIC="done")
    first, second = Client(), Client()
    for client in (first, second):
        loop.connect(client)
    received(loop, [Message(b"a")], stop_after=1)
    assert (first.producers["done"].sent, second.producers["done"].sent) == ([], [b"a"])


def test_broker_that_fails_ends_the_loop_and_nothing_is_acknowledged(make: Make) -> None:
    loop, client = make(PULSAR_OUTPUT_TOPIC="done"), Client()
    loop.connect(client)
    client.producers["done"].failure = pulsar.Timeout()
    subscription = Subscription([Message()], 1)
    with pytest.raises(pulsar.Timeout):
        loop.receive(subscription, stop=subscription.stop, health=Health())
    assert subscription.acknowledged == []


class Read(Message):
    """Of the client that was given a schema, which this payload fits or not."""

    def value(self) -> Any:
        if self.payload == b"rubbish":
            raise Mismatch("field 'id' is missing")
        return {"read": self.payload}


def test_with_a_schema_the_handler_gets_what_was_read_and_the_dead_letters_the_rest(make: Make) -> None:
    code, client = "def handle(message): return f'{message.value()} {message.schema_uri}'", Client()
    topics = {"PULSAR_OUTPUT_TOPIC": "done", "PULSAR_DEAD_LETTER_TOPIC": "dead"}
    loop = make(code, PULSAR_SCHEMA_TYPE="Avro", **topics)
    loop.connect(client)
    received(loop, [Read(b"a", version=0), Read(b"rubbish", entry=1)], stop_after=2)
    assert client.producers["done"].sent == [b"{'read': b'a'} persistent://public/default/t?schemaVersion=0"]
    assert client.producers["dead"].sent == [b"rubbish"]


def test_where_others_read_dead_letters_no_subscription_keeps_them(make: Make) -> None:
    client = Client()
    make(PULSAR_DEAD_LETTER_TOPIC="dead", PULSAR_DEAD_LETTER_KEEP="false").connect(client)
    assert client.kept == []


def test_ready_while_the_producers_are_connected_too(make: Make) -> None:
    loop, client = make(PULSAR_DEAD_LETTER_TOPIC="dead"), Client()
    loop.connect(client)
    assert client.kept == ["dead"], "without a subscription the broker drops them"
    _, health = received(loop, [Message()], stop_after=1)
    assert health.unready() is None
    client.producers["dead"].connected = False
    assert health.unready() == "not connected to the broker"


@pytest.mark.parametrize(
    ("refusal", "said"),
    [
        (pulsar.AuthorizationError(), "NotAuthorized: the bearer of spec.auth may not do this on the topic"),
        (pulsar.TopicNotFound(), "TopicNotFound: the broker has no such topic, tenant or namespace"),
    ],
)
def test_topic_that_takes_no_messages_is_named_with_its_field(
    make: Make, refusal: Exception, said: str
) -> None:
    with pytest.raises(Hopeless) as raised:
        make(PULSAR_OUTPUT_TOPIC="done").connect(Client(refusal=refusal))
    assert str(raised.value) == f"{said} (spec.output.topic 'done')"


def test_broker_that_cannot_be_reached_is_tried_again(make: Make) -> None:
    with pytest.raises(pulsar.ConnectError):
        make(PULSAR_DEAD_LETTER_TOPIC="dead").connect(Client(refusal=pulsar.ConnectError()))


def test_the_page_has_the_calls_and_a_message_that_fails_while_others_are_handled(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of this client: what another one had comes again."""
    monkeypatch.setattr("pulsar_consumer.failing.SECONDS", 0.0)
    code = """
def handle(message):
    if message.data() == b"bad":
        raise ValueError("canary")
"""
    loop = make(code, PULSAR_RETRY_INITIAL_SECONDS="1", PULSAR_RETRY_MAX_DELIVERIES="1")
    loop.connect(Client())
    subscription, health = Subscription([Message(b"bad", entry=1)], 2), Health()

    def feed() -> None:
        """The last one, at which it ends, once the page has the other."""
        time.sleep(0.5)
        subscription.waiting.append(Message(b"good", entry=2))
        end = time.monotonic() + 30
        while not json.loads(loop.page())["poison"] and time.monotonic() < end:
            time.sleep(0.05)
        subscription.waiting.append(Message(b"good", entry=3))

    feeding = threading.Thread(target=feed)
    feeding.start()
    loop.receive(subscription, stop=subscription.stop, health=health)
    feeding.join()
    assert health.page is not None
    page = json.loads(health.page())
    [found] = page.pop("poison")
    assert page.pop("p99Milliseconds") >= 1
    assert page["calls"] - page["failures"] == 2
    assert page["failures"] >= 2
    assert (found["id"], found["error"]) == ("7:1:-1", "ValueError")
    assert "canary" not in health.page().decode()
    received(loop, [Message(b"good", entry=4)], stop_after=1)
    assert json.loads(loop.page())["poison"] == []


def test_unready_while_a_message_that_ended_processes_may_come(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pulsar_consumer.unfinished.GONE_SECONDS", 1.0)
    for _ in range(ENDS):
        Unfinished(tmp_path / "calls", slots=4, termination_log=tmp_path / "log").begin("7:1:-1")
    loop = make()
    loop.connect(Client())
    subscription, health = Subscription([], 1), Health()
    ending = threading.Timer(30.0, subscription.stop.set)
    ending.start()
    seen: list[str | None] = []

    def turned() -> None:
        seen.append(health.unready())
        if seen[-1] is None:
            subscription.stop.set()

    monkeypatch.setattr(health, "turn", turned)
    loop.receive(subscription, stop=subscription.stop, health=health)
    ending.cancel()
    assert seen[0] == "a message has ended the process again and again"
    assert seen[-1] is None, "it has not come again"
