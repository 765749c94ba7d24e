"""Asking the cluster one runs in, with a service account as the kubelet lays it, by no kubectl."""

from __future__ import annotations

import json
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.cli.stacks import kubectl, preflight
from infra.drivers import in_cluster
from infra.drivers.cluster_context import IN_CLUSTER, Permission
from infra.drivers.in_cluster import InCluster
from infra.errors import KindlingError
from infra.resources import host
from infra.settings import stack_files
from tests.apiserver.support.accounts import with_rights
from tests.apiserver.support.apiclient import Api
from tests.apiserver.support.controlplane import ControlPlane, tool

CRDS = Permission("create", "customresourcedefinitions", "apiextensions.k8s.io")
NAMESPACES = Permission("get", "namespaces")
SCALE = Permission("patch", "deployments/scale", "apps", "default")


@pytest.fixture(scope="module")
def pod(plane: ControlPlane, api: Api, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a service account that may look at namespaces, and scale Deployments."""
    rules = [
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]},
        {"apiGroups": ["apps"], "resources": ["deployments/scale"], "verbs": ["patch"]},
    ]
    way = with_rights(plane, api, namespace="in-a-pod", account="program", rules=rules)
    folder = tmp_path_factory.mktemp("serviceaccount")
    (folder / "token").write_text(way.token + "\n")
    config = json.loads(plane.kubeconfig.read_text())
    shutil.copy(config["clusters"][0]["cluster"]["certificate-authority"], folder / "ca.crt")
    return folder


def changed(pod: Path, folder: Path, **files: str) -> Path:
    shutil.copytree(pod, folder)
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    return folder


def test_a_pod_finds_the_same_cluster_as_a_kubeconfig(
    plane: ControlPlane, pod: Path, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever proxy the Pod's environment names."""
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    access = InCluster(pod, plane.url)
    recorded = api.get("/api/v1/namespaces/kube-system").accepted()["metadata"]["uid"]
    assert access.uid() == recorded
    access.recent()


def test_the_rights_that_lack_are_named(plane: ControlPlane, pod: Path) -> None:
    access = InCluster(pod, plane.url)
    assert access.missing([CRDS, NAMESPACES, SCALE]) == [CRDS]


def test_a_token_that_the_kubelet_renewed_is_used(plane: ControlPlane, pod: Path, tmp_path: Path) -> None:
    folder = changed(pod, tmp_path / "account", token="canary-token")
    access = InCluster(folder, plane.url)
    with pytest.raises(KindlingError, match="does not accept its credentials") as raised:
        access.uid()
    assert "canary-token" not in str(raised.value)
    shutil.copy(pod / "token", folder / "token")
    assert access.uid()


@pytest.fixture
def babbling() -> Iterator[str]:
    """A server that closes each connection in the midst of its greeting."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                connection.sendall(b"no TLS")
                connection.close()

        threading.Thread(target=serve, daemon=True).start()
        yield f"https://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


def test_each_way_to_fail_is_one_message(
    plane: ControlPlane, api: Api, pod: Path, tmp_path: Path, babbling: str
) -> None:
    other = next(iter(_authorities()))
    untrusting = changed(pod, tmp_path / "b", ca_crt=other)
    cases: dict[str, tuple[InCluster, str]] = {
        "elsewhere": (InCluster(tmp_path / "none", plane.url), "this is no Pod with a service account"),
        "closed": (InCluster(pod, "https://127.0.0.1:9"), "cannot be reached"),
        "babbling": (InCluster(pod, babbling), "cannot be reached"),
        "not-trusted": (InCluster(untrusting, plane.url), "cannot be reached"),
    }
    for name, (access, what) in cases.items():
        with pytest.raises(KindlingError) as raised:
            access.uid()
        assert what in raised.value.what, name
        assert raised.value.why, name
        assert raised.value.remedy, name
    few = with_rights(plane, api, namespace="in-a-pod", account="nobody", rules=[])
    with pytest.raises(KindlingError, match="lack a right"):
        InCluster(changed(pod, tmp_path / "c", token=few.token), plane.url).uid()


def _authorities() -> list[str]:
    """Authorities that others trust."""
    found = ssl.create_default_context().get_ca_certs(binary_form=True)
    return [ssl.DER_cert_to_PEM_cert(found[0])]


def test_the_providers_kubeconfig_leads_into_the_same_cluster_and_has_no_secret(
    plane: ControlPlane, pod: Path, tmp_path: Path
) -> None:
    """By client-go, which Pulumi's provider uses as well."""
    token = (pod / "token").read_text().strip()
    text = in_cluster.kubeconfig(pod, plane.url)
    assert token not in text
    (tmp_path / "config").write_text(text)
    words = ["get", "namespace", "kube-system", "--output=jsonpath={.metadata.uid}"]
    done = subprocess.run(
        [tool("kubectl"), f"--kubeconfig={tmp_path / 'config'}", f"--context={IN_CLUSTER}", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == InCluster(pod, plane.url).uid()
    # Of a Pod's own: paths and a name that exist in a cluster alone.
    default: dict[str, Any] = json.loads(in_cluster.kubeconfig())
    assert default["clusters"][0]["cluster"]["server"] == "https://kubernetes.default.svc"
    assert default["users"][0]["user"] == {"tokenFile": f"{in_cluster.FOLDER}/token"}


def test_whoever_asks_for_a_cluster_gets_the_pods_own_by_that_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The resource and the command line; kubectl too, whatever file KUBECONFIG names."""
    monkeypatch.setattr(stack_files, "context", lambda _stack: IN_CLUSTER)
    found = [
        host.cluster_context(IN_CLUSTER),
        host.context_readonly(IN_CLUSTER),
        preflight.context_of("prod", kubectl=tmp_path / "none"),
    ]
    assert [type(each) for each in found] == [InCluster] * 3
    monkeypatch.setenv("KINDLING_CACHE", str(tmp_path))
    assert kubectl.arguments("prod", ["get", "pods"]) == [f"--context={IN_CLUSTER}", "get", "pods"]
    for _ in range(2):
        [(name, file)] = kubectl.environment("prod").items()
        assert (name, Path(file).read_text()) == ("KUBECONFIG", in_cluster.kubeconfig())
