"""A claim: a place in a status or a printer column, and the check that compares it with the thing itself.

A kind gathers evidence once for each resource (`Evidence`), from the programs and never from the resource;
its claims then compare. The claims that all kinds make alike, conditions above all, stand here.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tests.cluster.stack import ROOT, Environment

_FIGURE = re.compile(r"(?<![\w.:/-])\d+(?:\.\d+)?(?![\w/-]|\.\d)")
_COMMAND = re.compile(r"`(kubectl (?:get|describe|logs) [^`]*)`")
GUIDES = "\n".join(path.read_text() for path in sorted((ROOT / "docs").rglob("*.md")))


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What the thing itself says.

    `conditions` holds the truth of each condition that the kind promises, by its type, as "True" or "False".
    `figures` are the numbers that a message may name, as they are printed. `facts` are the kind's own.
    """

    conditions: Mapping[str, str]
    figures: frozenset[str] = frozenset()
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Reported:
    """What a resource says, beside the evidence; `cells` is what `kubectl get -o wide` prints, by column.

    `metrics` are the values of its series that the operator serves, and `reason` is their label of that name.
    """

    environment: Environment
    resource: dict[str, Any]
    cells: Mapping[str, str]
    metrics: Mapping[str, float]
    reason: str
    evidence: Evidence

    @property
    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.resource["status"]
        return found

    @property
    def facts(self) -> Mapping[str, Any]:
        return self.evidence.facts


Claim = Callable[[Reported], None]


@dataclass(frozen=True, kw_only=True)
class KindClaims:
    """How a kind's evidence is gathered, and its claims by their place: `status.replicas`, `column Size`.

    `metrics` are those of its own metrics, by their name; COMMON_METRICS has the others.
    """

    gather: Callable[[Environment, dict[str, Any]], Evidence]
    claims: Mapping[str, Claim]
    metrics: Mapping[str, Claim] = field(default_factory=dict)


def places(crd: dict[str, Any]) -> Iterator[str]:
    """Every leaf of a CRD's status, and every printer column but NAME."""
    version = crd["spec"]["versions"][0]
    yield from _leaves(version["schema"]["openAPIV3Schema"]["properties"]["status"], "status")
    yield from (f"column {column['name']}" for column in version["additionalPrinterColumns"])


def _leaves(schema: dict[str, Any], place: str) -> Iterator[str]:
    if schema.get("type") == "array":
        yield from _leaves(schema["items"], f"{place}[]")
    elif schema.get("properties"):
        for name, inner in schema["properties"].items():
            yield from _leaves(inner, f"{place}.{name}")
    else:
        yield place


def conditions_of(reported: Reported) -> dict[str, dict[str, Any]]:
    return {item["type"]: item for item in reported.status["conditions"]}


def _types(reported: Reported) -> None:
    types = [item["type"] for item in reported.status["conditions"]]
    assert len(types) == len(set(types))
    assert set(reported.evidence.conditions) <= set(types)


def _truths(reported: Reported) -> None:
    said = {type: item["status"] for type, item in conditions_of(reported).items()}
    assert {type: said[type] for type in reported.evidence.conditions} == reported.evidence.conditions


def _reasons(reported: Reported) -> None:
    """Each is explained where a user looks for it."""
    for item in reported.status["conditions"]:
        assert f"`{item['reason']}`" in GUIDES, item["reason"]


def _messages(reported: Reported) -> None:
    """Each figure is true, and each command that looks works as it is printed."""
    for item in reported.status["conditions"]:
        assert set(_FIGURE.findall(item["message"])) <= reported.evidence.figures, item["message"]
        for command in _COMMAND.findall(item["message"]):
            reported.environment.kubectl(*shlex.split(command)[1:])


def _generation(reported: Reported) -> None:
    assert reported.status["observedGeneration"] == reported.resource["metadata"]["generation"]


def _generations(reported: Reported) -> None:
    for item in reported.status["conditions"]:
        assert item["observedGeneration"] == reported.resource["metadata"]["generation"]


def _times(reported: Reported) -> None:
    made = datetime.fromisoformat(reported.resource["metadata"]["creationTimestamp"])
    for item in reported.status["conditions"]:
        assert made <= datetime.fromisoformat(item["lastTransitionTime"]) <= datetime.now(UTC)


def _age(reported: Reported) -> None:
    """kubectl's own rounding: seconds below two minutes, then minutes with seconds, then minutes."""
    made = datetime.fromisoformat(reported.resource["metadata"]["creationTimestamp"])
    units = {"d": 86400, "h": 3600, "m": 60, "s": 1}
    parts = re.findall(r"(\d+)([dhms])", reported.cells["AGE"])
    said = sum(int(number) * units[unit] for number, unit in parts)
    real = (datetime.now(UTC) - made).total_seconds()
    smallest = units[parts[-1][1]]
    assert -60 <= real - said <= smallest + 60


def _truth_column(type: str) -> Claim:
    def claim(reported: Reported) -> None:
        assert reported.cells[type.upper()] == reported.evidence.conditions[type]

    return claim


def _reason_column(reported: Reported) -> None:
    assert reported.cells["REASON"] == conditions_of(reported)["Ready"]["reason"]


def _ready_metric(reported: Reported) -> None:
    assert reported.metrics["kindling_resource_ready"] == float(
        reported.evidence.conditions["Ready"] == "True"
    )


def _reason_metric(reported: Reported) -> None:
    assert reported.metrics["kindling_resource_ready_reason"] == 1
    assert reported.reason == conditions_of(reported)["Ready"]["reason"]


def selects(reported: Reported, names: list[str]) -> None:
    """What an autoscaler counts by status.selector are the very Pods of these names."""
    namespace = reported.resource["metadata"]["namespace"]
    pods = reported.environment.get("pods", "-n", namespace, "-l", reported.status["selector"])["items"]
    assert sorted(pod["metadata"]["name"] for pod in pods) == sorted(names)


COMMON: dict[str, Claim] = {
    "status.observedGeneration": _generation,
    "status.conditions[].type": _types,
    "status.conditions[].status": _truths,
    "status.conditions[].reason": _reasons,
    "status.conditions[].message": _messages,
    "status.conditions[].observedGeneration": _generations,
    "status.conditions[].lastTransitionTime": _times,
    "column Ready": _truth_column("Ready"),
    "column Reason": _reason_column,
    "column Age": _age,
}
COMMON_METRICS: dict[str, Claim] = {
    "kindling_resource_ready": _ready_metric,
    "kindling_resource_ready_reason": _reason_metric,
}
AVAILABLE = _truth_column("Available")
"""For kinds with a column of that name."""
