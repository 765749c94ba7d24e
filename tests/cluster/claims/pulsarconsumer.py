"""What a PulsarConsumer says, compared with what the broker's admin API knows of its consumers."""

from __future__ import annotations

import json
import re
import time
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import Any

from infra.components import broker
from tests.cluster.claims.contract import COMMON, Claim, Evidence, KindClaims, Reported, selects
from tests.cluster.stack import Environment

BACKLOG = ("messages", "unacknowledged", "consumers")
STATS = "/admin/v2/persistent/public/default/{topic}/{kind}?getEarliestTimeInBacklog=true"


def stats(environment: Environment, topic: str, *, partitioned: bool = False) -> dict[str, Any]:
    """The broker's own word on a topic, through the API server; empty where it has none of that name."""
    kind = "partitioned-stats" if partitioned else "stats"
    service = f"/api/v1/namespaces/{broker.NAMESPACE}/services/{broker.NAME}:http/proxy"
    try:
        found: dict[str, Any] = json.loads(
            environment.kubectl("get", "--raw", service + STATS.format(topic=topic, kind=kind))
        )
    except AssertionError as error:
        if "NotFound" in str(error):
            return {}
        raise
    return found


def gather(environment: Environment, resource: dict[str, Any]) -> Evidence:
    spec, meta = resource["spec"], resource["metadata"]
    topic = spec["topic"].rpartition("/")[2]
    subscription = stats(environment, topic).get("subscriptions", {}).get(spec["subscriptionName"], {})
    pods = environment.get("pods", "-n", meta["namespace"])["items"]
    mine = {pod["status"].get("podIP"): pod for pod in pods}
    # The broker names each connection by its address; only those from this resource's Pods count.
    names = [
        mine[ip]["metadata"]["name"]
        for consumer in subscription.get("consumers", [])
        if (ip := consumer["address"].lstrip("/").rpartition(":")[0]) in mine
    ]
    connected = sorted({name for name in names if name.startswith(f"{meta['name']}-deployment-")})
    wanted = _wanted(spec, subscription)
    handled = _handled(environment, resource, connected) if spec.get("handler") else None
    well = len(connected) == wanted and not (handled and handled["poison"])
    return Evidence(
        conditions={
            "Ready": str(well),
            "Available": str(bool(connected)),
            "Progressing": "False",
            "Degraded": str(not well),
            **({"BacklogMoving": _moving(subscription)} if spec.get("adminURL") else {}),
            # What comes again, tests/cluster/test_pulsarconsumer_secured.py counts.
            **({"Replayed": "True"} if spec.get("replay") else {}),
        },
        figures=frozenset(re.findall(r"\d+", " ".join(handled["poison"]))) if handled else frozenset(),
        facts={
            "connected": connected,
            "subscription": subscription,
            "topic": topic,
            "wanted": wanted,
            "handled": handled,
        },
    )


AGE = timedelta(seconds=130)
"""A consumer is asked once a minute, and what it says is written once a minute."""
_CALL = re.compile(r"^(\S+) call ([0-9.]+)$")
_FAILED = re.compile(r"message (\S+), delivery (\d+): (\w+): .*; again in ")


def _handled(environment: Environment, resource: dict[str, Any], pods: list[str]) -> dict[str, Any]:
    """What the log says of a handler that prints `call SECONDS` for each of its calls: how many there were in
    the last five minutes, what failed, and which messages failed so often that they are given up; and the
    slowest call so far, at each moment that the status may speak of.
    """
    spec, namespace = resource["spec"], resource["metadata"]["namespace"]
    lines = [
        line
        for pod in pods
        for line in environment.kubectl(
            "logs", pod, "-c", "consumer", "-n", namespace, "--since=5m", "--tail=-1", "--timestamps"
        ).splitlines()
    ]
    calls = sorted((ended, float(seconds)) for line in lines for ended, seconds in _CALL.findall(line))
    slowest = list(accumulate((seconds for _, seconds in calls), max))
    since = f"{datetime.now(UTC) - AGE:%Y-%m-%dT%H:%M:%S}"
    first = max(0, sum(ended < since for ended, _ in calls) - 1)
    failures = [found.groups() for line in lines if (found := _FAILED.search(line))]
    most = int(spec.get("retry", {}).get("maxDeliveries", 5))
    return {
        "calls": len(calls),
        "slowest": slowest[first:],
        "failures": failures,
        "poison": {id: error for id, delivery, error in failures if int(delivery) >= most},
    }


def _calls(name: str) -> Claim:
    """A minute and a tenth old at most: by then, one message that fails was tried few times more."""

    def claim(reported: Reported) -> None:
        handled, said = reported.facts["handled"], reported.status.get("handler")
        assert bool(said) == bool(handled)
        if not (said and handled):
            return
        if name == "consumers":
            assert said[name] == len(reported.facts["connected"])
        elif name == "p99Milliseconds":
            # Of a hundred calls or fewer it is the slowest, timed from outside: a busy machine adds to it.
            found = said[name] / 1000
            assert any(0.86 * real <= found <= 1.22 * real + 0.1 for real in handled["slowest"]), handled
        elif name == "lastChangedTime":
            made = datetime.fromisoformat(reported.resource["metadata"]["creationTimestamp"])
            assert made <= datetime.fromisoformat(said[name]) <= datetime.now(UTC) + timedelta(seconds=2)
        else:
            real = handled["calls"] if name == "calls" else len(handled["failures"])
            assert abs(said[name] - real) <= max(4, real / 5), (said, real)

    return claim


def _poison(name: str) -> Claim:
    def claim(reported: Reported) -> None:
        handled, said = (
            reported.facts["handled"],
            reported.status.get("handler", {}).get("poisonMessages", []),
        )
        poison = handled["poison"] if handled else {}
        assert {each["id"]: each["error"] for each in said} == poison
        for each in said:
            made = datetime.fromisoformat(reported.resource["metadata"]["creationTimestamp"])
            assert made <= datetime.fromisoformat(each["since"]) <= datetime.now(UTC) - timedelta(seconds=60)
            assert each["topic"] == f"persistent://public/default/{reported.facts['topic']}", name

    return claim


def _wanted(spec: dict[str, Any], subscription: dict[str, Any]) -> int:
    """How many consumers there are to be, of a subscription at rest."""
    scaling = spec.get("autoscaling")
    if scaling is None:
        return int(spec.get("replicas", 1))
    waiting = -(-int(subscription["msgBacklog"]) // int(scaling["targetBacklog"]))
    return min(int(scaling["max"]), max(int(scaling.get("min", 0)), waiting))


def _replayed(reported: Reported) -> None:
    wanted, said = reported.resource["spec"].get("replay"), reported.status.get("replay")
    assert bool(said) == bool(wanted)
    if said and wanted:
        assert said["from"] == wanted["from"]
        made = datetime.fromisoformat(reported.resource["metadata"]["creationTimestamp"])
        assert made <= datetime.fromisoformat(said["at"]) <= datetime.now(UTC) + timedelta(seconds=2)
        assert "topic" not in said, "of one topic none is to come"


def _scaled(name: str) -> Claim:
    """Of a subscription at rest: as many as wait, and nothing asks for fewer."""

    def claim(reported: Reported) -> None:
        spec, said = reported.resource["spec"], reported.status.get("autoscaling", {})
        asked = "autoscaling" in spec and not name.startswith("lower")
        assert (name in said) == asked
        if asked and name == "replicas":
            assert said[name] == len(reported.facts["connected"]) == reported.facts["wanted"]
        elif asked:
            made = datetime.fromisoformat(reported.resource["metadata"]["creationTimestamp"])
            assert made <= datetime.fromisoformat(said[name]) <= datetime.now(UTC) + timedelta(seconds=2)

    return claim


def _moving(subscription: dict[str, Any]) -> str:
    """Of a subscription that is not stuck: that takes five minutes."""
    if not subscription:
        return "Unknown"
    return str(not subscription["msgBacklog"] or bool(subscription["consumers"]))


def _figures(subscription: dict[str, Any]) -> dict[str, int]:
    """What the broker says, with two digits."""
    reported = {
        "messages": subscription["msgBacklog"],
        "unacknowledged": subscription["unackedMessages"],
        "consumers": len(subscription["consumers"]),
    }
    return {name: int(str(value)[:2] + "0" * (len(str(value)) - 2)) for name, value in reported.items()}


def _backlog(name: str) -> Claim:
    def claim(reported: Reported) -> None:
        subscription, said = reported.facts["subscription"], reported.status.get("backlog")
        asked = reported.resource["spec"].get("adminURL") and subscription
        assert (said or {}).get(name) == (_figures(subscription)[name] if asked else None)
        assert reported.metrics.get(f"kindling_pulsarconsumer_backlog_{name}") == (said or {}).get(name)

    return claim


def _about(name: str, field: str) -> Claim:
    """What the broker was asked about here, too, to compare the figures."""

    def claim(reported: Reported) -> None:
        spec, said = reported.resource["spec"], reported.status.get("backlog")
        assert said is None or said[name] == spec[field]

    return claim


def _of_several(reported: Reported) -> None:
    """tests/cluster/test_pulsarconsumer_topics.py has those that read several topics."""
    assert "topics" not in reported.status.get("backlog", {})


def _time(name: str) -> Claim:
    """Not before there was such a resource, and not later than now."""

    def claim(reported: Reported) -> None:
        backlog = reported.status.get("backlog", {})
        wanted = bool(backlog.get("messages")) if name == "since" else bool(backlog)
        assert (name in backlog) == wanted
        if wanted:
            made = datetime.fromisoformat(reported.resource["metadata"]["creationTimestamp"])
            assert made <= datetime.fromisoformat(backlog[name]) <= datetime.now(UTC) + timedelta(seconds=2)

    return claim


def _oldest(reported: Reported) -> None:
    """To two digits of its age, and a minute old at most, as the answer is."""
    said = reported.status.get("backlog", {}).get("oldestPublishTime")
    real = reported.facts["subscription"].get("earliestMsgPublishTimeInBacklog", 0) / 1000
    age, now = time.time() - real, time.time()
    if said is None:
        assert real <= 0 or age < 150
    else:
        moment = datetime.fromisoformat(said).timestamp()
        assert abs(now - moment - age) <= max(75, age / 10)
    metric = reported.metrics.get("kindling_pulsarconsumer_backlog_oldest_timestamp_seconds")
    assert metric == (datetime.fromisoformat(said).timestamp() if said else None)


def _recorded(name: str) -> Claim:
    """Each is one that the broker has."""

    def claim(reported: Reported) -> None:
        spec, said = reported.resource["spec"], reported.status.get("subscriptions")
        assert bool(said) == (spec.get("deletionPolicy") == "Unsubscribe")
        for entry in said or ():
            assert "topicsPattern" not in entry
            topic = entry["topic"].rpartition("/")[2]
            known = stats(reported.environment, topic).get("subscriptions", {})
            assert entry["subscription"] in known, f"{name}: {entry}"

    return claim


def _stuck(reported: Reported) -> None:
    wanted = 0.0 if reported.resource["spec"].get("adminURL") and reported.facts["subscription"] else None
    assert reported.metrics.get("kindling_pulsarconsumer_backlog_stuck") == wanted


def _backlog_column(reported: Reported) -> None:
    said = reported.status.get("backlog", {}).get("messages")
    assert reported.cells["BACKLOG"] in ((str(said),) if said is not None else ("", "<none>"))


def _server(reported: Reported) -> None:
    """The broker that this address leads to is the one that was asked."""
    if reported.facts["connected"]:
        env = _env(reported)
        assert reported.status["server"] == reported.resource["spec"]["serverAddress"]
        assert env["PULSAR_SERVER"] == reported.status["server"]


def _topic(reported: Reported) -> None:
    assert _env(reported)["PULSAR_TOPIC"] == reported.status["topic"]
    assert reported.status["topic"].rpartition("/")[2] == reported.facts["topic"]


def _subscription(reported: Reported) -> None:
    """Whoever is connected is so under this name: the broker was asked for it."""
    assert _env(reported)["PULSAR_SUBSCRIPTION_NAME"] == reported.status["subscription"]
    assert reported.status["subscription"] == reported.resource["spec"]["subscriptionName"]


def _replicas(reported: Reported) -> None:
    """Pods, connected or not."""
    assert reported.status["replicas"] == len(_pods(reported))


def _selector(reported: Reported) -> None:
    selects(reported, _pods(reported))


def _pods(reported: Reported) -> list[str]:
    """The names of the Pods of the Deployment's own selector."""
    meta = reported.resource["metadata"]
    deployment = reported.environment.get("deployment", f"{meta['name']}-deployment", "-n", meta["namespace"])
    selector = ",".join(f"{k}={v}" for k, v in deployment["spec"]["selector"]["matchLabels"].items())
    pods = reported.environment.get("pods", "-n", meta["namespace"], "-l", selector)["items"]
    return [pod["metadata"]["name"] for pod in pods]


def _env(reported: Reported) -> dict[str, str]:
    """What the consumers were reported, as their Deployment has it."""
    meta = reported.resource["metadata"]
    deployment = reported.environment.get("deployment", f"{meta['name']}-deployment", "-n", meta["namespace"])
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return {item["name"]: item.get("value", "") for item in container["env"]}


def _column(name: str) -> Claim:
    """It prints the field of that name, whose own claim compares it."""

    def claim(reported: Reported) -> None:
        assert reported.cells[name.upper()] == str(reported.status[name])

    return claim


CLAIMS = KindClaims(
    gather=gather,
    metrics={
        **{f"kindling_pulsarconsumer_backlog_{name}": _backlog(name) for name in BACKLOG},
        "kindling_pulsarconsumer_backlog_stuck": _stuck,
        "kindling_pulsarconsumer_backlog_oldest_timestamp_seconds": _oldest,
    },
    claims={
        **COMMON,
        "status.server": _server,
        "status.topic": _topic,
        "status.subscription": _subscription,
        "status.replicas": _replicas,
        "status.selector": _selector,
        **{f"status.subscriptions[].{name}": _recorded(name) for name in ("topic", "subscription")},
        "status.subscriptions[].topicsPattern": _recorded("topicsPattern"),
        **{
            f"status.handler.{name}": _calls(name)
            for name in ("consumers", "calls", "failures", "p99Milliseconds", "lastChangedTime")
        },
        **{
            f"status.handler.poisonMessages[].{name}": _poison(name)
            for name in ("id", "topic", "error", "since")
        },
        "status.backlog.topics": _of_several,
        "status.backlog.topic": _about("topic", "topic"),
        "status.backlog.subscription": _about("subscription", "subscriptionName"),
        **{f"status.backlog.{name}": _backlog(name) for name in BACKLOG},
        **{f"status.backlog.{name}": _time(name) for name in ("lastChangedTime", "since")},
        "status.backlog.oldestPublishTime": _oldest,
        "column Backlog": _backlog_column,
        **{
            f"status.autoscaling.{name}": _scaled(name)
            for name in ("replicas", "lastScaleTime", "lowerSince", "lowerReplicas")
        },
        **{f"status.replay.{name}": _replayed for name in ("from", "at", "topic")},
        **{
            f"column {name.capitalize()}": _column(name)
            for name in ("server", "topic", "subscription", "replicas")
        },
    },
)
