"""What a Memcached says, compared with what each memcached answers."""

from __future__ import annotations

import re
from collections import Counter
from datetime import datetime
from typing import Any

from tests.cluster.claims.contract import AVAILABLE, COMMON, Claim, Evidence, KindClaims, Reported, selects
from tests.cluster.claims.served import certificate_of
from tests.cluster.secured_caches import Way, way_of
from tests.cluster.stack import Environment
from tests.cluster.test_memcached import talk

END = "kindling_memcached_certificate_expiration_timestamp_seconds"


def gather(environment: Environment, resource: dict[str, Any]) -> Evidence:
    """Every Pod of the workload's own selector is asked, as its clients are let in."""
    meta, stateful = resource["metadata"], resource["spec"].get("workload") == "StatefulSet"
    kind = "statefulset" if stateful else "deployment"
    workload = environment.get(kind, meta["name"], "-n", meta["namespace"])
    selector = ",".join(f"{k}={v}" for k, v in workload["spec"]["selector"]["matchLabels"].items())
    pods = environment.get("pods", "-n", meta["namespace"], "-l", selector)["items"]
    port = resource["spec"].get("containerPort", 11211)
    answering = {}
    counters: Counter[str] = Counter()
    way = way_of(resource)
    certificates = [
        certificate_of(environment, pod["metadata"]["name"], meta["namespace"], port=port)
        for pod in pods
        if way.ca
    ]
    for pod in pods:
        name = pod["metadata"]["name"]
        # By its name where it has one, which is resolved in the client's Pod.
        host = f"{name}.{meta['name']}.{meta['namespace']}.svc" if stateful else pod["status"]["podIP"]
        said = _ask(environment, way, host, port)
        if found := re.search(r"STAT tcpport (\d+)\r?\n", said):
            answering[f"{host}:{found[1]}"] = name
        counters.update({name: int(value) for name, value in re.findall(r"STAT (\w+) (\d+)\r?\n", said)})
    endpoint = None
    if resource["spec"].get("discovery"):
        endpoint = f"{meta['name']}-discovery.{meta['namespace']}.svc:11211"
    wanted = resource["spec"].get("size", 1)
    complete = len(answering) == len(pods) == wanted
    return Evidence(
        conditions={
            "Ready": str(complete),
            "Available": str(bool(answering)),
            "Progressing": str(not complete),
            "Degraded": "False",
        },
        figures=frozenset({str(len(answering)), str(wanted)}),
        facts={
            "servers": sorted(answering),
            "pods": sorted(answering.values()),
            "wanted": wanted,
            "counters": counters,
            "asked": bool(resource["spec"].get("statistics")),
            "bound": way.bound,
            "endpoint": endpoint,
            "discovered": _discovered(environment, endpoint) if endpoint else [],
            "certificates": certificates,
            "valid_until": _valid_until(environment, resource),
        },
    )


def _ask(environment: Environment, way: Way, host: str, port: int) -> str:
    if way.bound:
        return way.talk(environment, host, port, "stats settings", "stats")
    return talk(environment, host, port, "stats settings", "stats")


def _discovered(environment: Environment, endpoint: str) -> list[str]:
    """HOST:PORT of each cache, as the endpoint gives them."""
    host, _, port = endpoint.rpartition(":")
    said = talk(environment, host, int(port), "config get cluster")
    nodes = said.split("\n")[2].split()
    return [f"{name}:{number}" for name, _, number in (node.split("|") for node in nodes)]


def _valid_until(environment: Environment, resource: dict[str, Any]) -> str | None:
    """Of the password before, by the Secret that the caches read."""
    meta = resource["metadata"]
    if not resource["spec"].get("auth", {}).get("enabled"):
        return None
    found = environment.get("secret", f"{meta['name']}-auth", "-n", meta["namespace"])
    value: str = found["metadata"]["annotations"]["kindling.dev/previous-valid-until"]
    return value or None


def _replicas(reported: Reported) -> None:
    assert reported.status["replicas"] == len(reported.facts["servers"])


def _servers(reported: Reported) -> None:
    assert sorted(reported.status["serverList"]) == reported.facts["servers"]


def _selector(reported: Reported) -> None:
    selects(reported, reported.facts["pods"])


def _statistics(reported: Reported) -> dict[str, Any]:
    """Empty where they are not asked for. All ready caches have answered, for all are awaited."""
    found: dict[str, Any] = reported.status.get("statistics", {})
    assert bool(found) == reported.facts["asked"]
    return found


def _asked(reported: Reported) -> None:
    if found := _statistics(reported):
        assert found["servers"] == len(reported.facts["servers"])


def _message(reported: Reported) -> None:
    assert "message" not in _statistics(reported)


def _count(field: str, counter: str) -> Claim:
    """The first two digits of what the caches count, as they are written; the rest of them is 0."""

    def claim(reported: Reported) -> None:
        if found := _statistics(reported):
            real = str(reported.facts["counters"][counter])
            assert str(found[field]) == real[:2] + "0" * len(real[2:])

    return claim


def _ratio(reported: Reported) -> str:
    counters = reported.facts["counters"]
    reads = counters["get_hits"] + counters["get_misses"]
    return str(counters["get_hits"] * 100 // reads) if reported.facts["asked"] and reads else ""


def _hit_ratio(reported: Reported) -> None:
    assert str(_statistics(reported).get("hitRatioPercent", "")) == _ratio(reported)


def _hit_ratio_column(reported: Reported) -> None:
    assert reported.cells["HITRATIO"] == _ratio(reported)


def _binding(reported: Reported) -> None:
    """The evidence was had with it."""
    name = reported.resource["metadata"]["name"]
    bound = reported.facts["bound"]
    assert reported.status.get("binding") == ({"name": f"{name}-binding"} if bound else None)


def _discovery(reported: Reported) -> None:
    """Who asks there, over the cluster's DNS, is given the very list."""
    assert reported.status.get("discovery", {}).get("endpoint") == reported.facts["endpoint"]
    assert sorted(reported.facts["discovered"]) == sorted(
        reported.status["serverList"] if reported.facts["endpoint"] else []
    )


def _tls(reported: Reported) -> None:
    """What any client is shown; of several, the first that ends."""
    said, shown = reported.status.get("tls"), reported.facts["certificates"]
    assert bool(said) == bool(shown)
    if said:
        first = min(shown, key=lambda each: each.not_valid_after_utc)
        assert datetime.fromisoformat(said["notAfter"]) == first.not_valid_after_utc
        assert said["issuer"] == first.issuer.rfc4514_string()


def _end_metric(reported: Reported) -> None:
    ends = [each.not_valid_after_utc.timestamp() for each in reported.facts["certificates"]]
    assert reported.metrics.get(END) == min(ends, default=None)


def _previous(reported: Reported) -> None:
    said = reported.status.get("auth") or {}
    assert said.get("previousValidUntil") == reported.facts["valid_until"]


def _size(reported: Reported) -> None:
    assert reported.cells["SIZE"] == str(reported.facts["wanted"])


CLAIMS = KindClaims(
    gather=gather,
    claims={
        **COMMON,
        "status.replicas": _replicas,
        "status.serverList[]": _servers,
        "status.selector": _selector,
        "status.binding.name": _binding,
        "status.discovery.endpoint": _discovery,
        "status.tls.notAfter": _tls,
        "status.tls.issuer": _tls,
        "status.auth.previousValidUntil": _previous,
        "status.statistics.servers": _asked,
        "status.statistics.hitRatioPercent": _hit_ratio,
        "status.statistics.items": _count("items", "curr_items"),
        "status.statistics.bytes": _count("bytes", "bytes"),
        "status.statistics.evictions": _count("evictions", "evictions"),
        "status.statistics.message": _message,
        "column HitRatio": _hit_ratio_column,
        "column Size": _size,
        "column Available": AVAILABLE,
    },
    metrics={END: _end_metric},
)
