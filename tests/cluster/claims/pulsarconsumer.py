"""What a PulsarConsumer says, compared with what the broker's admin API knows of its consumers."""

from __future__ import annotations

import json
from typing import Any

from infra.components import broker
from tests.cluster.claims.contract import COMMON, Claim, Evidence, KindClaims, Told, selects
from tests.cluster.stack import Environment

STATS = "/admin/v2/persistent/public/default/{topic}/stats"


def stats(environment: Environment, topic: str) -> dict[str, Any]:
    """The broker's own word on a topic, through the API server; empty where it has none of that name."""
    service = f"/api/v1/namespaces/{broker.NAMESPACE}/services/{broker.NAME}:http/proxy"
    try:
        found: dict[str, Any] = json.loads(
            environment.kubectl("get", "--raw", service + STATS.format(topic=topic))
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
    wanted = spec.get("replicas", 1)
    return Evidence(
        conditions={
            "Ready": str(len(connected) == wanted),
            "Available": str(bool(connected)),
            "Progressing": "False",
            "Degraded": str(len(connected) != wanted),
        },
        facts={"connected": connected, "subscription": subscription, "topic": topic, "wanted": wanted},
    )


def _server(told: Told) -> None:
    """The broker that this address leads to is the one that was asked."""
    if told.facts["connected"]:
        env = _env(told)
        assert told.status["server"] == told.resource["spec"]["serverAddress"]
        assert env["PULSAR_SERVER"] == told.status["server"]


def _topic(told: Told) -> None:
    assert _env(told)["PULSAR_TOPIC"] == told.status["topic"]
    assert told.status["topic"].rpartition("/")[2] == told.facts["topic"]


def _subscription(told: Told) -> None:
    """Whoever is connected is so under this name: the broker was asked for it."""
    assert _env(told)["PULSAR_SUBSCRIPTION_NAME"] == told.status["subscription"]
    assert told.status["subscription"] == told.resource["spec"]["subscriptionName"]


def _replicas(told: Told) -> None:
    """Pods, connected or not."""
    assert told.status["replicas"] == len(_pods(told))


def _selector(told: Told) -> None:
    selects(told, _pods(told))


def _pods(told: Told) -> list[str]:
    """The names of the Pods of the Deployment's own selector."""
    meta = told.resource["metadata"]
    deployment = told.environment.get("deployment", f"{meta['name']}-deployment", "-n", meta["namespace"])
    selector = ",".join(f"{k}={v}" for k, v in deployment["spec"]["selector"]["matchLabels"].items())
    pods = told.environment.get("pods", "-n", meta["namespace"], "-l", selector)["items"]
    return [pod["metadata"]["name"] for pod in pods]


def _env(told: Told) -> dict[str, str]:
    """What the consumers were told, as their Deployment has it."""
    meta = told.resource["metadata"]
    deployment = told.environment.get("deployment", f"{meta['name']}-deployment", "-n", meta["namespace"])
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return {item["name"]: item.get("value", "") for item in container["env"]}


def _column(name: str) -> Claim:
    """It prints the field of that name, whose own claim compares it."""

    def claim(told: Told) -> None:
        assert told.cells[name.upper()] == str(told.status[name])

    return claim


CLAIMS = KindClaims(
    gather=gather,
    claims={
        **COMMON,
        "status.server": _server,
        "status.topic": _topic,
        "status.subscription": _subscription,
        "status.replicas": _replicas,
        "status.selector": _selector,
        **{
            f"column {name.capitalize()}": _column(name)
            for name in ("server", "topic", "subscription", "replicas")
        },
    },
)
