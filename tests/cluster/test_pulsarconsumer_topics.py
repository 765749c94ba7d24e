"""Consumers of several topics, and of those that match a pattern, on the real broker."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import pytest

from tests.cluster.claims.pulsarconsumer import stats
from tests.cluster.consumers import (
    ADMIN,
    BROKER,
    KIND,
    SAMPLE,
    Make,
    edit,
    pods,
    produce,
    python,
    wait_ready,
)
from tests.cluster.stack import Environment, within

OTHER_NAME = ADMIN.replace(".svc", ".svc.cluster.local")
"""Another name of the broker is another question, so no minute is waited for."""
FULL = "persistent://public/default/"
HANDLER = """
from pulsar_consumer.handler import Reject


def handle(message):
    text = message.data().decode()
    if "bad" in text and not message.properties().get("SENT_BACK_FROM"):
        raise Reject("bad")
    print("handled", message.topic_name().rpartition("/")[2], text)
"""


def names(prefix: str, *letters: str) -> list[str]:
    mark = os.urandom(3).hex()
    return [f"{prefix}-{mark}-{letter}" for letter in letters]


def put_admin(environment: Environment, path: str, body: str = "") -> None:
    """PUT to the broker's admin API, below the default namespace's topics."""
    url = f"{ADMIN}/admin/v2/persistent/public/default/{path}"
    program = (
        f"import urllib.request as r; r.urlopen(r.Request('{url}', data=b'{body}', method='PUT', "
        "headers={'Content-Type': 'application/json'}))"
    )
    sample = f"deployment/{SAMPLE}-deployment"
    environment.kubectl("exec", sample, "-c", "consumer", "--", "python3", "-c", program)


def handled(environment: Environment, name: str) -> list[str]:
    """TOPIC TEXT of each message, by all Pods."""
    read = ("-c", "consumer", "--tail=-1")
    logs = [environment.kubectl("logs", pod, *read) for pod in pods(environment, name)]
    lines = [line for log in logs for line in log.splitlines()]
    return sorted(line.removeprefix("handled ") for line in lines if line.startswith("handled "))


def until_handled(environment: Environment, name: str, expected: list[str], *, seconds: float) -> None:
    """Until these are all; else the test fails with what is there."""
    try:
        within(seconds, lambda: handled(environment, name) == sorted(expected))
    except AssertionError:
        # A message of each topic, and who reads it.
        topics = sorted({each.partition(" ")[0] for each in expected})
        found = [
            f"not so within {seconds} s: {sorted(expected)}",
            f"but {handled(environment, name)}",
            environment.kubectl("get", "pods", "-o", "wide", "-l", f"app.kubernetes.io/instance={name}"),
            *(environment.kubectl("logs", pod, "--all-containers") for pod in pods(environment, name)),
            *(f"{topic}: {json.dumps(stats(environment, topic))}" for topic in topics),
        ]
        raise AssertionError("\n".join(found)) from None


def backlogs(environment: Environment, topics: list[str], subscription: str = "printers") -> list[int]:
    """What the broker itself says of each."""
    found = (stats(environment, topic).get("subscriptions", {}).get(subscription, {}) for topic in topics)
    return [int(each.get("msgBacklog", -1)) for each in found]


def subscribed(environment: Environment, topics: list[str]) -> list[bool]:
    return ["printers" in stats(environment, topic).get("subscriptions", {}) for topic in topics]


def backlog(environment: Environment, name: str) -> dict[str, Any]:
    found: dict[str, Any] = environment.get(f"{KIND}/{name}")["status"].get("backlog", {})
    return found


def stop(environment: Environment, name: str) -> None:
    """Until no consumer is there that would take messages still."""
    edit(environment, name, replicas=0)
    wait_ready(environment, name, reason="ScaledToZero")
    within(60, lambda: not environment.get("pods", "-l", f"app.kubernetes.io/instance={name}")["items"])


def test_several_topics_are_read_counted_redriven_and_unsubscribed(
    environment: Environment, make: Make, put: Callable[[str], str]
) -> None:
    first, second, third = topics = names("several", "a", "b", "c")
    [dead] = names("dead", "d")
    name = make(
        topic=None, topics=[first, f"{FULL}{second}", third], adminURL=ADMIN, replicas=2,
        handler=python(put(HANDLER)), deadLetter={"topic": dead}, deletionPolicy="Unsubscribe",
    )  # fmt: skip
    wait_ready(environment, name)
    assert subscribed(environment, topics) == [True] * 3
    label = f"{first}, {FULL}{second}, {third}"
    status = environment.get(f"{KIND}/{name}")["status"]
    assert status["topic"] == label
    assert status["subscriptions"] == [
        {"topic": topic, "subscription": "printers"} for topic in (first, f"{FULL}{second}", third)
    ]
    for topic in topics:
        produce(environment, topic=topic, count=3, message="good")
    expected = [f"{topic} good {number}" for topic in topics for number in (1, 2, 3)]
    until_handled(environment, name, expected, seconds=30)

    produce(environment, topic=second, count=1, message="bad")
    pod = pods(environment, name)[0]
    module = ("exec", pod, "-c", "consumer", "--", "python3", "-m", "pulsar_consumer.dead_letters")
    [letter, _] = [json.loads(line) for line in environment.kubectl(*module, "list").splitlines()]
    assert letter["topic"] == f"{FULL}{second}"
    end = json.loads(environment.kubectl(*module, "redrive").splitlines()[-1])
    assert end == {"found": 1, "sent": 1}
    until_handled(environment, name, [*expected, f"{second} bad"], seconds=30)

    stop(environment, name)
    for topic, count in zip(topics, (2, 3, 4), strict=True):
        produce(environment, topic=topic, count=count, message="waits")
    assert backlogs(environment, topics) == [2, 3, 4]
    edit(environment, name, adminURL=OTHER_NAME)
    within(30, lambda: backlog(environment, name).get("messages") == sum(backlogs(environment, topics)) == 9)
    said = backlog(environment, name)
    assert (said["topic"], said["topics"], said["consumers"]) == (label, 3, 0)

    environment.kubectl("delete", f"{KIND}/{name}", "--timeout=90s")
    assert subscribed(environment, topics) == [False] * 3


def test_a_replay_sets_every_topic_back_once(
    environment: Environment, make: Make, put: Callable[[str], str]
) -> None:
    """Nothing that was acknowledged is retained here, so the replay skips: all that waits, in each topic."""
    topics = names("replayed", "a", "b", "c")
    name = make(topic=None, topics=topics, adminURL=ADMIN, handler=python(put(HANDLER)))
    wait_ready(environment, name)
    stop(environment, name)
    for topic in topics:
        produce(environment, topic=topic, count=2, message="skipped")
    assert backlogs(environment, topics) == [2] * 3
    edit(environment, name, replay={"from": "2100-01-01T00:00:00Z"})
    environment.kubectl("wait", "--for=condition=Replayed", f"{KIND}/{name}", "--timeout=60s")
    assert backlogs(environment, topics) == [0] * 3
    said = environment.get(f"{KIND}/{name}")["status"]["replay"]
    assert (said["from"], sorted(said)) == ("2100-01-01T00:00:00Z", ["at", "from"])


def test_topics_by_a_pattern_are_read_also_one_that_is_made_later(
    environment: Environment, make: Make, put: Callable[[str], str]
) -> None:
    first, second, later, other = names("orders", "eu", "us", "eu2", "ca")
    prefix = first.removesuffix("-eu")
    for topic, count in ((first, 2), (other, 1)):
        produce(environment, topic=topic, count=count, message="early")
        # Or the broker deletes it, should the consumer take a minute to start.
        put_admin(environment, f"{topic}/subscription/kept")
    put_admin(environment, f"{second}/partitions", "2")
    pattern = f"{FULL}{prefix}-(eu|us)[0-9]?"
    name = make(
        topic=None, topicsPattern=pattern, adminURL=ADMIN, handler=python(put(HANDLER)),
        deletionPolicy="Unsubscribe", serverAddress=BROKER,
    )  # fmt: skip
    wait_ready(environment, name)
    expected = [f"{first} early 1", f"{first} early 2"]
    until_handled(environment, name, expected, seconds=30)
    within(90, lambda: backlog(environment, name).get("topics") == 2)
    status = environment.get(f"{KIND}/{name}")["status"]
    assert (status["topic"], status["backlog"]["consumers"]) == (pattern, 1)
    assert status["subscriptions"] == [{"topicsPattern": pattern, "subscription": "printers"}]

    produce(environment, topic=later, count=1, message="good")
    expected.append(f"{later} good")
    until_handled(environment, name, expected, seconds=45)  # 15 s, and this machine's
    assert subscribed(environment, [first, later, other]) == [True, True, False]

    stop(environment, name)
    produce(environment, topic=later, count=2, message="waits")
    edit(environment, name, adminURL=OTHER_NAME)
    assert backlogs(environment, [first, later]) == [0, 2]
    within(90, lambda: backlog(environment, name).get("messages") == 2)
    assert backlog(environment, name)["topics"] == 3
    environment.kubectl("delete", f"{KIND}/{name}", "--timeout=90s")
    assert subscribed(environment, [first, later]) == [False, False]
    assert stats(environment, second, partitioned=True)["subscriptions"] == {}


@pytest.mark.thorough
def test_the_broker_deletes_a_new_topic_that_nobody_reads(environment: Environment) -> None:
    """So new topics are looked for more often than once a minute, and the guide says what nobody reads."""
    [topic] = names("unread", "a")
    produce(environment, topic=topic, count=1, message="lost")
    assert stats(environment, topic)["msgInCounter"] == 1
    took = within(180, lambda: not stats(environment, topic))
    assert took > 30
