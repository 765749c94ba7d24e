"""The broker's objects: the address clients are given, how its Pod is kept, when it counts as ready."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from infra.components import broker
from infra.components.broker import Broker
from infra.paths import REPOSITORY
from tests.unit.infra.fakes import Graph, declare

IMAGE = "localhost/kindling-pulsar:0123456789ab"
FOLDER = REPOSITORY / "infra/images/pulsar"
MIB = {"m": 1, "g": 1024, "Mi": 1, "Gi": 1024}


@pytest.fixture(
    params=[pytest.param(False, id="up"), pytest.param(True, id="preview", marks=pytest.mark.thorough)]
)
def graph(request: pytest.FixtureRequest) -> Graph:
    def program() -> None:
        Broker("broker", image=IMAGE)

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
    """The last such line of the Containerfile, which is the one that counts."""
    lines = (FOLDER / "Containerfile").read_text().splitlines()
    return [line for line in lines if line.startswith(f"{name} ")][-1].removeprefix(f"{name} ")


def test_its_address_is_its_service(graph: Graph) -> None:
    service = graph.one("kubernetes:core/v1:Service").inputs
    name, namespace = service["metadata"]["name"], service["metadata"]["namespace"]
    assert f"pulsar://{name}.{namespace}.svc:6650" == broker.ADDRESS == "pulsar://pulsar.pulsar.svc:6650"
    assert {port["port"]: port["targetPort"] for port in service["spec"]["ports"]} == {
        6650: "pulsar",
        8080: "http",
    }


def test_it_gives_clients_that_address_and_reaches_itself_by_it(
    pod: dict[str, Any], container: dict[str, Any]
) -> None:
    """Through the Service it could not: that leads to Pods that are ready, which takes such a call."""
    assert container["args"] == ["--advertised-address=pulsar.pulsar.svc"]
    assert pod["hostAliases"] == [{"ip": "127.0.0.1", "hostnames": ["pulsar.pulsar.svc"]}]


def test_the_namespace_takes_restricted_pods_only(graph: Graph) -> None:
    namespace = graph.one("kubernetes:core/v1:Namespace").inputs["metadata"]
    assert namespace["name"] == "pulsar"
    for mode in ("enforce", "audit", "warn"):
        assert namespace["labels"][f"pod-security.kubernetes.io/{mode}"] == "restricted"


def test_the_pod_is_restricted(pod: dict[str, Any], container: dict[str, Any]) -> None:
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_it_runs_as_the_images_user_on_what_the_image_writes_to(
    pod: dict[str, Any], container: dict[str, Any]
) -> None:
    uid, gid = instruction("USER").split(":")
    context = pod["securityContext"]
    assert [context["runAsUser"], context["runAsGroup"], context["fsGroup"]] == [int(uid), int(gid), int(gid)]
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert set(mounts.values()) == set(volumes)
    assert all(volume["emptyDir"]["sizeLimit"] for volume in volumes.values())
    written = [word.partition("=")[2] for word in json.loads(instruction("ENTRYPOINT")) if "-dir=" in word]
    assert written == ["/pulsar/bookkeeper"]
    for folder in [*written, "/tmp/"]:
        assert any(folder.startswith(f"{mount}/") for mount in mounts), folder


def test_it_runs_the_image_it_is_given(container: dict[str, Any]) -> None:
    assert container["image"] == IMAGE
    assert container["imagePullPolicy"] == "IfNotPresent"
    # The image says what runs; a command here would go round it.
    assert "command" not in container


def test_the_memory_limit_fits_what_java_may_take(container: dict[str, Any]) -> None:
    options = (FOLDER / "java.options").read_text()
    heap, direct = (
        re.search(rf"-{option}(\d+)([mg])", options) for option in ("Xmx", "XX:MaxDirectMemorySize=")
    )
    limit = re.fullmatch(r"(\d+)(Mi|Gi)", container["resources"]["limits"]["memory"])
    assert heap
    assert direct
    assert limit
    wanted, given = [heap, direct], int(limit[1]) * MIB[limit[2]]
    # Classes, compiled code, 150 threads and RocksDB: 200 MiB were seen.
    assert sum(int(found[1]) * MIB[found[2]] for found in wanted) + 200 <= given
    assert {"cpu", "memory"} == set(container["resources"]["requests"])


def test_ready_means_that_a_message_went_through(container: dict[str, Any]) -> None:
    assert container["startupProbe"]["httpGet"] == {"path": "/admin/v2/brokers/health", "port": "http"}
    assert container["startupProbe"]["periodSeconds"] == 1
    # Asked for as long as the container lives: seldom, since each answer is a message.
    assert container["livenessProbe"]["httpGet"] == {"path": "/admin/v2/brokers/health", "port": "http"}
    assert container["livenessProbe"]["periodSeconds"] >= 30
    assert container["readinessProbe"]["httpGet"] == {"path": "/admin/v2/brokers/ready", "port": "http"}


def test_the_deployment_is_what_is_waited_for(graph: Graph) -> None:
    def annotations(type: str) -> dict[str, str]:
        found: dict[str, str] = graph.one(type).inputs["metadata"].get("annotations", {})
        return found

    assert annotations("kubernetes:core/v1:Service") == {"pulumi.com/skipAwait": "true"}
    assert annotations("kubernetes:apps/v1:Deployment") == {}


def test_there_is_never_a_second_one(deployment: dict[str, Any]) -> None:
    assert deployment["replicas"] == 1
    assert deployment["strategy"] == {"type": "Recreate"}


def test_all_selectors_find_the_pod(graph: Graph, deployment: dict[str, Any]) -> None:
    labels = deployment["template"]["metadata"]["labels"]
    selectors = [
        deployment["selector"]["matchLabels"],
        graph.one("kubernetes:core/v1:Service").inputs["spec"]["selector"],
        graph.one("kubernetes:networking.k8s.io/v1:NetworkPolicy").inputs["spec"]["podSelector"][
            "matchLabels"
        ],
    ]
    for selector in selectors:
        assert selector
        assert selector.items() <= labels.items()


def test_only_its_ports_are_open_and_nothing_outwards(graph: Graph, container: dict[str, Any]) -> None:
    policy = graph.one("kubernetes:networking.k8s.io/v1:NetworkPolicy").inputs["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert "egress" not in policy
    (rule,) = policy["ingress"]
    assert rule["from"] == [{"namespaceSelector": {}}]
    assert {port["port"] for port in rule["ports"]} == {port["containerPort"] for port in container["ports"]}
    assert instruction("EXPOSE").split() == ["6650", "8080"]
