"""The object store's objects: its address, what opens it and where, how its Pod is kept, what it keeps."""

from __future__ import annotations

import json
from typing import Any

import pulumi
import pytest
import yaml
from pulumi.runtime import rpc

from infra import manifests
from infra.components import object_store
from infra.components.object_store import ObjectStore
from infra.paths import REPOSITORY
from tests import guides
from tests.unit.infra.fakes import Graph, declare

IMAGE = "localhost/kindling-object-store:0123456789ab"
FOLDER = REPOSITORY / "infra/images/object-store"
SECRET = "kubernetes:core/v1:Secret"
CREDENTIALS = "pulumi-python:dynamic/stores:Credentials"


@pytest.fixture(params=[False, True], ids=["up", "preview"])
def graph(request: pytest.FixtureRequest) -> Graph:
    def program() -> None:
        ObjectStore("object-store", image=IMAGE, users="default", pull_secrets=["registry"])

    return declare(program, stack="dev", preview=request.param)


@pytest.fixture
def deployment(graph: Graph) -> dict[str, Any]:
    spec: dict[str, Any] = graph.one("kubernetes:apps/v1:Deployment").inputs["spec"]
    return spec


@pytest.fixture
def pod(deployment: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = deployment["template"]["spec"]
    return spec


@pytest.fixture
def container(pod: dict[str, Any]) -> dict[str, Any]:
    (only,) = pod["containers"]
    return dict(only)


def instruction(name: str) -> str:
    """The only such line of the Containerfile."""
    lines = (FOLDER / "Containerfile").read_text().splitlines()
    (found,) = (line for line in lines if line.startswith(f"{name} "))
    return found.removeprefix(f"{name} ")


def test_its_address_is_its_service_and_in_its_certificate(graph: Graph) -> None:
    service = graph.one("kubernetes:core/v1:Service").inputs
    name, namespace = service["metadata"]["name"], service["metadata"]["namespace"]
    (port,) = service["spec"]["ports"]
    host = f"{name}.{namespace}.svc"
    assert f"https://{host}:{int(port['port'])}" == object_store.ENDPOINT
    assert host in graph.one(CREDENTIALS).inputs["hosts"]


def test_the_service_and_the_pod_have_one_port(graph: Graph, container: dict[str, Any]) -> None:
    """The operator opens the port of the address, and a NetworkPolicy is about the Pod's."""
    (port,) = graph.one("kubernetes:core/v1:Service").inputs["spec"]["ports"]
    (own,) = container["ports"]
    assert port["targetPort"] == own["name"]
    assert port["port"] == own["containerPort"] == int(instruction("EXPOSE"))
    assert container["args"][:2] == ["--port", f":{int(own['containerPort'])}"]


def test_the_keys_are_secrets_where_the_server_and_where_the_samples_are(graph: Graph) -> None:
    held = {
        (item.inputs["metadata"]["namespace"], item.inputs["metadata"]["name"]) for item in graph.of(SECRET)
    }
    assert held == {
        ("object-store", "object-store-keys"),
        ("object-store", "object-store-tls"),
        ("default", "object-store-keys"),
        ("default", "object-store-ca"),
    }
    for item in graph.of(SECRET):
        values = item.inputs["stringData"]
        assert rpc.is_rpc_secret(values) or isinstance(values, pulumi.output.Unknown), item.name
    assert {"accessKeyId", "secretAccessKey", "privateKey"} <= graph.one(CREDENTIALS).secret_outputs


def test_each_secret_has_what_it_is_for_and_no_more() -> None:
    def program() -> None:
        ObjectStore("object-store", image=IMAGE, users="default")

    graph = declare(program, stack="dev", preview=False)
    found = {item.name: rpc.unwrap_rpc_secret(item.inputs["stringData"]) for item in graph.of(SECRET)}
    keys = {"accessKeyId": "the accessKeyId", "secretAccessKey": "the secretAccessKey"}
    assert found == {
        "object-store-keys": keys,
        "object-store-tls": {"tls.crt": "the certificate", "tls.key": "the privateKey"},
        "object-store-user-keys": keys,
        "object-store-user-ca": {"ca.crt": "the authority"},
    }
    # In no other object, as a value that is shown.
    for item in graph.resources:
        if item.type != SECRET:
            assert not any(f"the {name}" in repr(item.inputs) for name in ("secretAccessKey", "privateKey"))


def test_the_server_has_its_keys_of_the_secret(container: dict[str, Any]) -> None:
    named = {item["name"]: item["valueFrom"]["secretKeyRef"] for item in container["env"]}
    assert named == {
        "ROOT_ACCESS_KEY_ID": {"name": "object-store-keys", "key": "accessKeyId"},
        "ROOT_SECRET_ACCESS_KEY": {"name": "object-store-keys", "key": "secretAccessKey"},
    }


def test_other_credentials_roll_the_pod() -> None:
    def program() -> None:
        ObjectStore("object-store", image=IMAGE, users="default")

    graph = declare(program, stack="dev", preview=False)
    template = graph.one("kubernetes:apps/v1:Deployment").inputs["spec"]["template"]
    assert template["metadata"]["annotations"] == {"kindling.dev/credentials": "object-store-credentials-id"}


def test_the_namespace_takes_restricted_pods_only(graph: Graph) -> None:
    namespace = graph.one("kubernetes:core/v1:Namespace").inputs["metadata"]
    assert namespace["name"] == "object-store"
    for mode in ("enforce", "audit", "warn"):
        assert namespace["labels"][f"pod-security.kubernetes.io/{mode}"] == "restricted"


def test_the_pod_is_restricted(pod: dict[str, Any], container: dict[str, Any]) -> None:
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert (
        set(container["resources"]["requests"]) == set(container["resources"]["limits"]) == {"cpu", "memory"}
    )


def test_it_runs_the_image_it_is_given_as_the_images_user(
    pod: dict[str, Any], container: dict[str, Any]
) -> None:
    assert container["image"] == IMAGE
    assert container["imagePullPolicy"] == "IfNotPresent"
    # The image says what runs; a command here would go round it.
    assert "command" not in container
    uid, gid = map(int, instruction("USER").split(":"))
    context = pod["securityContext"]
    assert [context["runAsUser"], context["runAsGroup"], context["fsGroup"]] == [uid, gid, gid]


def test_all_that_it_writes_is_on_the_volume_and_the_bucket_is_a_folder_there(
    graph: Graph, pod: dict[str, Any], container: dict[str, Any]
) -> None:
    claim = graph.one("kubernetes:core/v1:PersistentVolumeClaim").inputs
    assert "storageClassName" not in claim["spec"]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert volumes["data"]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    mounts = {
        mount["mountPath"]: mount["subPath"] for mount in container["volumeMounts"] if mount["name"] == "data"
    }
    *_, option, marks, data = container["args"]
    assert (option, mounts[marks], mounts[data]) == ("--sidecar", "marks", "data")
    assert mounts[f"{data}/{object_store.BUCKET}"] == f"data/{object_store.BUCKET}"
    # The folder around it is made first, for the user that the server is.
    assert list(mounts).index(data) < list(mounts).index(f"{data}/{object_store.BUCKET}")


def test_its_certificate_is_mounted_where_it_looks_for_it(
    pod: dict[str, Any], container: dict[str, Any]
) -> None:
    (volume,) = (volume for volume in pod["volumes"] if "secret" in volume)
    assert volume["secret"]["secretName"] == "object-store-tls"
    (mount,) = (mount for mount in container["volumeMounts"] if mount["name"] == volume["name"])
    assert mount["readOnly"] is True
    args = container["args"]
    for option, file in (("--cert", "tls.crt"), ("--key", "tls.key")):
        assert args[args.index(option) + 1] == f"{mount['mountPath']}/{file}"


def test_ready_means_that_it_answers(container: dict[str, Any]) -> None:
    args = container["args"]
    for name in ("startupProbe", "readinessProbe", "livenessProbe"):
        asked = container[name]["httpGet"]
        assert asked == {"path": args[args.index("--health") + 1], "port": "https", "scheme": "HTTPS"}


def test_the_deployment_is_what_is_waited_for(graph: Graph) -> None:
    """A claim of a class that waits for a Pod is bound by that Pod alone."""

    def annotations(type: str) -> dict[str, str]:
        found: dict[str, str] = graph.one(type).inputs["metadata"].get("annotations", {})
        return found

    for type in ("Service", "PersistentVolumeClaim"):
        assert annotations(f"kubernetes:core/v1:{type}") == {"pulumi.com/skipAwait": "true"}
    assert annotations("kubernetes:apps/v1:Deployment") == {}
    needed = graph.one("kubernetes:apps/v1:Deployment").dependencies
    own = {"object-store-keys", "object-store-tls", "object-store-data"}
    assert {item.urn for item in graph.resources if item.name in own} <= needed


def test_there_is_never_a_second_one(deployment: dict[str, Any]) -> None:
    assert deployment["replicas"] == 1
    assert deployment["strategy"] == {"type": "Recreate"}


def test_all_selectors_find_the_pod(graph: Graph, deployment: dict[str, Any]) -> None:
    labels = deployment["template"]["metadata"]["labels"]
    policy = graph.one("kubernetes:networking.k8s.io/v1:NetworkPolicy").inputs["spec"]
    selectors = [
        deployment["selector"]["matchLabels"],
        graph.one("kubernetes:core/v1:Service").inputs["spec"]["selector"],
        policy["podSelector"]["matchLabels"],
    ]
    for selector in selectors:
        assert selector
        assert selector.items() <= labels.items()


def test_only_its_port_is_open_and_nothing_outwards(graph: Graph, container: dict[str, Any]) -> None:
    policy = graph.one("kubernetes:networking.k8s.io/v1:NetworkPolicy").inputs["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert "egress" not in policy
    (rule,) = policy["ingress"]
    assert rule["from"] == [{"namespaceSelector": {}}]
    assert {port["port"] for port in rule["ports"]} == {port["containerPort"] for port in container["ports"]}


def test_the_guides_first_backup_is_of_a_sample_in_this_store() -> None:
    setting, manifest = (
        yaml.safe_load(body) for language, _, body in guides.blocks(guides.FIRST_BACKUP) if language == "yaml"
    )
    spec = manifest["spec"]
    assert setting == {"config": {"kindling:objectStore": True}}
    assert spec["endpointURL"] == object_store.ENDPOINT
    assert spec["targetURL"].startswith(f"s3://{object_store.BUCKET}/")
    assert spec["credentialsSecretRef"] == {"name": object_store.KEYS}
    assert spec["caSecretRef"] == {"name": object_store.AUTHORITY}
    assert "verify" in spec
    known = [
        (item["metadata"]["name"], item["apiVersion"].partition("/")[0])
        for item in manifests.load("samples")
        if item["kind"] == "Postgresql"
    ]
    assert (spec["databaseRef"]["name"], spec["databaseRef"]["group"]) in known


def test_the_image_is_of_one_program_alone() -> None:
    lines = (FOLDER / "Containerfile").read_text().splitlines()
    assert [line.split()[0] for line in lines if not line.startswith("#")] == [
        "FROM", "COPY", "USER", "EXPOSE", "ENTRYPOINT"
    ]  # fmt: skip
    assert instruction("FROM") == "scratch"
    _source, target = instruction("COPY").split()
    assert json.loads(instruction("ENTRYPOINT")) == [target]
