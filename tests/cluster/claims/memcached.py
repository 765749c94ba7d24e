"""What a Memcached says, compared with what each memcached answers."""

from __future__ import annotations

import re
from typing import Any

from tests.cluster.claims.contract import AVAILABLE, COMMON, Evidence, KindClaims, Told, selects
from tests.cluster.stack import Environment
from tests.cluster.test_memcached import talk


def gather(environment: Environment, resource: dict[str, Any]) -> Evidence:
    """Every Pod of the Deployment's own selector is asked, and the Service."""
    meta = resource["metadata"]
    deployment = environment.get("deployment", meta["name"], "-n", meta["namespace"])
    selector = ",".join(f"{k}={v}" for k, v in deployment["spec"]["selector"]["matchLabels"].items())
    pods = environment.get("pods", "-n", meta["namespace"], "-l", selector)["items"]
    port = resource["spec"].get("containerPort", 11211)
    answering = {}
    for pod in pods:
        said = talk(environment, pod["status"]["podIP"], port, "stats settings")
        if found := re.search(r"STAT tcpport (\d+)\r?\n", said):
            answering[f"{pod['status']['podIP']}:{found[1]}"] = pod["metadata"]["name"]
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
        facts={"servers": sorted(answering), "pods": sorted(answering.values()), "wanted": wanted},
    )


def _replicas(told: Told) -> None:
    assert told.status["replicas"] == len(told.facts["servers"])


def _servers(told: Told) -> None:
    assert sorted(told.status["serverList"]) == told.facts["servers"]


def _selector(told: Told) -> None:
    selects(told, told.facts["pods"])


def _size(told: Told) -> None:
    assert told.cells["SIZE"] == str(told.facts["wanted"])


CLAIMS = KindClaims(
    gather=gather,
    claims={
        **COMMON,
        "status.replicas": _replicas,
        "status.serverList[]": _servers,
        "status.selector": _selector,
        "column Size": _size,
        "column Available": AVAILABLE,
    },
)
