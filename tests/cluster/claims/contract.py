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
_GUIDES = "\n".join(path.read_text() for path in sorted((ROOT / "docs").rglob("*.md")))


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
class Told:
    """What a resource says, beside the evidence; `cells` is what `kubectl get -o wide` prints, by column."""

    environment: Environment
    resource: dict[str, Any]
    cells: Mapping[str, str]
    evidence: Evidence

    @property
    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.resource["status"]
        return found

    @property
    def facts(self) -> Mapping[str, Any]:
        return self.evidence.facts


Claim = Callable[[Told], None]


@dataclass(frozen=True, kw_only=True)
class KindClaims:
    """How a kind's evidence is gathered, and its claims by their place: `status.replicas`, `column Size`."""

    gather: Callable[[Environment, dict[str, Any]], Evidence]
    claims: Mapping[str, Claim]


def places(crd: dict[str, Any]) -> Iterator[str]:
    """Every leaf of a CRD's status, and every printer column but NAME."""
    (version,) = crd["spec"]["versions"]
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


def conditions_of(told: Told) -> dict[str, dict[str, Any]]:
    return {item["type"]: item for item in told.status["conditions"]}


def _types(told: Told) -> None:
    types = [item["type"] for item in told.status["conditions"]]
    assert len(types) == len(set(types))
    assert set(told.evidence.conditions) <= set(types)


def _truths(told: Told) -> None:
    said = {type: item["status"] for type, item in conditions_of(told).items()}
    assert {type: said[type] for type in told.evidence.conditions} == told.evidence.conditions


def _reasons(told: Told) -> None:
    """Each is explained where a user looks for it."""
    for item in told.status["conditions"]:
        assert f"`{item['reason']}`" in _GUIDES, item["reason"]


def _messages(told: Told) -> None:
    """Each figure is true, and each command that looks works as it is printed."""
    for item in told.status["conditions"]:
        assert set(_FIGURE.findall(item["message"])) <= told.evidence.figures, item["message"]
        for command in _COMMAND.findall(item["message"]):
            told.environment.kubectl(*shlex.split(command)[1:])


def _generation(told: Told) -> None:
    assert told.status["observedGeneration"] == told.resource["metadata"]["generation"]


def _generations(told: Told) -> None:
    for item in told.status["conditions"]:
        assert item["observedGeneration"] == told.resource["metadata"]["generation"]


def _times(told: Told) -> None:
    made = datetime.fromisoformat(told.resource["metadata"]["creationTimestamp"])
    for item in told.status["conditions"]:
        assert made <= datetime.fromisoformat(item["lastTransitionTime"]) <= datetime.now(UTC)


def _age(told: Told) -> None:
    """kubectl's own rounding: seconds below two minutes, then minutes with seconds, then minutes."""
    made = datetime.fromisoformat(told.resource["metadata"]["creationTimestamp"])
    units = {"d": 86400, "h": 3600, "m": 60, "s": 1}
    parts = re.findall(r"(\d+)([dhms])", told.cells["AGE"])
    said = sum(int(number) * units[unit] for number, unit in parts)
    real = (datetime.now(UTC) - made).total_seconds()
    smallest = units[parts[-1][1]]
    assert -60 <= real - said <= smallest + 60


def _truth_column(type: str) -> Claim:
    def claim(told: Told) -> None:
        assert told.cells[type.upper()] == told.evidence.conditions[type]

    return claim


def _reason_column(told: Told) -> None:
    assert told.cells["REASON"] == conditions_of(told)["Ready"]["reason"]


def selects(told: Told, names: list[str]) -> None:
    """What an autoscaler counts by status.selector are the very Pods of these names."""
    namespace = told.resource["metadata"]["namespace"]
    pods = told.environment.get("pods", "-n", namespace, "-l", told.status["selector"])["items"]
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
AVAILABLE = _truth_column("Available")
"""For kinds with a column of that name."""
