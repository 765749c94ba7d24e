"""What a MyCustomResource says, compared with the list of all Pods."""

from __future__ import annotations

from typing import Any

from tests.cluster.claims.contract import COMMON, Evidence, KindClaims, Told
from tests.cluster.stack import Environment


def gather(environment: Environment, resource: dict[str, Any]) -> Evidence:
    friend = resource["spec"]["name"]
    names = [pod["metadata"]["name"] for pod in environment.get("pods", "-A")["items"]]
    there = friend in names
    return Evidence(
        conditions={"Ready": "True", "Healthy": str(there)}, facts={"friend": friend, "there": there}
    )


def _healthy(told: Told) -> None:
    assert told.status["Healthy"] is told.facts["there"]


def _friend_column(told: Told) -> None:
    assert told.cells["FRIEND"] == told.facts["friend"]


def _healthy_column(told: Told) -> None:
    assert told.cells["HEALTHY"] == str(told.facts["there"]).lower()


CLAIMS = KindClaims(
    gather=gather,
    claims={
        **COMMON,
        "status.Healthy": _healthy,
        "column Friend": _friend_column,
        "column Healthy": _healthy_column,
    },
)
