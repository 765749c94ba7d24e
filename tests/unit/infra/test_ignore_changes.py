"""Exceptions from drift: which resources they reach, and what is said of those that are not there."""

from __future__ import annotations

from dataclasses import replace

import pulumi
import pytest

from infra import program, settings
from infra.cli.drift_report import differences
from tests.unit.infra.fakes import Graph, declare
from tests.unit.infra.test_drift_report import Json, outcome

DEPLOYMENT = "kubernetes:apps/v1:Deployment"
RECORDED: Json = {
    "metadata": {"name": "kindling-operator"},
    "spec": {"replicas": 2, "paused": False, "list": [{"name": "a", "x": 1}]},
}


def graph(asked: dict[str, tuple[str, ...]]) -> Graph:
    chosen = replace(settings.read("dev"), ignore_changes=asked)
    return declare(lambda: program.build(chosen), stack="dev", preview=False)


def test_an_exception_reaches_its_resource_and_no_other() -> None:
    paths = ("spec.replicas", "spec.template.spec.containers[*].resources")
    found = graph({"Deployment/kindling-operator": paths, "Memcached/memcached-sample": ("spec.size",)})
    assert {item.name: item.ignore_changes for item in found.resources if item.ignore_changes} == {
        "operator-deployment": paths,
        "memcached.cache.example.com-memcached-sample": ("spec.size",),
    }


@pytest.mark.parametrize(
    "name", ["Deployment/operator", "Service/kindling-operators", "Redis/kindling-operator"]
)
def test_a_resource_that_the_stack_does_not_have_is_named(name: str) -> None:
    """Each registration fails with it, so that nothing is made."""
    with pytest.raises(pulumi.RunError) as raised:
        graph({"Deployment/kindling-operator": ("spec.replicas",), name: ("spec.replicas",)})
    message = str(raised.value)
    assert f"names what the stack does not have: {name}\n" in message
    kind = name.partition("/")[0]
    assert ("Deployment" if kind == "Redis" else kind) + "/kindling-operator" in message
    assert "Pulumi.dev.yaml" in message


def reported(found: Json, *paths: str) -> list[str]:
    event = outcome("update", recorded=RECORDED, found=found, type=DEPLOYMENT)
    return [
        line
        for difference in differences([event], excepted={"Deployment/kindling-operator": paths})
        for line in difference.fields
    ]


def test_a_field_that_is_excepted_is_no_difference_and_every_other_is() -> None:
    spec = RECORDED["spec"]
    found = {**RECORDED, "spec": {**spec, "replicas": 3}}
    assert reported(found) == ["spec.replicas: 3, recorded 2"]
    assert reported(found, "spec.replicas") == []
    assert reported(found, "spec.paused") == ["spec.replicas: 3, recorded 2"]
    both = {**RECORDED, "spec": {**spec, "replicas": 3, "paused": True, "list": [{"name": "a", "x": 2}]}}
    assert reported(both, "spec.replicas", "spec.list[*].x") == ["spec.paused: true, recorded false"]
    # An exception is of one resource: another of the same kind is compared whole.
    event = outcome("update", recorded=RECORDED, found=found, type=DEPLOYMENT)
    [other] = differences([event], excepted={"Deployment/another": ["spec.replicas"]})
    assert other.fields == ("spec.replicas: 3, recorded 2",)
