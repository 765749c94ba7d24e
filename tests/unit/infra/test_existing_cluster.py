"""ExistingCluster's life, as Pulumi's engine drives it; kubectl's part is tested with a real API server."""

from __future__ import annotations

import base64
import pickle
from dataclasses import dataclass
from typing import Any

import pytest
from pulumi.dynamic.dynamic import serialize_provider

from infra.drivers.cluster_context import NoContext
from infra.errors import KindlingError
from infra.resources import host
from infra.resources.existing_cluster import ExistingCluster, ExistingClusterProvider

INPUTS: dict[str, Any] = {"context": "staging"}
PROVIDER = ExistingClusterProvider()


@dataclass
class World:
    """The cluster each context leads to, by its uid."""

    clusters: dict[str, str]
    has_kubectl: bool = True

    def access(self, context: str) -> World:
        self.asked = context
        return self

    def context_readonly(self, context: str) -> World | None:
        return self.access(context) if self.has_kubectl else None

    def recent(self) -> None:
        pass

    def uid(self) -> str:
        if self.asked not in self.clusters:
            raise KindlingError(f"the cluster of context `{self.asked}` cannot be reached")
        return self.clusters[self.asked]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World({"staging": "uid-1"})
    monkeypatch.setattr(host, "cluster_context", world.access)
    monkeypatch.setattr(host, "context_readonly", world.context_readonly)
    return world


def test_the_state_names_the_provider_by_reference() -> None:
    pickled = base64.b64decode(serialize_provider(PROVIDER))
    assert len(pickled) < 200
    assert b"infra.resources.existing_cluster" in pickled
    assert isinstance(pickle.loads(pickled), ExistingClusterProvider)
    assert ExistingCluster._resource_type_name == "dynamic/existing:Cluster"


def test_check_wants_a_context() -> None:
    assert PROVIDER.check({}, dict(INPUTS)).failures == []
    assert [failure.property for failure in PROVIDER.check({}, {"context": ""}).failures] == ["context"]


def test_create_writes_down_which_cluster_it_is(world: World) -> None:
    result = PROVIDER.create(dict(INPUTS))
    assert (result.id, result.outs) == ("uid-1", INPUTS)


def test_create_of_the_missing_says_so(world: World) -> None:
    with pytest.raises(KindlingError, match="`prod` cannot be reached"):
        PROVIDER.create({"context": "prod"})


def test_unchanged_is_unchanged(world: World) -> None:
    assert PROVIDER.diff("uid-1", INPUTS, INPUTS).changes is False


def test_the_same_cluster_by_another_context_is_an_update_and_no_replacement(world: World) -> None:
    world.clusters["renamed"] = "uid-1"
    found = PROVIDER.diff("uid-1", INPUTS, {"context": "renamed"})
    assert (found.changes, found.replaces) == (True, [])
    assert PROVIDER.update("uid-1", INPUTS, {"context": "renamed"}).outs == {"context": "renamed"}


def test_a_context_that_leads_elsewhere_is_an_error_everywhere(world: World) -> None:
    """Foreign: to go on would mean to change, or to delete from, a cluster that the stack is not in."""
    world.clusters["staging"] = "uid-2"
    for attempt in (
        lambda: PROVIDER.diff("uid-1", INPUTS, INPUTS),
        lambda: PROVIDER.read("uid-1", INPUTS),
        lambda: PROVIDER.update("uid-1", INPUTS, INPUTS),
    ):
        with pytest.raises(KindlingError, match=r"leads to another cluster[\s\S]*uid-2, not uid-1"):
            attempt()


@pytest.mark.parametrize("has_kubectl", [True, False])
def test_a_preview_out_of_the_clusters_reach_says_nothing(world: World, has_kubectl: bool) -> None:
    world.clusters.clear()
    world.has_kubectl = has_kubectl
    assert PROVIDER.diff("uid-1", INPUTS, INPUTS).changes is False


def test_read_does_not_take_a_network_failure_for_a_missing_cluster(world: World) -> None:
    assert PROVIDER.read("uid-1", INPUTS).id == "uid-1"
    world.clusters.clear()
    with pytest.raises(KindlingError, match="cannot be reached"):
        PROVIDER.read("uid-1", INPUTS)


def test_read_leaves_a_renamed_context_to_its_new_name(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(_context: str) -> World:
        raise NoContext("there is no context `staging`")

    monkeypatch.setattr(host, "cluster_context", gone)
    assert PROVIDER.read("uid-1", INPUTS).id == "uid-1"


def test_delete_touches_nothing(world: World) -> None:
    world.clusters.clear()
    PROVIDER.delete("uid-1", INPUTS)
    PROVIDER.delete("uid-1", INPUTS)
