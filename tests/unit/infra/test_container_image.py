"""ContainerImage's life, as Pulumi's engine drives it."""

from __future__ import annotations

import base64
import pickle
from typing import Any

import pytest
from pulumi.dynamic.dynamic import serialize_provider
from pulumi.runtime.rpc import UNKNOWN

from infra.resources.container_image import ContainerImage, ContainerImageProvider
from tests.unit.infra.fakes import FakeCluster, FakeMachine

REF = "localhost/kindling-operator:0123456789ab"
INPUTS: dict[str, Any] = {
    "name": "kindling-operator",
    "digest": "0123456789ab",
    "ref": REF,
    "clusterName": "kindling-dev",
    "clusterId": "kindling-dev-aaaaaaaa",
    "context": "operator",
    "containerfile": "operator/Containerfile",
    "buildArgs": {"A": "b"},
}
PROVIDER = ContainerImageProvider()


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> FakeMachine:
    """A machine whose cluster stands and has no images."""
    machine = FakeMachine.install(monkeypatch)
    machine.clusters["kindling-dev"] = FakeCluster("aaaaaaaa")
    return machine


@pytest.fixture
def created(machine: FakeMachine) -> dict[str, Any]:
    """The state of an image that the cluster has."""
    outs = PROVIDER.create(dict(INPUTS)).outs
    assert outs is not None
    machine.calls.clear()
    return outs


def test_the_state_names_the_provider_by_reference() -> None:
    pickled = base64.b64decode(serialize_provider(PROVIDER))
    assert len(pickled) < 200
    assert b"infra.resources.container_image" in pickled
    assert b"ContainerImageProvider" in pickled
    assert isinstance(pickle.loads(pickled), ContainerImageProvider)
    assert ContainerImage._resource_type_name == "dynamic/containers:Image"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("context", "/etc"),
        ("context", "../elsewhere"),
        ("context", "no-such-folder"),
        ("containerfile", "operator/Dockerfile"),
    ],
)
def test_check_names_a_path_that_is_not_ours(key: str, value: str) -> None:
    failures = PROVIDER.check({}, {**INPUTS, key: value}).failures
    assert [failure.property for failure in failures] == [key]
    assert value in failures[0].reason


def test_check_takes_a_cluster_that_does_not_exist_yet() -> None:
    result = PROVIDER.check({}, {**INPUTS, "clusterId": UNKNOWN})
    assert result.failures == []
    assert result.inputs["clusterId"] == UNKNOWN


def test_create_builds_and_loads(machine: FakeMachine) -> None:
    result = PROVIDER.create(dict(INPUTS))
    assert machine.calls == [
        ("build", "kindling-operator", "0123456789ab", {"A": "b"}),
        ("load", "kindling-dev", "kindling-operator:0123456789ab"),
    ]
    assert (result.id, result.outs) == (REF, INPUTS)


def test_create_finds_the_image_on_the_nodes(machine: FakeMachine) -> None:
    machine.clusters["kindling-dev"].images.add(REF)
    assert PROVIDER.create(dict(INPUTS)).outs == INPUTS
    assert machine.calls == []


def test_other_content_is_another_image_made_first(created: dict[str, Any]) -> None:
    """The old one goes last: until then the running Pods may need it."""
    result = PROVIDER.diff(REF, created, {**INPUTS, "digest": "ff", "ref": "localhost/kindling-operator:ff"})
    assert (result.changes, result.replaces, result.delete_before_replace) == (True, ["ref"], False)


@pytest.mark.parametrize("cluster", ["kindling-dev-bbbbbbbb", UNKNOWN])
def test_another_cluster_is_given_the_same_image(created: dict[str, Any], cluster: str) -> None:
    result = PROVIDER.diff(REF, created, {**INPUTS, "clusterId": cluster})
    assert (result.changes, result.replaces) == (True, [])


def test_nothing_changed_is_no_diff(created: dict[str, Any]) -> None:
    assert PROVIDER.diff(REF, created, dict(INPUTS)).changes is False


def test_diff_sees_that_the_nodes_lost_it(machine: FakeMachine, created: dict[str, Any]) -> None:
    machine.clusters["kindling-dev"].images.clear()
    result = PROVIDER.diff(REF, created, dict(INPUTS))
    assert (result.changes, result.replaces) == (True, [])


def test_diff_without_an_engine_judges_the_inputs_alone(
    machine: FakeMachine, created: dict[str, Any]
) -> None:
    machine.has_engine = False
    assert PROVIDER.diff(REF, created, dict(INPUTS)).changes is False


def test_update_puts_it_back_on_the_nodes(machine: FakeMachine, created: dict[str, Any]) -> None:
    machine.clusters["kindling-dev"] = FakeCluster("bbbbbbbb")
    news = {**INPUTS, "clusterId": "kindling-dev-bbbbbbbb"}
    assert PROVIDER.update(REF, created, news).outs == news
    assert REF in machine.clusters["kindling-dev"].images


def test_read(machine: FakeMachine, created: dict[str, Any]) -> None:
    there = PROVIDER.read(REF, created)
    machine.clusters["kindling-dev"].images.clear()
    lost = PROVIDER.read(REF, created)
    machine.clusters.clear()
    no_cluster = PROVIDER.read(REF, created)
    assert (there.id, there.outs) == (REF, INPUTS)
    assert (lost.id, lost.outs) == ("", {})
    assert (no_cluster.id, no_cluster.outs) == ("", {})


def test_delete_needs_no_cluster(machine: FakeMachine, created: dict[str, Any]) -> None:
    machine.clusters.clear()
    PROVIDER.delete(REF, created)
    assert machine.calls == [("remove_image", REF)]
