"""Events report the changes that a user would ask about, once each, and never more than the status."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
from kindling.engine.events import (
    AT_ONCE,
    EventRecorder,
    changed_conditions,
    event_for,
    notice_for,
    repair_for,
)
from kindling.engine.plan import Apply
from kindling.kinds.base import Notice
from kindling.kinds.conditions import condition
from kindling.kube.errors import Conflict, Rejected
from kindling.kube.resources import EVENT, SERVICE, Object, ResourceType

TYPE = ResourceType("example.com", "v1", "Toy", "toys")
CR = {"metadata": {"namespace": "ns", "name": "x", "uid": "u"}}
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def status(**truths: bool) -> Object:
    return {
        "conditions": [
            condition(name, truth, reason="Because", message="m", generation=1)
            for name, truth in truths.items()
        ]
    }


def test_only_noteworthy_changes_of_conditions_are_reported() -> None:
    before = status(Ready=False, Degraded=False, Progressing=False)
    after = status(Ready=True, Degraded=True, Progressing=True, Available=True, PlaintextPassword=True)
    assert [item["type"] for item in changed_conditions(before, after)] == [
        "Ready",
        "Degraded",
        "PlaintextPassword",
    ]
    assert changed_conditions(after, after) == []
    assert changed_conditions(after, before) == []


def test_a_server_that_is_stopped_is_reported_and_is_no_warning() -> None:
    up, down = status(Ready=True), status(Ready=False)
    [stopped] = down["conditions"]
    assert changed_conditions(up, down) == []
    stopped["reason"] = "Hibernated"
    assert changed_conditions(up, down) == [stopped]
    assert changed_conditions(down, down) == []
    event = event_for(TYPE, CR, stopped, instance="i", now=NOW)
    assert (event["type"], event["reason"], event["note"]) == ("Normal", "Hibernated", "m")


def test_same_word_same_name() -> None:
    item = condition("Ready", True, reason="A", message="m", generation=1)
    one = event_for(TYPE, CR, item, instance="op-1", now=NOW)
    two = event_for(TYPE, CR, item, instance="op-2", now=datetime(2027, 1, 1, tzinfo=UTC))
    assert one["metadata"]["name"] == two["metadata"]["name"]
    other = event_for(TYPE, CR, {**item, "observedGeneration": 2}, instance="op-1", now=NOW)
    assert one["metadata"]["name"] != other["metadata"]["name"]
    assert (one["type"], one["regarding"]["uid"]) == ("Normal", "u")
    assert event_for(TYPE, CR, {**item, "type": "Degraded"}, instance="i", now=NOW)["type"] == "Warning"


@pytest.mark.parametrize("type", ["Verified", "Archiving"])
def test_good_news_of_a_backup_is_no_warning(type: str) -> None:
    item = condition(type, True, reason="Succeeded", message="m", generation=1)
    assert event_for(TYPE, CR, item, instance="i", now=NOW)["type"] == "Normal"


def test_a_repair_is_reported_once_a_while() -> None:
    def name(at: datetime, child: str = "a") -> str:
        action = Apply(SERVICE, {"metadata": {"name": child}}, new=False, drift=True)
        event = repair_for(TYPE, CR, action, None, instance="op-1", now=at)
        assert (event["type"], event["reason"]) == ("Normal", "Repaired")
        assert event["note"] == f"Service {child} was edited by another writer; it was set back."
        return str(event["metadata"]["name"])

    assert name(NOW) == name(NOW.replace(minute=9))
    assert len({name(NOW), name(NOW.replace(minute=10)), name(NOW, "b")}) == 3


def test_each_action_that_has_something_to_say_is_reported() -> None:
    """The same again is another Event: it has happened again."""
    found = Notice("Restarted", "It was restarted.")
    first = notice_for(TYPE, CR, found, incident=False, instance="op-1", now=NOW)
    assert (first["type"], first["reason"], first["note"]) == ("Normal", *found)
    again = notice_for(TYPE, CR, found, incident=False, instance="op-1", now=NOW.replace(second=1))
    assert first["metadata"]["name"] != again["metadata"]["name"]


def test_posting_outlives_every_refusal() -> None:
    async def run() -> None:
        posted: list[str] = []
        answers = [
            Conflict(status=409, reason="AlreadyExists", message=""),
            Rejected(status=403, reason="Forbidden", message=""),
        ]

        class Server:
            async def create(self, type: ResourceType, body: Object) -> Object:
                assert type == EVENT
                if answers:
                    raise answers.pop()
                posted.append(body["reason"])
                return body

        events = EventRecorder(api=Server(), instance="op-1")
        running = asyncio.create_task(events.run())
        for _ in range(3):
            events.status_changed(TYPE, CR, {}, status(Ready=True))
        await asyncio.sleep(0.01)
        assert posted == ["Because"]
        assert not running.done()
        running.cancel()

    asyncio.run(run())


def test_one_that_takes_long_does_not_hold_up_the_others() -> None:
    async def run() -> None:
        posted: list[str] = []
        busy = most = 0

        class Server:
            async def create(self, type: ResourceType, body: Object) -> Object:
                nonlocal busy, most
                busy += 1
                most = max(most, busy)
                await asyncio.sleep(60 if body["note"] == "slow" else 0)
                busy -= 1
                posted.append(body["note"])
                return body

        events = EventRecorder(api=Server(), instance="op-1")
        running = asyncio.create_task(events.run())
        for note in ("slow", "1", "2", "3"):
            events.acted(TYPE, CR, Notice(reason="Because", note=note))
        await asyncio.sleep(0.05)
        assert posted == ["1", "2", "3"]
        assert most == AT_ONCE
        running.cancel()

    asyncio.run(run())
