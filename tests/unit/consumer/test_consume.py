"""The receive loop's promises: one line for each message whatever it is, and no half of a batch at a stop."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pulsar
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pulsar_consumer.__main__ import _is_outdated, line, receive
from pulsar_consumer.credentials import is_outdated, shown
from pulsar_consumer.health import Health
from pulsar_consumer.metrics import Metrics
from pulsar_consumer.receiving import LOST_SECONDS, MOST_SKIPPED, Lost, Until
from pulsar_consumer.settings import Broker


@dataclass(frozen=True)
class Message:
    """As the client gives it, with the client's own kind of id."""

    payload: bytes
    entry: int = 0
    index: int = -1
    topic: str = "persistent://public/default/t"

    def data(self) -> bytes:
        return self.payload

    def topic_name(self) -> str:
        return self.topic

    def message_id(self) -> object:
        return pulsar.MessageId(-1, 7, self.entry, self.index)


@dataclass
class Subscription:
    """What a consumer has received beforehand, given out one by one."""

    waiting: list[Message]
    stop_after: int
    stop: threading.Event = field(default_factory=threading.Event)
    acknowledged: list[Message] = field(default_factory=list)
    written: Callable[[], bytes] = lambda: b""

    def receive(self, *, timeout_millis: int) -> Message:
        assert timeout_millis <= 1000  # A stop waits that long.
        if not self.waiting:
            self.stop.set()
            raise pulsar.Timeout
        return self.waiting.pop(0)

    def acknowledge(self, message: Message) -> None:
        assert line(message) in self.written(), "acknowledged before it was printed"
        self.acknowledged.append(message)
        if len(self.acknowledged) == self.stop_after:
            self.stop.set()


def consume(messages: Sequence[Message], *, stop_after: int) -> tuple[list[Message], list[bytes]]:
    """What is acknowledged, and what is printed, when a stop comes after so many."""
    out = io.BytesIO()
    subscription = Subscription(list(messages), stop_after, written=out.getvalue)
    receive(subscription, stop=subscription.stop, health=Health(), out=out, metrics=Metrics())
    return subscription.acknowledged, out.getvalue().splitlines(keepends=True)


SINGLE = [Message(b"%d" % number, entry=number) for number in range(6)]
BATCHES = [Message(b"%d" % number, entry=number // 3, index=number % 3) for number in range(6)]


def test_stop_handles_nothing_more() -> None:
    acknowledged, printed = consume(SINGLE, stop_after=2)
    assert acknowledged == SINGLE[:2]
    assert printed == [b"(7,0,-1,-1) 0\n", b"(7,1,-1,-1) 1\n"]


@pytest.mark.parametrize(("stop_after", "handled"), [(1, 3), (2, 3), (3, 3), (4, 6), (6, 6)])
def test_stop_ends_the_batch_that_is_begun_and_begins_no_other(stop_after: int, handled: int) -> None:
    acknowledged, printed = consume(BATCHES, stop_after=stop_after)
    assert acknowledged == BATCHES[:handled]
    assert len(printed) == handled


def test_batches_rest_that_does_not_come_is_not_waited_for() -> None:
    assert consume(BATCHES[:2], stop_after=1)[0] == BATCHES[:2]


def test_stop_ends_the_begun_batch_of_each_topic() -> None:
    """Messages of several topics come in between each other; of none is one skipped and a later one taken."""
    a = [Message(b"a%d" % n, entry=n // 3, index=n % 3, topic="a") for n in range(6)]
    b = [Message(b"b%d" % n, entry=n // 2, index=n % 2, topic="b") for n in range(4)]
    c = [Message(b"c%d" % n, entry=n, topic="c") for n in range(4)]
    order = [a[0], c[0], b[0], c[1], b[1], b[2], a[1], c[2], b[3], a[2], a[3], c[3]]
    acknowledged, _ = consume(order, stop_after=3)
    assert acknowledged == [a[0], c[0], b[0], b[1], a[1], a[2]]


def test_a_batch_is_not_looked_for_among_other_topics_messages_for_ever() -> None:
    others = [Message(b"", entry=n, topic="other") for n in range(2 * MOST_SKIPPED)]
    late = Message(b"late", index=1)
    acknowledged, _ = consume([Message(b"", index=0), *others, late], stop_after=1)
    assert len(acknowledged) == 1


def test_a_consumer_is_lost_once_it_was_unconnected_without_a_break() -> None:
    now, connected = [0.0], [True]
    lost = Lost(lambda: connected[0], clock=lambda: now[0])
    said = []
    for now[0], connected[0] in (
        (0, True), (100, False), (100 + LOST_SECONDS - 1, False), (140, True), (141, False),
        (141 + LOST_SECONDS, False),
    ):  # fmt: skip
        said.append(lost())
    assert said == [False] * 5 + [True]


@pytest.mark.parametrize(
    ("payload", "shown"),
    [
        (b"Hello, Pulsar!", "Hello, Pulsar!"),
        ("grüß 你好 🙂".encode(), "grüß 你好 🙂"),
        (b"two\nlines\r\n\tand a tab", "two\\nlines\\r\\n\\tand a tab"),
        (b"\xff\xfe\x00", "\\xff\\xfe\\x00"),
        ("\u2028\x1b[31m".encode(), "\\u2028\\x1b[31m"),
        (b"", ""),
    ],
)
def test_payload_is_shown_as_text(payload: bytes, shown: str) -> None:
    assert line(Message(payload)).decode() == f"(7,0,-1,-1) {shown}\n"


@given(st.binary(max_size=40) | st.text(max_size=40).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_payload_is_one_line(payload: bytes) -> None:
    shown = line(Message(payload)).decode()
    assert shown.splitlines(keepends=True) == [shown]
    assert shown.endswith("\n")


def _login(folder: Path, password: str) -> Broker:
    for name, value in (("username", "ann"), ("password", password)):
        (folder / name).write_text(value)
    return Broker(server="pulsar://b", basic_files=folder)


def test_a_client_with_an_earlier_password_is_followed_by_another_once_it_is_disconnected(
    tmp_path: Path,
) -> None:
    subscription, broker = Subscription([], stop_after=1), _login(tmp_path, "one")
    used = shown(broker)
    assert used == ("basic", "ann:one")
    connected = True
    subscription.is_connected = lambda: connected  # type: ignore[attr-defined]
    until = Until(subscription.stop, partial(_is_outdated, subscription, broker, used))
    connected = False
    assert not until.is_set(), "the password is the same"
    _login(tmp_path, "two")
    connected = True
    assert not until.is_set(), "the broker still accepts it"
    connected = False
    assert until.is_set()
    _login(tmp_path, "")
    assert not until.is_set(), "the kubelet writes it just now"
    subscription.stop.set()
    assert until.is_set()


def test_a_token_outdates_no_client(tmp_path: Path) -> None:
    """It is asked for at each authentication."""
    (tmp_path / "token").write_text("one")
    broker = Broker(server="pulsar://b", token_file=tmp_path / "token")
    used = shown(broker)
    (tmp_path / "token").write_text("two")
    assert not is_outdated(broker, used)
