"""What the broker knows of a subscription, how many consumers follow from it, and its end."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from tests.cluster.claims.pulsarconsumer import stats
from tests.cluster.consumers import (
    ADMIN,
    KIND,
    SAMPLE,
    Make,
    edit,
    produce,
    python,
    wait_ready,
)
from tests.cluster.stack import Environment, within


def moving(environment: Environment, name: str) -> tuple[str, str]:
    """Status and reason of the condition BacklogMoving."""
    conditions = environment.get(f"{KIND}/{name}").get("status", {}).get("conditions", [])
    return next(((c["status"], c["reason"]) for c in conditions if c["type"] == "BacklogMoving"), ("", ""))


def test_what_waits_for_the_subscription_is_in_the_status_and_no_admin_api_leaves_ready_alone(
    environment: Environment, make: Make
) -> None:
    """It is asked at once where an answer may have become another one, so no minute is waited for."""
    name = make(adminURL=ADMIN)
    wait_ready(environment, name)
    within(20, lambda: moving(environment, name) == ("True", "NoBacklog"))
    edit(environment, name, replicas=0)
    wait_ready(environment, name, reason="ScaledToZero")
    # One that is on its way out takes messages still.
    within(60, lambda: not environment.get("pods", "-l", f"app.kubernetes.io/instance={name}")["items"])
    edit(environment, name, adminURL=None)
    produce(environment, topic=name, count=25)
    edit(environment, name, adminURL=ADMIN)
    within(20, lambda: moving(environment, name) == ("False", "NoConsumers"))
    said = environment.get(f"{KIND}/{name}")["status"]["backlog"]
    assert (said["messages"], said["unacknowledged"], said["consumers"]) == (25, 0, 0)
    edit(environment, name, adminURL="http://nobody.pulsar.svc:8080")
    within(30, lambda: moving(environment, name) == ("Unknown", "AdminUnreachable"))
    status = environment.get(f"{KIND}/{name}")["status"]
    assert "backlog" not in status
    assert [c["status"] for c in status["conditions"] if c["type"] == "Ready"] == ["True"]


def scaled(environment: Environment, name: str) -> dict[str, Any]:
    found: dict[str, Any] = environment.get(f"{KIND}/{name}").get("status", {}).get("autoscaling", {})
    return found


def ask_at_once(environment: Environment, name: str) -> None:
    """Another name of the broker is another question, so no minute is waited for."""
    known = environment.get(f"{KIND}/{name}")["spec"]["adminURL"]
    edit(environment, name, adminURL=ADMIN.replace(".svc", ".svc.cluster.local") if known == ADMIN else ADMIN)


def test_the_backlog_starts_consumers_and_they_go_once_nothing_waits(
    environment: Environment, make: Make
) -> None:
    """A topic that nobody has made, too: the first consumer makes the subscription."""
    scaling = {"max": 3, "targetBacklog": 10, "stabilizationWindowSeconds": 3}
    name = make(adminURL=ADMIN, replicas=0, autoscaling=scaling)
    within(60, lambda: "printers" in stats(environment, name).get("subscriptions", {}))
    within(60, lambda: scaled(environment, name).get("replicas") == 0)
    wait_ready(environment, name, reason="ScaledToZero")
    within(60, lambda: not environment.get("pods", "-l", f"app.kubernetes.io/instance={name}")["items"])
    produce(environment, topic=name, count=25)
    ask_at_once(environment, name)
    within(20, lambda: scaled(environment, name).get("replicas") == 3)
    within(60, lambda: subscriptions(environment, name) == {"printers": 3})
    within(60, lambda: environment.get(f"{KIND}/{name}")["status"]["replicas"] == 3)
    within(60, lambda: stats(environment, name)["subscriptions"]["printers"]["msgBacklog"] == 0)
    ask_at_once(environment, name)
    within(60, lambda: scaled(environment, name).get("replicas") == 0)
    wait_ready(environment, name, reason="ScaledToZero")
    assert "lowerSince" not in scaled(environment, name)


@pytest.mark.thorough
def test_from_zero_to_100000_messages_and_back_to_zero(environment: Environment, make: Make) -> None:
    """By the minute's own questions: the time and the consumers are printed."""
    scaling = {"max": 5, "targetBacklog": 20_000, "stabilizationWindowSeconds": 60}
    name = make(adminURL=ADMIN)
    wait_ready(environment, name)
    edit(environment, name, replicas=0)
    wait_ready(environment, name, reason="ScaledToZero")
    within(60, lambda: not environment.get("pods", "-l", f"app.kubernetes.io/instance={name}")["items"])
    produce(environment, topic=name, count=100_000, seconds=1200)
    edit(environment, name, autoscaling=scaling)
    began = time.monotonic()
    within(30, lambda: bool(scaled(environment, name)))
    most, drained = 0, 0.0
    changes: list[tuple[int, int]] = []
    while True:
        assert time.monotonic() - began < 900
        now = scaled(environment, name)["replicas"]
        waiting = stats(environment, name)["subscriptions"]["printers"]["msgBacklog"]
        if not changes or changes[-1][1] != now:
            changes.append((round(time.monotonic() - began), now))
        most = max(most, now)
        drained = drained or (0.0 if waiting or not most else time.monotonic())
        if drained and now == 0:
            break
        time.sleep(2)
    print(f"drained after {drained - began:.0f} s: {changes}")
    assert most == 5
    # Up, down, and no flapping: at most one step down to another number.
    numbers = [number for _, number in changes]
    top = numbers.index(most)
    assert numbers[: top + 1] == sorted(numbers[: top + 1])
    assert numbers[top:] == sorted(numbers[top:], reverse=True)


def subscriptions(environment: Environment, topic: str, *, partitioned: bool = False) -> dict[str, int]:
    """By the broker's own word, with how many consumers each has."""
    found = stats(environment, topic, partitioned=partitioned)["subscriptions"]
    return {name: len(each["consumers"]) for name, each in found.items()}


def test_a_deleted_one_unsubscribes_once_nobody_reads_on(environment: Environment, make: Make) -> None:
    topic = make(adminURL=ADMIN, deletionPolicy="Unsubscribe", replicas=2)
    wait_ready(environment, topic)
    edit(environment, topic, subscriptionName="second")
    within(60, lambda: subscriptions(environment, topic) == {"printers": 0, "second": 2})
    other = make(topic=topic, subscriptionName="second")
    wait_ready(environment, other)
    environment.kubectl("delete", f"{KIND}/{topic}", "--wait=false")
    wait_ready(environment, topic, reason="SubscriptionBusy")
    assert subscriptions(environment, topic) == {"printers": 0, "second": 1}
    assert environment.get("deployment", f"{topic}-deployment")["spec"]["replicas"] == 0
    environment.kubectl("delete", f"{KIND}/{other}")
    environment.kubectl("wait", "--for=delete", f"{KIND}/{topic}", "--timeout=60s")
    assert subscriptions(environment, topic) == {}


def test_of_a_topic_with_partitions_what_waits_is_known_and_the_subscription_ends(
    environment: Environment, make: Make
) -> None:
    topic = f"parts-{os.urandom(3).hex()}"
    # From a consumer's Pod: kubectl sends no type of content with what is not the API server's.
    program = (
        "import urllib.request as r; r.urlopen(r.Request("
        f"'{ADMIN}/admin/v2/persistent/public/default/{topic}/partitions', data=b'3', method='PUT', "
        "headers={'Content-Type': 'application/json'}))"
    )
    pod = f"deployment/{SAMPLE}-deployment"
    environment.kubectl("exec", pod, "-c", "consumer", "--", "python3", "-c", program)
    name = make(topic=topic, adminURL=ADMIN, deletionPolicy="Unsubscribe")
    wait_ready(environment, name)
    within(20, lambda: moving(environment, name) == ("True", "NoBacklog"))
    assert subscriptions(environment, topic, partitioned=True) == {"printers": 1}
    assert environment.get(f"{KIND}/{name}")["status"]["backlog"]["consumers"] == 1
    environment.kubectl("delete", f"{KIND}/{name}", "--timeout=60s")
    assert subscriptions(environment, topic, partitioned=True) == {}


def test_what_consumers_have_and_did_not_acknowledge_is_counted(
    environment: Environment, make: Make, put: Callable[[str], str]
) -> None:
    """A handler that takes a minute for each message has one of them, and the rest waits."""
    code = put("import time\n\n\ndef handle(message): time.sleep(100)\n")
    name = make(handler=python(code, timeoutSeconds=120), replicas=0)
    wait_ready(environment, name, reason="ScaledToZero")
    produce(environment, topic=name, count=5)
    edit(environment, name, replicas=1)
    wait_ready(environment, name, reason="Connected")
    within(20, lambda: bool(subscriptions(environment, name)))
    edit(environment, name, adminURL=ADMIN)
    within(30, lambda: moving(environment, name) == ("True", "Acknowledging"))

    def counted() -> bool:
        """The consumer may have been asked before it had its first message."""
        said = environment.get(f"{KIND}/{name}")["status"]["backlog"]
        known = stats(environment, name)["subscriptions"]["printers"]
        waits = bool(said["messages"] == known["msgBacklog"] > 0)
        return waits and bool(said["unacknowledged"] == known["unackedMessages"] > 0)

    within(60, counted)


@pytest.mark.thorough
def test_the_oldest_message_that_waits_is_dated_and_what_is_read_is_not(
    environment: Environment, make: Make
) -> None:
    """To the second, though the broker says the same before and after it is old enough."""
    name = make(replicas=1)
    wait_ready(environment, name)
    edit(environment, name, replicas=0)
    wait_ready(environment, name, reason="ScaledToZero")
    within(60, lambda: not environment.get("pods", "-l", f"app.kubernetes.io/instance={name}")["items"])
    began = time.time()
    produce(environment, topic=name, count=1)
    ended = time.time()
    edit(environment, name, adminURL=ADMIN)

    def oldest() -> float | None:
        backlog = environment.get(f"{KIND}/{name}").get("status", {}).get("backlog", {})
        text = backlog.get("oldestPublishTime")
        return datetime.fromisoformat(text).timestamp() if text else None

    within(20, lambda: moving(environment, name) == ("False", "NoConsumers"))
    assert oldest() is None
    within(90, lambda: oldest() is not None)
    assert time.time() - began >= 60
    assert began - 2 <= (oldest() or 0) <= ended
    edit(environment, name, replicas=1)
    within(30, lambda: moving(environment, name) == ("True", "NoBacklog"))
    assert oldest() is None


def test_a_subscription_or_a_topic_that_is_gone_is_said(environment: Environment, make: Make) -> None:
    name = make(adminURL=ADMIN, replicas=0)
    wait_ready(environment, name, reason="ScaledToZero")
    within(30, lambda: moving(environment, name) == ("Unknown", "TopicNotFound"))
    other = make(topic=name, subscriptionName="others")
    wait_ready(environment, other)
    ask_at_once(environment, name)
    within(30, lambda: moving(environment, name) == ("Unknown", "SubscriptionNotFound"))
