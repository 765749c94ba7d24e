"""The graph of a stack on an existing cluster: staging's, prod's, and one of few namespaces."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from infra import program, rbac, release, settings
from infra.cli.stacks import preflight
from infra.components.cluster import check_environment
from infra.components.images import required_images
from infra.drivers import debian_lock, in_cluster
from infra.drivers.cluster_context import IN_CLUSTER
from infra.errors import KindlingError
from infra.release import Release
from infra.settings import ClusterSettings, ImageSettings, OperatorSettings, SamplesSettings, Settings
from tests.unit.infra.fakes import Graph, Registration, declare

CLUSTER = "pulumi-python:dynamic/existing:Cluster"
CONTAINER = "pulumi-python:dynamic/containers:Image"
PUSHED = "pulumi-python:dynamic/containers:PushedImage"
PROVIDER = "pulumi:providers:kubernetes"
DEPLOYMENT = "kubernetes:apps/v1:Deployment"
ADMISSION = "kubernetes:admissionregistration.k8s.io/v1"
RBAC = "kubernetes:rbac.authorization.k8s.io/v1"

STAGING = settings.read("staging")
PROMOTED = {
    part: f"registry.example/kindling/{source.image}@sha256:{'a' * 64}"
    for part, source in required_images(STAGING).items()
}


def released(images: dict[str, str]) -> ImageSettings:
    """A release of this checkout with these images."""
    release_of = Release("c" * 40, release.contents(), images, "staging")
    return ImageSettings("promoted", given=images, release=release_of)


PROD = replace(settings.read("prod"), images=released(PROMOTED))


def graph_of(chosen: Settings, *, preview: bool = False) -> Graph:
    return declare(lambda: program.build(chosen), stack=chosen.stack, preview=preview)


@pytest.fixture(
    params=[pytest.param(False, id="up"), pytest.param(True, id="preview", marks=pytest.mark.thorough)]
)
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
def test_the_provider_gets_a_context_and_no_credentials(
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


def test_in_a_pod_the_provider_is_given_the_service_accounts_files_and_no_secret() -> None:
    cluster = replace(PROD.cluster, existing_context=IN_CLUSTER)
    graph = graph_of(replace(PROD, cluster=cluster))
    inputs = graph.one(PROVIDER).inputs
    assert (inputs["context"], inputs["kubeconfig"]) == (IN_CLUSTER, in_cluster.kubeconfig())
    assert graph.of(PUSHED) == graph.of(CONTAINER) == []


def test_what_is_waited_for_may_be_watched_by_whoever_passes_the_preflight() -> None:
    """Else Pulumi waits for ever, without a word."""
    asked = {
        (right.group, right.resource)
        for right in preflight.required_permissions(served=None)
        if right.verb == "watch"
    }
    waited = {
        (item.type.partition(":")[2].partition("/")[0], f"{item.inputs['kind'].lower()}s")
        for item in custom(graph_of(PROD), "kubernetes:")
        if "pulumi.com/waitFor" in (item.inputs["metadata"].get("annotations") or {})
    }
    assert waited
    assert waited <= asked


def test_images_are_pushed_below_the_registry(staging: Graph) -> None:
    pushed = {item.inputs["name"]: item.inputs for item in staging.of(PUSHED)}
    assert set(pushed) == {source.image for source in required_images(STAGING).values()}
    for name, inputs in pushed.items():
        assert inputs["repository"] == f"registry.example.com/kindling/{name}"
        assert inputs["insecure"] is False
    assert set(staging.exports["images"]) == {
        "operator",
        "exporters",
        "memcached",
        "postgres",
        "postgres-backup",
        "postgres-init",
        "pulsar-consumer",
    }


def test_a_stack_in_an_existing_cluster_exports_no_kubeconfig(staging: Graph) -> None:
    assert staging.exports["context"] == STAGING.cluster.context
    assert not {"kubeconfig", "clusterName"} & set(staging.exports)


def test_whoever_builds_the_tag_is_that_of_the_nodes_platforms(monkeypatch: pytest.MonkeyPatch) -> None:
    """An amd64 and an arm64 machine push the same; a kind cluster's images are its machine's own."""

    def tags(stack: Settings, machine: str) -> dict[str, tuple[str, dict[str, str]]]:
        monkeypatch.setattr(debian_lock, "architecture", lambda: machine)
        found = [item.inputs for item in graph_of(stack).resources if "dynamic/containers" in item.type]
        return {item["name"]: (item["digest"], item.get("platforms", {})) for item in found}

    def of(*platforms: str) -> Settings:
        return replace(STAGING, images=replace(STAGING.images, platforms=platforms))

    amd64, arm64, dev = "linux/amd64", "linux/arm64", settings.read("dev")
    for platforms in ((amd64,), (arm64,), (amd64, arm64)):
        pushed = tags(of(*platforms), "amd64")
        assert pushed == tags(of(*platforms), "arm64")
        for digest, single in pushed.values():
            assert set(single) == set(platforms)
            assert (digest in single.values()) is (len(platforms) == 1)
    assert {name: tag for name, (tag, _) in tags(of(amd64, arm64), "amd64").items()} == {
        name: tag for name, (tag, _) in tags(of(arm64, amd64), "amd64").items()
    }
    one, other = tags(dev, "amd64"), tags(dev, "arm64")
    both = tags(of(amd64, arm64), "amd64")
    for name, (tag, _) in tags(STAGING, "arm64").items():
        assert tag == one[name][0] != other[name][0] == both[name][1][arm64]


def test_another_base_is_another_tag_and_is_built_on() -> None:
    base = f"registry.example/debian@sha256:{'b' * 64}"
    for stack, type in ((STAGING, PUSHED), (settings.read("dev"), CONTAINER)):
        plain = {item.name: item.inputs for item in graph_of(stack).of(type)}
        other = graph_of(replace(stack, images=replace(stack.images, base=base)))
        assert len(plain) > 3
        for item in other.of(type):
            assert item.inputs["buildArgs"] == {"BASE": base}
            assert plain[item.name]["buildArgs"] == {}
            assert item.inputs["digest"] != plain[item.name]["digest"]


@pytest.mark.parametrize("stack", ["dev", "staging"])
def test_an_image_that_is_given_is_run_and_not_built(stack: str) -> None:
    chosen = settings.read(stack)
    given = {"postgres": "registry.example/mirror/postgres:17.2"}
    graph = graph_of(replace(chosen, images=replace(chosen.images, given=given)))
    built = {item.inputs["name"] for item in graph.resources if "dynamic/containers" in item.type}
    assert "kindling-postgres" not in built
    assert {"kindling-operator", "kindling-memcached"} <= built
    reported = {item["name"]: item.get("value") for item in containers(graph)["env"]}
    assert reported["KINDLING_IMAGE_POSTGRES"] == given["postgres"]


@pytest.mark.parametrize("preview", [False, True])
def test_promoted_images_are_run_as_they_are_and_nothing_is_built(preview: bool) -> None:
    graph = graph_of(PROD, preview=preview)
    assert not [item for item in graph.resources if "containers" in item.type]
    container = containers(graph)
    assert container["image"] == PROMOTED["operator"]
    reported = {item["name"]: item.get("value") for item in container["env"]}
    assert reported["KINDLING_IMAGE_POSTGRES"] == PROMOTED["postgres"]


def test_without_promoted_images_nothing_is_declared() -> None:
    bare = replace(PROD, images=released({"operator": PROMOTED["operator"]}))
    with pytest.raises(KindlingError) as raised:
        graph_of(bare)
    assert (
        raised.value.what
        == "the release of stack `prod` lacks exporters, memcached, postgres, postgres-backup, "
        "postgres-init, pulsar-consumer"
    )
    assert "promote staging prod" in raised.value.remedy


@pytest.mark.parametrize("preview", [False, True])
def test_another_commits_release_is_refused_before_anything_is_declared(preview: bool) -> None:
    """By the program itself, so by `pulumi` alone too."""
    other = replace(
        PROD, images=ImageSettings("promoted", release=Release("d" * 40, "0" * 64, PROMOTED, "eu"))
    )
    with pytest.raises(KindlingError) as raised:
        graph_of(other, preview=preview)
    assert "stack `prod` runs the release of commit dddddddddddd, and this checkout is" in raised.value.what
    assert "checkout prod FOLDER" in raised.value.remedy


def test_a_stack_reports_what_it_was_deployed_from(monkeypatch: pytest.MonkeyPatch) -> None:
    assert graph_of(PROD).exports["release"] == {
        "commit": "c" * 40,
        "contents": release.contents(),
        "uncommitted": [],
    }
    monkeypatch.setattr(release, "deployed", lambda: release.Deployed("e" * 40, "f" * 64, ("infra/rbac.py",)))
    reported = {"commit": "e" * 40, "contents": "f" * 64, "uncommitted": ["infra/rbac.py"]}
    assert graph_of(STAGING).exports["release"] == reported
    assert "release" not in graph_of(settings.read("dev")).exports


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
    assert (len(kinds), len(samples)) == (8, 5)
    assert kinds | samples | {"operator-namespace", "cluster"} == protected
    # Who deletes past Pulumi is refused by the API server.
    assert "kindling-protected-definitions" in {item.name for item in custom(graph, f"{ADMISSION}:")}
    # What can be made again without loss must stay replaceable.
    assert not {"operator-deployment", "operator-policy", "operator-role"} & protected


def test_an_unprotected_stack_protects_nothing() -> None:
    graph = graph_of(replace(STAGING, protect=False))
    assert not [item.name for item in graph.resources if item.protect]
    assert "kindling-protected-definitions" not in {item.name for item in graph.resources}


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
    assert len(graph.of("kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition")) == 8
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
