"""The whole graph of a stack, as the program declares it, for real and in a preview.

What the graph says of the cluster, the order and the secrets; the operator's own objects are in
test_operator_component.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pulumi
import pytest
from pulumi.runtime import rpc

from infra import admission, deletion_protection, program, settings, yaml_text
from infra.components.cluster import kind_config
from infra.paths import REPOSITORY
from infra.settings import ClusterSettings
from tests.unit.infra.fakes import Graph, Registration, declare

CLUSTER = "pulumi-python:dynamic/kind:Cluster"
IMAGE = "pulumi-python:dynamic/containers:Image"
PROVIDER = "pulumi:providers:kubernetes"
ADMISSION = "kubernetes:admissionregistration.k8s.io/v1"
CRD = "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition"
DEPLOYMENT = "kubernetes:apps/v1:Deployment"


@pytest.fixture(
    params=[pytest.param(False, id="up"), pytest.param(True, id="preview", marks=pytest.mark.thorough)]
)
def graph(request: pytest.FixtureRequest) -> Graph:
    """Stack dev's graph, whose samples are enabled."""
    return declare(lambda: program.build(settings.read("dev")), stack="dev", preview=request.param)


def sample_resources(graph: Graph) -> list[Registration]:
    groups = {str(item["apiVersion"]).split("/")[0] for item in manifests("samples")}
    return [item for item in graph.resources if item.type.split(":")[1].split("/")[0] in groups]


def manifests(directory: str) -> list[dict[str, Any]]:
    files = sorted((REPOSITORY / directory).glob("*.yaml"))
    return [item for file in files for item in yaml_text.load_all(file.read_text())]


def plain(value: Any) -> Any:
    """Without the marks of secrets."""
    if rpc.is_rpc_secret(value):
        return plain(rpc.unwrap_rpc_secret(value))
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


def ancestors(graph: Graph, item: Registration) -> list[Registration]:
    by_urn = {each.urn: each for each in graph.resources}
    found = [item]
    while found[-1].parent in by_urn:
        found.append(by_urn[found[-1].parent])
    return found


def test_one_cluster_of_the_stacks_name(graph: Graph) -> None:
    cluster = graph.one(CLUSTER)
    assert cluster.inputs["name"] == "kindling-dev"
    assert cluster.inputs["nodeImage"] == "auto"
    assert "kubeconfig" in cluster.secret_outputs


def test_everything_in_the_cluster_goes_through_its_provider_and_dies_with_it(graph: Graph) -> None:
    inside = [item for item in graph.resources if item.custom and item.type.startswith("kubernetes:")]
    assert len(inside) >= 5 + 10 + 5  # definitions, the operator with what surrounds it, samples
    provider, cluster = graph.one(PROVIDER).urn, graph.one(CLUSTER).urn
    for item in inside:
        assert item.provider.startswith(provider), item.name
        # The engine hands it down from the parent.
        assert cluster in [each.deleted_with for each in ancestors(graph, item)], item.name


def test_the_images_outlive_the_cluster_to_be_removed_from_the_host(graph: Graph) -> None:
    for image in graph.of(IMAGE):
        assert not any(each.deleted_with for each in ancestors(graph, image))


def test_the_provider_distinguishes_clusters_by_their_incarnation(graph: Graph) -> None:
    provider = graph.one(PROVIDER)
    assert graph.one(CLUSTER).urn in provider.dependencies
    assert {"clusterIdentifier", "kubeconfig"} <= set(provider.inputs)


def test_images_are_named_by_content_before_they_exist(graph: Graph) -> None:
    names = {image.inputs["name"]: image.inputs for image in graph.of(IMAGE)}
    folders = {path.parent.name for path in (REPOSITORY / "operator/images").glob("*/Containerfile")}
    assert set(names) == {
        "kindling-operator",
        "kindling-pulsar",
        *(f"kindling-{folder}" for folder in folders),
    }
    for name, inputs in names.items():
        assert inputs["ref"] == f"localhost/{name}:{inputs['digest']}"
        assert len(inputs["digest"]) == 12
        assert (REPOSITORY / inputs["containerfile"]).is_file()


def test_each_definition_is_the_file_and_is_waited_for(graph: Graph) -> None:
    declared = {item.name: item.inputs for item in graph.of(CRD)}
    assert declared.keys() == {crd["metadata"]["name"] for crd in manifests("crds")}
    for crd in manifests("crds"):
        inputs = plain(declared[crd["metadata"]["name"]])
        added = {"pulumi.com/waitFor": "condition=Established"}
        assert inputs["metadata"].pop("annotations") == {**crd["metadata"].get("annotations", {}), **added}
        assert inputs == without_annotations(crd)


def test_requesters_are_asked_for_their_rights_before_the_operator_acts_for_them(graph: Graph) -> None:
    policies = graph.of(f"{ADMISSION}:ValidatingAdmissionPolicy")
    bindings = graph.of(f"{ADMISSION}:ValidatingAdmissionPolicyBinding")
    crds = manifests("crds")
    wanted = {
        policy.name: policy
        for policy in (
            *admission.policies(crds),
            *deletion_protection.policies(crds, definitions=False),  # stack dev is not protected
        )
    }
    names = wanted.keys()
    assert {item.inputs["metadata"]["name"] for item in policies} == names
    assert {item.inputs["spec"]["policyName"] for item in bindings} == names
    assert all(item.inputs["spec"]["validationActions"] == ["Deny"] for item in bindings)
    component = {item.name: item for item in graph.resources if not item.custom}
    assert {item.urn for item in bindings} <= component["operator"].dependencies
    for item in policies:
        assert plain(item.inputs["spec"]) == plain(dict(wanted[item.name].spec))


def test_the_samples_are_the_files(graph: Graph) -> None:
    declared = [plain(item.inputs) for item in sample_resources(graph)]
    for inputs in declared:
        assert inputs["metadata"].pop("namespace") == "default"
        inputs["metadata"].pop("annotations", None)
    for sample in manifests("samples"):
        assert without_annotations(sample) in declared
    assert len(declared) == len(manifests("samples")) == 5


def test_every_sample_is_waited_for(graph: Graph) -> None:
    for item in sample_resources(graph):
        assert item.inputs["metadata"]["annotations"]["pulumi.com/waitFor"] == "condition=Ready", item.name


def test_no_password_is_plain_in_the_state(graph: Graph) -> None:
    passwords = {item["spec"]["password"] for item in manifests("samples") if "password" in item["spec"]}
    assert len(passwords) == 2
    hidden = [item for item in sample_resources(graph) if item.inputs["kind"] == "Postgresql"]
    for item in hidden:
        assert rpc.is_rpc_secret(item.inputs["spec"])
    # Whatever is not marked as a secret, anywhere in the graph, must not hold one.
    for item in graph.resources:
        for value in item.inputs.values():
            if not rpc.is_rpc_secret(value):
                assert not any(password in repr(value) for password in passwords), item.name


def test_samples_come_after_the_operator_and_the_operator_after_the_definitions(graph: Graph) -> None:
    component = {item.name: item for item in graph.resources if not item.custom}
    assert {item.urn for item in graph.of(CRD)} <= component["operator"].dependencies
    operator, broker = (graph.one(DEPLOYMENT, f"{name}-deployment").urn for name in ("operator", "broker"))
    assert operator in component["samples"].dependencies
    # The broker is the last to be there: only who needs it waits for it.
    waiting = [item.inputs["kind"] for item in sample_resources(graph) if broker in item.dependencies]
    assert waiting == ["PulsarConsumer"]


def test_the_broker_starts_beside_the_operator(graph: Graph) -> None:
    (image,) = (item for item in graph.of(IMAGE) if item.inputs["name"] == "kindling-pulsar")
    names = ("operator-deployment", "broker-deployment")
    operator, broker = (graph.one(DEPLOYMENT, name) for name in names)
    assert image.urn in broker.dependencies
    assert image.urn not in operator.dependencies
    assert operator.urn not in broker.dependencies
    assert graph.exports["broker"] == "pulsar://pulsar.pulsar.svc:6650"


def test_a_stack_without_a_broker_does_not_even_have_its_image() -> None:
    chosen = replace(settings.read("dev"), broker=settings.BrokerSettings(enabled=False))
    graph = declare(lambda: program.build(chosen), stack="dev", preview=False)
    assert not [item for item in graph.resources if "broker" in item.name]
    assert "broker" not in graph.exports


def test_a_stack_with_an_object_store_has_what_one_without_has_and_that() -> None:
    plain = settings.read("dev")
    chosen = replace(plain, object_store=settings.ObjectStoreSettings(enabled=True))
    without, graph = (
        declare(lambda: program.build(each), stack="dev", preview=False)  # noqa: B023
        for each in (plain, chosen)
    )

    def contents(found: Graph) -> dict[str, str]:
        return {item.urn: repr(item.inputs) for item in found.resources}

    before, after = contents(without), contents(graph)
    assert before.items() <= after.items()
    new = {urn.rpartition("::")[2] for urn in after.keys() - before.keys()}
    parts = (
        "credentials",
        "namespace",
        "keys",
        "tls",
        "user-keys",
        "user-ca",
        "data",
        "deployment",
        "policy",
    )
    assert new == {
        "object-store",
        "images-object-store",
        "object-store-service",
        *(f"object-store-{part}" for part in parts),
    }
    assert "objectStore" not in without.exports
    assert graph.exports["objectStore"] == {
        "endpointURL": "https://object-store.object-store.svc:7070",
        "bucket": "backups",
    }
    assert without.exports.keys() | {"objectStore"} == graph.exports.keys()


def test_the_object_store_runs_its_image_beside_the_operator_and_is_protected_as_samples_are() -> None:
    chosen = replace(
        settings.read("dev"), object_store=settings.ObjectStoreSettings(enabled=True), protect=True
    )
    graph = declare(lambda: program.build(chosen), stack="dev", preview=False)
    store, operator = (graph.one(DEPLOYMENT, f"{name}-deployment") for name in ("object-store", "operator"))
    image = graph.one(IMAGE, "images-object-store")
    assert image.inputs["name"] == "kindling-object-store"
    assert image.urn in store.dependencies
    assert image.urn not in operator.dependencies
    assert operator.urn not in store.dependencies
    assert store.urn not in operator.dependencies
    assert {item.name: item for item in graph.resources if not item.custom}["object-store"].protect


def test_the_deployment_waits_for_its_images_and_permissions(graph: Graph) -> None:
    needs = graph.one(DEPLOYMENT, "operator-deployment").dependencies
    own = [item for item in graph.of(IMAGE) if item.inputs["name"] != "kindling-pulsar"]
    bindings = graph.of("kubernetes:rbac.authorization.k8s.io/v1:ClusterRoleBinding")
    assert {item.urn for item in [*own, *bindings]} <= needs
    assert graph.one("kubernetes:rbac.authorization.k8s.io/v1:RoleBinding").urn in needs


def test_what_the_stack_exports(graph: Graph) -> None:
    reported = graph.exports
    assert reported["clusterName"] == "kindling-dev"
    assert reported["context"] == "kind-kindling-dev"
    assert reported["namespace"] == "kindling-system"
    assert isinstance(reported["kubeconfig"], pulumi.Output)
    assert {
        "resource": "postgresqls.database.db.example.com/mydb",
        "namespace": "default",
        "host": "mydb.default.svc",
        "port": 5432,
        "user": "pgowner",
        "database": "pgowner",
    } in reported["samples"]
    assert "assword" not in json.dumps(reported["samples"])


def test_the_kubeconfig_is_exported_as_a_secret() -> None:
    secret: list[bool] = []

    def ask(exports: dict[str, Any]) -> pulumi.Output[None]:
        return pulumi.Output.from_input(exports["kubeconfig"].is_secret()).apply(secret.append)

    declare(lambda: program.build(settings.read("dev")), stack="dev", preview=False, then=ask)
    assert secret == [True]


def test_without_samples_there_are_none() -> None:
    bare = replace(settings.read("dev"), samples=settings.SamplesSettings(enabled=False))
    graph = declare(lambda: program.build(bare), stack="dev", preview=False)
    assert sample_resources(graph) == []
    assert graph.exports["samples"] == []


def test_kind_gets_a_port_and_workers_only_when_asked() -> None:
    def config(**changed: Any) -> dict[str, Any]:
        base = {"source": "kind", "name": "n", "node_image": "auto", "workers": 0, "api_server_port": 0}
        return kind_config(ClusterSettings(**{**base, **changed}))

    assert config() == {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "networking": {"apiServerAddress": "127.0.0.1"},
        "nodes": [{"role": "control-plane"}],
    }
    assert config(api_server_port=7000)["networking"]["apiServerPort"] == 7000
    assert [node["role"] for node in config(workers=2)["nodes"]] == ["control-plane", "worker", "worker"]


def without_annotations(manifest: dict[str, Any]) -> dict[str, Any]:
    meta = {key: value for key, value in manifest["metadata"].items() if key != "annotations"}
    return {**manifest, "metadata": meta}
