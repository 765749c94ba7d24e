"""KindCluster's life, as Pulumi's engine drives it."""

from __future__ import annotations

import base64
import pickle
from typing import Any

import pytest
from pulumi.dynamic.dynamic import serialize_provider
from pulumi.runtime.rpc import UNKNOWN

from infra.errors import KindlingError
from infra.resources.kind_cluster import KindCluster, KindClusterProvider
from tests.unit.infra.fakes import FakeCluster, FakeMachine

INPUTS: dict[str, Any] = {
    "name": "kindling-dev",
    "nodeImage": "auto",
    "config": {"nodes": [{"role": "worker"}]},
}
PROVIDER = KindClusterProvider()


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> FakeMachine:
    return FakeMachine.install(monkeypatch)


@pytest.fixture
def created(machine: FakeMachine) -> dict[str, Any]:
    """The state of a cluster that stands."""
    outs = PROVIDER.create(dict(INPUTS)).outs
    assert outs is not None
    return outs


def test_the_state_names_the_provider_by_reference() -> None:
    """By value it would hold bytecode of one Python version; moved, no old state could be destroyed."""
    pickled = base64.b64decode(serialize_provider(PROVIDER))
    assert len(pickled) < 200
    assert b"infra.resources.kind_cluster" in pickled
    assert b"KindClusterProvider" in pickled
    assert isinstance(pickle.loads(pickled), KindClusterProvider)
    assert KindCluster._resource_type_name == "dynamic/kind:Cluster"


@pytest.mark.parametrize(
    ("changed", "property_"),
    [
        ({"name": ""}, "name"),
        ({"name": "Kindling_Dev"}, "name"),
        ({"name": "k" * 50}, "name"),
        ({"name": "dev-"}, "name"),
        ({"nodeImage": ""}, "nodeImage"),
    ],
)
def test_check_names_what_is_wrong(changed: dict[str, str], property_: str) -> None:
    result = PROVIDER.check({}, {**INPUTS, **changed})
    assert [failure.property for failure in result.failures] == [property_]


def test_check_takes_what_is_right_and_what_is_not_known_yet() -> None:
    for news in (INPUTS, {**INPUTS, "name": "k" * 49}, {**INPUTS, "name": UNKNOWN}):
        result = PROVIDER.check({}, news)
        assert result.failures == []
        assert result.inputs == news


def test_create_settles_the_node_image_and_keeps_the_inputs(machine: FakeMachine) -> None:
    config = {"networking": {"apiServerPort": 6443.0}, "nodes": [{"role": "control-plane"}]}
    result = PROVIDER.create({**INPUTS, "config": config})
    name, image, given = machine.calls[0][1:]
    assert (name, image) == ("kindling-dev", "localhost/node:found")
    # kind reads an int32 and refuses 6443.0.
    assert repr(given["networking"]["apiServerPort"]) == "6443"
    incarnation = machine.clusters["kindling-dev"].incarnation
    assert len(incarnation) == 8
    assert result.id == f"kindling-dev-{incarnation}"
    assert result.outs == {
        "name": "kindling-dev",
        "nodeImage": "auto",
        "config": config,
        "incarnation": incarnation,
        "resolvedNodeImage": "localhost/node:found",
        "kubeconfig": f"kubeconfig of {incarnation}",
    }


def test_workers_are_asked_for_before_anything_is_made(machine: FakeMachine) -> None:
    nodes = [{"role": "control-plane"}, {"role": "worker"}, {"role": "worker"}]
    PROVIDER.create({**INPUTS, "config": {"nodes": nodes}})
    assert machine.workers_asked_for == 2
    PROVIDER.create({**INPUTS, "config": {}})
    assert machine.workers_asked_for == 0


def test_create_uses_a_named_node_image(machine: FakeMachine) -> None:
    PROVIDER.create({**INPUTS, "nodeImage": "kindest/node:v1"})
    assert machine.calls[0][2] == "kindest/node:v1"


def test_every_creation_is_another_incarnation(machine: FakeMachine) -> None:
    assert PROVIDER.create(dict(INPUTS)).id != PROVIDER.create(dict(INPUTS)).id


def test_a_failed_creation_is_no_state(machine: FakeMachine) -> None:
    machine.failure = KindlingError("the kind cluster could not be created")
    with pytest.raises(KindlingError, match="could not be created"):
        PROVIDER.create(dict(INPUTS))
    machine.failure = None
    assert PROVIDER.create(dict(INPUTS)).id.startswith("kindling-dev-")


def test_a_foreign_cluster_is_refused(machine: FakeMachine) -> None:
    machine.foreign.add("kindling-dev")
    with pytest.raises(KindlingError, match="not Kindling's"):
        PROVIDER.create(dict(INPUTS))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("name", "kindling-other"),
        ("nodeImage", "kindest/node:v1"),
        ("config", {"nodes": []}),
        ("name", UNKNOWN),
    ],
)
def test_a_changed_input_is_another_cluster(created: dict[str, Any], key: str, value: Any) -> None:
    result = PROVIDER.diff("id", created, {**INPUTS, key: value})
    assert result.changes is True
    assert result.replaces == [key]


def test_a_replacement_is_never_deleted_first(created: dict[str, Any]) -> None:
    """Deleting first makes the engine delete through the API whatever lives in the cluster."""
    assert PROVIDER.diff("id", created, {**INPUTS, "config": {}}).delete_before_replace is False


def test_nothing_changed_is_no_diff(created: dict[str, Any]) -> None:
    result = PROVIDER.diff("id", created, {**INPUTS, "incarnation": None, "kubeconfig": None})
    assert (result.changes, result.replaces) == (False, [])


def test_diff_sees_that_the_cluster_is_gone(machine: FakeMachine, created: dict[str, Any]) -> None:
    machine.clusters.clear()
    result = PROVIDER.diff("id", created, dict(INPUTS))
    assert (result.changes, result.replaces) == (True, ["incarnation"])


def test_diff_without_an_engine_judges_the_inputs_alone(
    machine: FakeMachine, created: dict[str, Any]
) -> None:
    machine.has_engine = False
    assert PROVIDER.diff("id", created, dict(INPUTS)).changes is False
    assert PROVIDER.diff("id", created, {**INPUTS, "config": {}}).changes is True


def test_a_stopped_cluster_is_an_error_with_a_remedy(machine: FakeMachine, created: dict[str, Any]) -> None:
    machine.clusters["kindling-dev"].running = False
    for ask in (lambda: PROVIDER.diff("id", created, dict(INPUTS)), lambda: PROVIDER.read("id", created)):
        with pytest.raises(KindlingError, match=r"stopped[\s\S]*remedy: start"):
            ask()


def test_read_brings_the_kubeconfig_up_to_date(created: dict[str, Any]) -> None:
    result = PROVIDER.read("the-id", {**created, "kubeconfig": "of yesterday"})
    assert (result.id, result.outs) == ("the-id", created)


def test_read_says_gone(machine: FakeMachine, created: dict[str, Any]) -> None:
    machine.clusters["kindling-dev"] = FakeCluster("ffffffff")
    replaced = PROVIDER.read("the-id", created)
    machine.clusters.clear()
    missing = PROVIDER.read("the-id", created)
    for result in (replaced, missing):
        # None as outs would raise inside Pulumi's servicer.
        assert (result.id, result.outs) == ("", {})


def test_update_loses_nothing_computed(created: dict[str, Any]) -> None:
    assert PROVIDER.update("id", created, dict(INPUTS)).outs == created


def test_delete_removes_the_cluster(machine: FakeMachine, created: dict[str, Any]) -> None:
    PROVIDER.delete("id", created)
    assert machine.clusters == {}


def test_delete_of_the_missing_succeeds(machine: FakeMachine, created: dict[str, Any]) -> None:
    machine.clusters.clear()
    PROVIDER.delete("id", created)


def test_delete_spares_the_replacement(machine: FakeMachine, created: dict[str, Any]) -> None:
    """The engine makes the new cluster, of the same name, before it deletes the old one."""
    replacement = PROVIDER.create(dict(INPUTS)).outs
    assert replacement is not None
    PROVIDER.delete("id", created)
    assert machine.clusters["kindling-dev"].incarnation == replacement["incarnation"]


def test_delete_refuses_a_foreign_cluster(machine: FakeMachine, created: dict[str, Any]) -> None:
    machine.foreign.add("kindling-dev")
    with pytest.raises(KindlingError, match="not Kindling's"):
        PROVIDER.delete("id", created)
