"""The Python client of a release, installed from its wheel, against a real API server and operator.

In place of the package `kubernetes`, on which this project does not depend, stands a module with the same
names that sends the same requests.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from infra import manifests
from infra.distribution import wheel
from infra.paths import REPOSITORY
from tests.apiserver.support.cluster import KINDS_BY_NAME, Cluster, ref_to
from tests.apiserver.support.kinds import PULSAR_CONSUMER
from tests.guides import blocks

SECONDS = 120
KUBERNETES = """\
import json, os, ssl, types, urllib.error, urllib.parse, urllib.request

class ApiException(Exception):
    def __init__(self, status, body):
        super().__init__(f"{status}: {body}")
        self.status = status

def send(method, place, body=None, content="application/json", **query):
    group, version, namespace, *rest = place
    path = "/".join(["/apis", group, version, "namespaces", namespace, *rest])
    request = urllib.request.Request(
        os.environ["API"] + path + "?" + urllib.parse.urlencode(query), method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": "Bearer " + os.environ["TOKEN"], "Content-Type": content},
    )
    context = ssl.create_default_context(cafile=os.environ["CA"])
    try:
        with urllib.request.urlopen(request, context=context, timeout=30) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        raise ApiException(error.code, error.read().decode()) from None

class CustomObjectsApi:
    def get_namespaced_custom_object(self, *place):
        return send("GET", place)
    def list_namespaced_custom_object(self, *place, label_selector):
        return send("GET", place, labelSelector=label_selector)
    def create_namespaced_custom_object(self, *words):
        return send("POST", words[:-1], words[-1], fieldValidation="Strict")
    def patch_namespaced_custom_object(self, *words, field_manager, force, _content_type):
        options = {"fieldManager": field_manager, "force": str(force).lower(), "fieldValidation": "Strict"}
        return send("PATCH", words[:-1], words[-1], content=_content_type, **options)
    def delete_namespaced_custom_object(self, *place):
        return send("DELETE", place)

client = types.SimpleNamespace(CustomObjectsApi=CustomObjectsApi, ApiException=ApiException)
config = types.SimpleNamespace(load_kube_config=lambda: None)
"""
EVERY_METHOD = """\
from kubernetes import client
from kindling_client import mycustomresource as kind
from kindling_client.client import Client

things = Client(client.CustomObjectsApi(), kind.RESOURCE, "default")
head = {"apiVersion": kind.API_VERSION, "kind": kind.KIND}
meta = {"name": "asked", "labels": {"team": "a"}}
made = things.create({**head, "metadata": meta, "spec": {"name": "nobody"}})
assert made["spec"]["name"] == "nobody" and things.get("asked")["metadata"]["uid"] == made["metadata"]["uid"]
assert [found["metadata"]["name"] for found in things.list(label_selector="team=a")] == ["asked"]
assert things.list(label_selector="team=b") == []
changed = {**head, "metadata": {"name": "asked"}, "spec": {"name": "somebody"}}
try:
    things.apply(changed)
    raise SystemExit("another manager's field was taken")
except client.ApiException as error:
    assert error.status == 409, error
assert things.apply(changed, force=True)["spec"]["name"] == "somebody"
read = things.get("asked")
read["spec"]["name"] = "again"
read["metadata"].pop("resourceVersion")  # the operator writes the status meanwhile
assert things.apply(read, force=True)["spec"]["name"] == "again"
try:
    ready = things.wait_ready("asked", timeout_seconds=WAIT, poll_seconds=0.2)
    found = things.get("asked")
    assert ready["status"]["observedGeneration"] == found["metadata"]["generation"]
    print("ready of generation", found["metadata"]["generation"])
except TimeoutError as error:
    print(error)
things.delete("asked")
"""
IN_VAIN = """\
from kubernetes import client
from kindling_client import pulsarconsumer as kind
from kindling_client.client import Client

consumers = Client(client.CustomObjectsApi(), kind.RESOURCE, "default")
spec: kind.PulsarConsumerSpec = {
    "serverAddress": "pulsar://far:6650", "topic": "t", "subscriptionName": "s", "replicas": 1,
    "auth": {"tokenSecretRef": {"name": "missing"}},
}
consumers.create(
    {"apiVersion": kind.API_VERSION, "kind": kind.KIND, "metadata": {"name": "orders"}, "spec": spec}
)
try:
    consumers.wait_ready("orders", timeout_seconds=10)
except TimeoutError as error:
    print(error)
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("client")
    ((name, content),) = wheel.files(REPOSITORY, manifests.definitions(), version="1.2.3").items()
    (folder / name).write_bytes(content)
    words = ["--quiet", "--no-deps", "--no-index", "--target", str(folder / "site"), str(folder / name)]
    subprocess.run([sys.executable, "-m", "pip", "install", *words], check=True, timeout=120)
    (folder / "site/kubernetes.py").write_text(KUBERNETES)
    return folder / "site"


def start(program: str, site: Path, cluster: Cluster) -> subprocess.CompletedProcess[str]:
    plane = cluster.plane
    return subprocess.run(
        [sys.executable, "-c", program],
        env={
            **os.environ,
            "PYTHONPATH": str(site),
            "API": plane.url,
            "TOKEN": plane.token,
            "CA": str(plane.ca),
        },
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )


def run(program: str, site: Path, cluster: Cluster) -> str:
    done = start(program, site, cluster)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_before_the_operator_runs_a_wait_says_so(site: Path, running_cluster: Cluster) -> None:
    said = run(EVERY_METHOD.replace("WAIT", "1"), site, running_cluster)
    assert "MyCustomResource default/asked is not ready after 1 s: it has no condition Ready yet" in said


@pytest.mark.usefixtures("replica")
def test_a_wait_ends_once_the_operator_has_reported(site: Path, running_cluster: Cluster) -> None:
    assert run(EVERY_METHOD.replace("WAIT", "60"), site, running_cluster) == "ready of generation 3\n"


@pytest.mark.usefixtures("replica")
def test_the_guides_program_does_what_it_says(site: Path, running_cluster: Cluster) -> None:
    text = (REPOSITORY / "docs/guides/python-client.md").read_text()
    (program,) = [body for language, _, body in blocks(text) if language == "python"]
    assert run(program, site, running_cluster) == "sessions is ready\n['sessions']\n"


@pytest.mark.usefixtures("replica")
def test_a_wait_in_vain_says_what_the_operator_says(site: Path, running_cluster: Cluster) -> None:
    said = run(IN_VAIN, site, running_cluster)
    ready = running_cluster.ready(ref_to(KINDS_BY_NAME[PULSAR_CONSUMER.id], "default", "orders"))
    assert ready["reason"] == "SecretNotFound"
    assert said == (
        f"PulsarConsumer default/orders is not ready after 10 s: {ready['reason']}: {ready['message']}\n"
    )
