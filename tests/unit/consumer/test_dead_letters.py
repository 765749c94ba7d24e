"""Dead letters of a consumer: which are its own, what is said of each, and what is sent back."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pulsar
import pytest
from pulsar_consumer import dead_letters
from pulsar_consumer.client import Hopeless
from pulsar_consumer.dead_letters import Asked
from pulsar_consumer.settings import BadSetting

from tests.unit.consumer.messages import Message

ENV = {
    "PULSAR_SERVER": "pulsar://localhost:6650", "PULSAR_TOPIC": "t", "PULSAR_SUBSCRIPTION_NAME": "s",
    "PULSAR_DEAD_LETTER_TOPIC": "dead",
}  # fmt: skip


def letter(number: int, reason: str = "Rejected", **changes: str) -> Message:
    properties = {
        "mine": "kept", "REAL_TOPIC": "persistent://public/default/t", "REAL_SUBSCRIPTION": "s",
        "ORIGIN_MESSAGE_ID": f"1:{number}:-1", "DEAD_LETTER_REASON": reason,
        "DEAD_LETTER_ERROR": "ValueError: two", "DEAD_LETTER_DELIVERIES": "2",
    }  # fmt: skip
    return Message(b"%d" % number, entry=number, key="k", sent={**properties, **changes}, event=7)


@dataclass
class Broker:
    """A client, its one consumer and its producers."""

    waiting: list[Message]
    last: Message | None = None
    """The topic's last message, where it is another than the last that waits."""
    waited: int = 0
    refusal: Exception | None = None
    events: list[tuple[Any, ...]] = field(default_factory=list)
    schemas: list[str] = field(default_factory=list)
    """The topic's, by version."""

    def subscribe(self, topic: str, name: str, **options: Any) -> Broker:
        if self.refusal is not None:
            raise self.refusal
        self.events.append(("subscribe", topic, name, options["initial_position"], options["consumer_type"]))
        return self

    @property
    def _client(self) -> Broker:
        return self

    def get_schema_info(self, topic: str, version: int) -> str:
        if version >= len(self.schemas):
            raise pulsar.TopicNotFound
        return self.schemas[version]

    def create_producer(self, topic: str, schema: Any = None) -> Broker:
        if schema is not None:
            assert schema.encode(b"as it is") == b"as it is"
        found = [] if schema is None else [schema.schema_info()]
        self.events.append(("produce", topic, *found))
        return self

    def receive(self, *, timeout_millis: int) -> Message:
        if not self.waiting:
            self.waited += timeout_millis
            raise pulsar.Timeout
        return self.waiting.pop(0)

    def get_last_message_id(self) -> Any:
        if self.last is None and not self.waiting:
            raise pulsar.PulsarException
        return (self.last or self.waiting[-1]).message_id()

    def send(self, content: bytes | None, **arguments: Any) -> None:
        if content == b"13":
            raise pulsar.ConnectError
        self.events.append(("send", content, arguments))

    def acknowledge(self, message: Message) -> None:
        self.events.append(("acknowledge", message.data()))

    def close(self) -> None: ...


@contextmanager
def broker(monkeypatch: pytest.MonkeyPatch, *waiting: Message, **options: Any) -> Iterator[Broker]:
    made = Broker(list(waiting), **options)
    monkeypatch.setattr(dead_letters, "connect", lambda _: made)
    monkeypatch.setattr(dead_letters, "explain", lambda *_: None)
    yield made


def printed(*words: str) -> list[dict[str, Any]]:
    out = io.BytesIO()
    dead_letters.run(Asked.load(ENV, words), out)
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_each_is_shown_and_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    with broker(monkeypatch, letter(1), letter(2, "MaxDeliveries")) as seen:
        first, second, end = printed("list")
    assert first == {
        "id": "7:1:-1", "reason": "Rejected", "error": "ValueError: two", "deliveries": "2",
        "topic": "persistent://public/default/t",
        "origin": "1:1:-1", "key": "k", "publishTime": 1_767_225_600_123, "size": 1, "payload": "1",
    }  # fmt: skip
    assert second["reason"] == "MaxDeliveries"
    assert end == {"found": 2, "sent": 0}
    earliest, alone = pulsar.InitialPosition.Earliest, pulsar.ConsumerType.Exclusive
    assert seen.events == [("subscribe", "dead", "kindling-dead-letters", earliest, alone)]


def test_the_last_one_ends_it_and_silence_only_where_that_does_not_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a silent broker nobody may conclude that there is nothing, until it has had its time."""
    with broker(monkeypatch, letter(1), letter(2)) as seen:
        assert printed("list")[-1]["found"] == 2
        assert seen.waited == 0
    with broker(monkeypatch, letter(1), last=letter(2)) as seen:
        assert printed("list")[-1]["found"] == 1
        assert seen.waited == dead_letters.WAIT_MILLISECONDS >= 10_000
    with broker(monkeypatch, last=letter(-1)) as seen:
        assert printed("list") == [{"found": 0, "sent": 0}]
        assert seen.waited == 0


def test_what_is_sent_back_is_as_it_was_and_sent_first(monkeypatch: pytest.MonkeyPatch) -> None:
    with broker(monkeypatch, letter(1)) as seen:
        *_, end = printed("redrive")
    assert end == {"found": 1, "sent": 1}
    properties = {"mine": "kept", "SENT_BACK_FROM": "7:1:-1"}
    arguments = {"properties": properties, "partition_key": "k", "event_timestamp": 7}
    assert seen.events[1:] == [("produce", "t"), ("send", b"1", arguments), ("acknowledge", b"1")]


def test_what_is_sent_back_has_the_schema_that_it_was_published_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or its consumers could not decode it, and would reject it again."""
    versions = {1: "1", 2: "0", 3: "1", 4: "7", 5: "no number"}
    letters = [letter(number, DEAD_LETTER_SCHEMA_VERSION=version) for number, version in versions.items()]
    with broker(monkeypatch, *letters, letter(6), schemas=["first", "second"]) as seen:
        *_, end = printed("redrive")
    assert end == {"found": 6, "sent": 6}
    events = [event for event in seen.events if event[0] == "produce"]
    gone = ("produce", "t")  # the broker does not have that version
    assert events == [("produce", "t", "second"), ("produce", "t", "first"), gone, gone, gone]
    sent = [event[2]["properties"] for event in seen.events if event[0] == "send"]
    assert all("DEAD_LETTER_SCHEMA_VERSION" not in properties for properties in sent)


@pytest.mark.parametrize(
    "env", [{"PULSAR_TOPICS": "t u"}, {"PULSAR_TOPICS_PATTERN": "persistent://public/default/[tu]"}], ids=str
)
def test_of_several_topics_each_goes_back_to_its_own(
    monkeypatch: pytest.MonkeyPatch, env: dict[str, str]
) -> None:
    monkeypatch.setattr(f"{__name__}.ENV", {**ENV, "PULSAR_TOPIC": "", **env})
    of_u = letter(2, REAL_TOPIC="persistent://public/default/u-partition-1")
    foreign = letter(3, REAL_TOPIC="persistent://public/default/v")
    with broker(monkeypatch, letter(1), of_u, foreign, letter(4)) as seen:
        *_, end = printed("redrive")
    assert end == {"found": 3, "sent": 3}
    prefix = "" if "PULSAR_TOPICS" in env else "persistent://public/default/"
    events = [event[:2] for event in seen.events[1:]]
    assert events == [
        ("produce", f"{prefix}t"), ("send", b"1"), ("acknowledge", b"1"),
        ("produce", f"{prefix}u"), ("send", b"2"), ("acknowledge", b"2"),
        ("send", b"4"), ("acknowledge", b"4"),
    ]  # fmt: skip


def test_what_no_broker_takes_stays_a_dead_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    with broker(monkeypatch, letter(1), letter(13)) as seen, pytest.raises(pulsar.ConnectError):
        printed("redrive")
    assert [event[1] for event in seen.events if event[0] == "acknowledge"] == [b"1"]


@pytest.mark.parametrize(
    ("changes", "own"),
    [
        ({}, True),
        ({"REAL_TOPIC": "persistent://public/default/t-partition-2"}, True),
        ({"REAL_TOPIC": "t"}, True),
        ({"REAL_TOPIC": "persistent://public/default/t-partition-x"}, False),
        ({"REAL_TOPIC": "persistent://shop/eu/t"}, False),
        ({"REAL_SUBSCRIPTION": "another"}, False),
        ({"DEAD_LETTER_REASON": "MaxDeliveries"}, False),
    ],
)
def test_only_its_own_with_that_reason(
    changes: dict[str, str], own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with broker(monkeypatch, letter(1, **changes)) as seen:
        *_, end = printed("redrive", "--reason", "Rejected")
    assert end["sent"] == int(own)
    assert (("acknowledge", b"1") in seen.events) == own


def test_no_more_than_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with broker(monkeypatch, *map(letter, range(5))) as seen:
        *_, end = printed("redrive", "--most", "3")
    assert end == {"found": 3, "sent": 3}
    assert len([event for event in seen.events if event[0] == "acknowledge"]) == 3


def test_two_who_look_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        broker(monkeypatch, refusal=pulsar.ConsumerBusy()),
        pytest.raises(Hopeless, match="another reader looks at the dead letters of dead now"),
    ):
        printed("list")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("TOPIC", "", r"spec\.deadLetter: there is none"),
        ("KEEP", "false", r"spec\.deadLetter\.keep: it is false"),
    ],
)
def test_where_none_are_kept_it_says_so(name: str, value: str, said: str) -> None:
    with pytest.raises(BadSetting, match=said):
        Asked.load({**ENV, f"PULSAR_DEAD_LETTER_{name}": value}, ["list"])


@pytest.mark.parametrize("refusal", [None, pulsar.ConsumerBusy(), pulsar.AuthorizationError()])
def test_a_consumer_keeps_them_and_goes_on_where_it_may_not(refusal: Exception | None) -> None:
    dead_letters.keep(Broker([], refusal=refusal), "dead")


def test_any_other_failure_is_the_consumers() -> None:
    with pytest.raises(pulsar.ConnectError):
        dead_letters.keep(Broker([], refusal=pulsar.ConnectError()), "dead")


def test_a_payload_may_be_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = Message(b"\xff\n" + b"x" * 1000, sent=letter(1).sent)
    with broker(monkeypatch, odd, Message(null=True, entry=1, sent=letter(1).sent)):
        first, second, _ = printed("list")
    assert first["payload"].startswith("\\xff\nxx")
    assert (len(first["payload"]), first["size"]) == (4 + 199, 1002)
    assert (second["payload"], second["size"]) == ("", 0)
