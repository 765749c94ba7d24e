"""What a MyCustomResource says, compared with the list of all Pods."""

from __future__ import annotations

from typing import Any

from tests.cluster.claims.contract import COMMON, Evidence, KindClaims, Reported
from tests.cluster.stack import Environment


def gather(environment: Environment, resource: dict[str, Any]) -> Evidence:
    friend = resource["spec"]["name"]
    names = [pod["metadata"]["name"] for pod in environment.get("pods", "-A")["items"]]
    there = friend in names
    return Evidence(
        conditions={"Ready": "True", "Healthy": str(there)}, facts={"friend": friend, "there": there}
    )


def _healthy(reported: Reported) -> None:
    assert reported.status["Healthy"] is reported.facts["there"]


def _friend_column(reported: Reported) -> None:
    assert reported.cells["FRIEND"] == reported.facts["friend"]


def _healthy_column(reported: Reported) -> None:
    assert reported.cells["HEALTHY"] == str(reported.facts["there"]).lower()


CLAIMS = KindClaims(
    gather=gather,
    claims={
        **COMMON,
        "status.Healthy": _healthy,
        "column Friend": _friend_column,
        "column Healthy": _healthy_column,
    },
)
