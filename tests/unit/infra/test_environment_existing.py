"""The graph of a stack in somebody else's cluster: staging's, prod's, and one of few namespaces."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from infra import environment, rbac, settings
from infra.components.cluster import check_environment
from infra.components.images import wanted
from infra.errors import KindlingError
from infra.settings import ClusterSettings, ImageSettings, OperatorSettings, SamplesSettings, Settings
from tests.unit.infra.fakes import Graph, Registration, declare

CLUSTER = "pulumi-python:dynamic/existing:Cluster"
PUSHED = "pulumi-python:dynamic/containers:PushedImage"
PROVIDER = "pulumi:providers:kubernetes"
DEPLOYMENT = "kubernetes:apps/v1:Deployment"
RBAC = "kubernetes:rbac.authorization.k8s.io/v1"

STAGING = settings.read("staging")
PROMOTED = {
    part: f"registry.example/kindling/{source.image}@sha256:{'a' * 64}"
    for part, source in wanted(STAGING).items()
}
PROD = replace(settings.read("prod"), images=ImageSettings("promoted", promoted=PROMOTED))


def graph_of(chosen: Settings, *, preview: bool = False) -> Graph:
    return declare(lambda: environment.build(chosen), stack=chosen.stack, preview=preview)


@pytest.fixture(params=[False, True], ids=["up", "preview"])
def staging(request: pytest.FixtureRequest) -> Graph:
    return graph_of(STAGING, preview=request.param)


def custom(graph: Graph, prefix: str) -> list[Registration]:
    return [item for item in graph.resources if item.custom and item.type.startswith(prefix)]


def containers(graph: Graph) -> dict[str, Any]:
    """The operator's own; beside it is the prober, of the same image."""
    container, prober = graph.one(DEPLOYMENT, "operator-deployment").inputs["spec"]["template"]["spec"][
        "containers"
    ]
    assert prober["image"] == container["image"]
    return dict(container)


def test_no_cluster_is_made_and_nothing_goes_with_it(staging: Graph) -> None:
    assert staging.one(CLUSTER).inputs["context"] == STAGING.cluster.context
    assert not staging.of("pulumi-python:dynamic/kind:Cluster")
    # The API server must be asked to delete each of them.
    assert not [item.name for item in staging.resources if item.deleted_with]


@pytest.mark.parametrize("preview", [False, True])
def test_the_provider_is_told_a_context_and_no_credentials(
    monkeypatch: pytest.MonkeyPatch, preview: bool
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/a/machines/own/path:/and/another")
    staging = graph_of(STAGING, preview=preview)
    provider = staging.one(PROVIDER)
    assert provider.inputs["context"] == STAGING.cluster.context
    assert provider.inputs["kubeconfig"] == ""
    assert "clusterIdentifier" in provider.inputs
    assert staging.one(CLUSTER).urn in provider.dependencies
    for item in custom(staging, "kubernetes:"):
        assert item.provider.startswith(provider.urn), item.name


def test_images_are_pushed_below_the_registry(staging: Graph) -> None:
    pushed = {item.inputs["name"]: item.inputs for item in staging.of(PUSHED)}
    assert set(pushed) == {source.image for source in wanted(STAGING).values()}
    for name, inputs in pushed.items():
        assert inputs["repository"] == f"registry.example.com/kindling/{name}"
        assert inputs["insecure"] is False
    assert set(staging.exports["images"]) == {"operator", "memcached", "postgres", "pulsar-consumer"}


def test_a_stack_in_an_existing_cluster_tells_no_kubeconfig(staging: Graph) -> None:
    assert staging.exports["context"] == STAGING.cluster.context
    assert not {"kubeconfig", "clusterName"} & set(staging.exports)


@pytest.mark.parametrize("preview", [False, True])
def test_promoted_images_are_run_as_they_are_and_nothing_is_built(preview: bool) -> None:
    graph = graph_of(PROD, preview=preview)
    assert not [item for item in graph.resources if "containers" in item.type]
    container = containers(graph)
    assert container["image"] == PROMOTED["operator"]
    told = {item["name"]: item.get("value") for item in container["env"]}
    assert told["KINDLING_IMAGE_POSTGRES"] == PROMOTED["postgres"]


def test_without_promoted_images_nothing_is_declared() -> None:
    bare = replace(PROD, images=ImageSettings("promoted", promoted={"operator": PROMOTED["operator"]}))
    with pytest.raises(KindlingError) as raised:
        graph_of(bare)
    assert raised.value.what == "kindling:images of stack `prod` lacks memcached, postgres, pulsar-consumer"
    assert "promote staging prod" in raised.value.remedy


def test_a_preview_before_the_first_promotion_shows_all_else() -> None:
    graph = graph_of(replace(PROD, images=ImageSettings("promoted")), preview=True)
    assert containers(graph)["image"] == "kindling-operator:not-promoted-yet"
    assert len(custom(graph, "kubernetes:")) > 10


def test_the_broker_too_must_be_promoted_where_there_is_one() -> None:
    with pytest.raises(KindlingError, match="lacks broker"):
        graph_of(replace(PROD, broker=settings.BrokerSettings(enabled=True)))


def test_a_protected_stack_protects_what_holds_data() -> None:
    chosen = replace(PROD, samples=SamplesSettings(enabled=True))
    graph = graph_of(chosen)
    protected = {item.name for item in graph.resources if item.protect and item.custom}
    kinds = {item.name for item in custom(graph, "kubernetes:apiextensions.k8s.io/v1:Custom")}
    samples = {item.name for item in graph.resources if item.parent.endswith("::samples") and item.custom}
    assert (len(kinds), len(samples)) == (5, 5)
    assert kinds | samples | {"operator-namespace", "cluster"} == protected
    # What can be made again without loss must stay replaceable.
    assert not {"operator-deployment", "operator-policy", "operator-role"} & protected


def test_an_unprotected_stack_protects_nothing() -> None:
    graph = graph_of(replace(STAGING, protect=False))
    assert not [item.name for item in graph.resources if item.protect]


def test_a_kind_cluster_can_be_protected_too() -> None:
    graph = graph_of(replace(settings.read("dev"), protect=True))
    assert graph.one("pulumi-python:dynamic/kind:Cluster").protect


@pytest.mark.parametrize("preview", [False, True])
def test_rights_can_end_at_the_served_namespaces(preview: bool) -> None:
    served = ("team-a", "kindling-system")
    operator = OperatorSettings(
        replicas=1, log_level="info", watch_namespaces=served, scope=settings.NAMESPACES
    )
    graph = graph_of(replace(STAGING, operator=operator), preview=preview)
    users = {f"kindling-{role}" for role in rbac.USER_ROLES}
    assert {item.inputs["metadata"]["name"] for item in graph.of(f"{RBAC}:ClusterRole")} == users
    assert not graph.of(f"{RBAC}:ClusterRoleBinding")
    for sort in ("Role", "RoleBinding"):
        places = [
            (item.inputs["metadata"].get("namespace"), item.inputs["metadata"]["name"])
            for item in graph.of(f"{RBAC}:{sort}")
        ]
        assert sorted(map(str, places)) == sorted(
            map(
                str,
                [
                    (graph.one(f"{RBAC}:{sort}", "operator-role").inputs["metadata"].get("namespace"),
                     "kindling-operator"),
                    ("team-a", "kindling-operator-served"),
                    ("kindling-system", "kindling-operator-served"),
                ],
            )
        )  # fmt: skip
    role = graph_of(STAGING, preview=preview).one(f"{RBAC}:ClusterRole", "operator-cluster-role")
    wide = role.inputs["rules"]
    assert len(wide) == len(rbac.cluster_rules())
    assert graph.one(f"{RBAC}:Role", "operator-role-in-team-a").inputs["rules"] == wide
    binding = graph.one(f"{RBAC}:RoleBinding", "operator-role-in-team-a").inputs
    assert (binding["roleRef"]["kind"], binding["subjects"][0]["kind"]) == ("Role", "ServiceAccount")
    # Definitions know no namespace.
    assert len(graph.of("kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition")) == 5
    waits = graph.one(DEPLOYMENT, "operator-deployment").dependencies
    assert {item.urn for item in graph.of(f"{RBAC}:RoleBinding")} <= waits


def test_a_kubeconfig_of_the_settings_must_be_the_one_that_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = ClusterSettings(source="existing", name="n", kubeconfig="~/prod.yaml", existing_context="c")
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.delenv("KUBECONFIG", raising=False)
    with pytest.raises(KindlingError) as raised:
        check_environment(chosen)
    assert "/home/somebody/prod.yaml" in raised.value.remedy
    monkeypatch.setenv("KUBECONFIG", "/home/somebody/prod.yaml")
    check_environment(chosen)
    check_environment(replace(chosen, kubeconfig=""))
