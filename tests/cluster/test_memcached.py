"""Memcached as its users meet it: items through the Service, what someone edits set back, three at most."""

from __future__ import annotations

import base64
import io
import itertools
import json
import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymemcache
import pytest

from tests.cluster.application import ITEMS
from tests.cluster.stack import ROOT, Environment, within
from tests.cluster.watching import watching

RESOURCE = "memcacheds.cache.example.com"
SAMPLE = f"{RESOURCE}/memcached-sample"
KINDS = "deployments,pods,services,poddisruptionbudgets,networkpolicies"

PROGRAM = ROOT / "tests" / "cluster" / "application.py"
LISTED = 'jsonpath={.data.servers\\.json}{"\\n"}'
KUBELET_SECONDS = 150
"""For a mounted ConfigMap to be up to date: 60 s, as much again for its cache, and what a busy node takes."""
PYTHON = "/opt/kindling/bin/python"

# Says the lines given to each address and prints the answers; an answer ends where memcached falls silent.
CLIENT = """
import socket, sys
host, port, *lines = sys.argv[1:]
with socket.create_connection((host, int(port)), 10) as connection:
    connection.settimeout(1)
    connection.sendall("".join(line + "\\r\\n" for line in lines).encode())
    try:
        while part := connection.recv(65536):
            sys.stdout.write(part.decode())
    except TimeoutError:
        pass
"""


def talk(environment: Environment, host: str, port: int, *lines: str) -> str:
    """What memcached answers to these lines, asked from a Pod of its own."""
    return run(environment, CLIENT, host, str(port), *lines)


def run(environment: Environment, program: str, *arguments: str) -> str:
    """What this Python program prints, in a Pod of the operator's image."""
    command = [PYTHON, "-c", program, *arguments]
    return environment.answer({"image": image_of(environment), "command": command})


def image_of(environment: Environment) -> str:
    """The operator's, which has Python."""
    operator = environment.get("deployment", "kindling-operator", "-n", "kindling-system")
    found: str = operator["spec"]["template"]["spec"]["containers"][0]["image"]
    return found


@pytest.fixture
def cache(environment: Environment) -> Iterator[str]:
    """A Memcached of one test's own, ready; gone with all that is its own afterwards."""
    name = f"cache-{os.urandom(3).hex()}"
    manifest = (ROOT / "samples" / "memcached.yaml").read_text().replace("memcached-sample", name)
    environment.kubectl("apply", "-f", "-", stdin=manifest)
    try:
        environment.kubectl("wait", "--for=condition=Ready", f"{RESOURCE}/{name}", "--timeout=120s")
        yield name
    finally:
        environment.kubectl("delete", f"{RESOURCE}/{name}", "--ignore-not-found", "--wait=true")


@dataclass(frozen=True)
class Application:
    """`tests/cluster/application.py` in the Pod `name`, with the list of the Memcached `cache`."""

    environment: Environment
    name: str
    cache: str

    @property
    def servers_name(self) -> str:
        return f"{self.cache}-servers"

    def servers(self) -> list[str]:
        found: list[str] = self.environment.get(f"{RESOURCE}/{self.cache}")["status"]["serverList"]
        return found

    def follows(self) -> list[str]:
        """Once it finds all its items on the servers of the status; those."""
        print(f"the list reached the application after {within(KUBELET_SECONDS, self._has_all):.0f} s")
        return self.servers()

    def _has_all(self) -> bool:
        try:
            lines = self.environment.kubectl("logs", self.name, "--tail=1").splitlines()
        except AssertionError:  # the container waits for its volume
            return False
        return bool(lines) and json.loads(lines[-1]) == {"servers": self.servers(), "found": ITEMS}


def library(name: str) -> dict[str, Any]:
    """pymemcache as the ConfigMap of that name: the image has none."""
    found = io.BytesIO()
    package = Path(pymemcache.__file__).parent
    with zipfile.ZipFile(found, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(package.rglob("*.py")):
            if "test" not in path.parts:
                archive.write(path, path.relative_to(package.parent))
    data = {"pymemcache.zip": base64.b64encode(found.getvalue()).decode()}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "binaryData": data}


@contextmanager
def application(environment: Environment) -> Iterator[Application]:
    """Running or waiting; its Memcached is yet to be made. Both are gone afterwards."""
    name = f"reads-{os.urandom(3).hex()}"
    environment.apply(library(name))
    container = {
        "image": image_of(environment),
        "command": [PYTHON, "-c", PROGRAM.read_text(), "/bindings/cache"],
        "env": [{"name": "PYTHONPATH", "value": "/client/pymemcache.zip"}],
    }
    pod = pod_with_list(name, f"{name}-servers", container)
    pod["spec"]["volumes"].append({"name": "client", "configMap": {"name": name}})
    pod["spec"]["containers"][0]["volumeMounts"].append({"name": "client", "mountPath": "/client"})
    environment.apply(pod)
    try:
        yield Application(environment, name, name)
    finally:
        environment.kubectl("delete", f"pod/{name}", f"configmap/{name}", "--wait=false")
        environment.kubectl("delete", f"{RESOURCE}/{name}", "--ignore-not-found", "--wait=true")


def pod_with_list(name: str, servers: str, container: dict[str, Any]) -> dict[str, Any]:
    """A Pod that mounts this list as the guide says, and has no token of the API server."""
    mount = {"name": "cache", "mountPath": "/bindings/cache", "readOnly": True}
    spec = {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "it", **container, "volumeMounts": [mount]}],
        "volumes": [{"name": "cache", "configMap": {"name": servers}}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def create(environment: Environment, name: str, **spec: Any) -> None:
    group = RESOURCE.partition(".")[2]
    environment.apply(
        {"apiVersion": f"{group}/v1alpha1", "kind": "Memcached", "metadata": {"name": name}, "spec": spec}
    )


def ready(environment: Environment, name: str) -> None:
    """Ready for the spec as it stands."""
    generation = environment.get(f"{RESOURCE}/{name}")["metadata"]["generation"]
    path = f"jsonpath={{.status.observedGeneration}}={generation}"
    environment.kubectl("wait", f"--for={path}", f"{RESOURCE}/{name}", "--timeout=60s")
    environment.wait_ready(f"{RESOURCE}/{name}")


def scale(environment: Environment, name: str, size: int) -> None:
    environment.kubectl("scale", f"{RESOURCE}/{name}", f"--replicas={size}")
    ready(environment, name)


def split(server: str) -> tuple[str, int]:
    host, _, port = server.rpartition(":")
    return host.strip("[]"), int(port)


def test_the_sample_is_ready_and_lists_its_server(environment: Environment) -> None:
    environment.kubectl("wait", "--for=condition=Ready", SAMPLE, "--timeout=120s")
    resource = environment.get(SAMPLE)
    status = resource["status"]
    assert status["observedGeneration"] == resource["metadata"]["generation"]
    pods = environment.get("pods", "-l", status["selector"])["items"]
    assert status["serverList"] == [f"{pod['status']['podIP']}:11211" for pod in pods]
    assert not [key for key in resource["metadata"].get("annotations", {}) if "kopf" in key]
    assert not resource["metadata"].get("finalizers")


def test_an_item_is_set_and_got_through_the_service_in_64_mebibytes(environment: Environment) -> None:
    answer = talk(
        environment, "memcached-sample.default.svc", 11211,
        "set greeting 0 0 5", "hello", "get greeting", "stats settings",
    )  # fmt: skip
    assert answer.startswith("STORED\nVALUE greeting 0 5\nhello\nEND\n")
    assert f"STAT maxbytes {64 * 1024 * 1024}\n" in answer
    assert "STAT tcpport 11211\n" in answer


def test_scaling_the_deployment_is_undone(environment: Environment, cache: str) -> None:
    environment.kubectl("scale", f"deployment/{cache}", "--replicas=3")
    within(10, lambda: environment.get("deployment", cache)["spec"]["replicas"] == 1)
    environment.kubectl("wait", "--for=condition=Ready", f"{RESOURCE}/{cache}", "--timeout=60s")


def test_an_edited_image_or_probe_is_set_back(environment: Environment, cache: str) -> None:
    def container() -> dict[str, object]:
        found: dict[str, object] = environment.get("deployment", cache)["spec"]["template"]["spec"][
            "containers"
        ][0]
        return found

    before = container()
    for edit in ({"image": "memcached:other"}, {"readinessProbe": {"periodSeconds": 30}}):
        patch = {"spec": {"template": {"spec": {"containers": [{"name": "memcached", **edit}]}}}}
        environment.kubectl("patch", "deployment", cache, "--patch", json.dumps(patch))
        within(10, lambda: container() == before)
    environment.kubectl("wait", "--for=condition=Ready", f"{RESOURCE}/{cache}", "--timeout=60s")


def test_three_are_listed_and_protected_and_one_again_is_not(environment: Environment, cache: str) -> None:
    first = environment.get(f"{RESOURCE}/{cache}")["status"]["serverList"]
    environment.kubectl("scale", f"{RESOURCE}/{cache}", "--replicas=3")
    environment.kubectl("wait", "--for=jsonpath={.status.replicas}=3", f"{RESOURCE}/{cache}", "--timeout=60s")
    environment.kubectl("wait", "--for=condition=Ready", f"{RESOURCE}/{cache}", "--timeout=60s")
    servers = environment.get(f"{RESOURCE}/{cache}")["status"]["serverList"]
    assert len(servers) == 3
    assert servers == sorted(set(servers))
    assert set(first) < set(servers)  # The first was not restarted.
    for number, server in enumerate(servers):
        host, _, port = server.rpartition(":")
        said = talk(environment, host, int(port), f"set k 0 0 {len(str(number))}", str(number), "get k")
        assert said.startswith("STORED")
    assert environment.get("poddisruptionbudget", cache)["spec"]["maxUnavailable"] == 1

    environment.kubectl("scale", f"{RESOURCE}/{cache}", "--replicas=1")
    environment.kubectl("wait", "--for=delete", f"poddisruptionbudget/{cache}", "--timeout=30s")
    within(30, lambda: len(environment.get(f"{RESOURCE}/{cache}")["status"]["serverList"]) == 1)


@pytest.mark.thorough
def test_an_application_follows_the_list_without_a_right_in_the_api(environment: Environment) -> None:
    """Started before there is a cache; then through a scale-up, a roll-out and a scale-down."""
    with application(environment) as app:
        create(environment, app.cache, size=1, binding="ConfigMap")
        ready(environment, app.cache)
        first = app.follows()
        scale(environment, app.cache, 3)
        app.follows()
        assert all(
            "STAT curr_items 0\n" not in talk(environment, *split(one), "stats") for one in app.servers()
        )
        with watching(environment, "configmap", app.servers_name, f"--output={LISTED}") as seen:
            patch = json.dumps({"spec": {"memoryMB": 32}})
            environment.kubectl("patch", f"{RESOURCE}/{app.cache}", "--type=merge", "--patch", patch)
            ready(environment, app.cache)
            assert not set(app.follows()) & {*first}
        lists = [json.loads(line) for _, line in seen]
        assert all(lists), "it was empty"
        assert all(one != next for one, next in itertools.pairwise(lists)), "written, and nothing changed"
        scale(environment, app.cache, 1)
        app.follows()


def test_memcacheds_own_proxy_takes_its_configuration_from_the_list(environment: Environment) -> None:
    name = f"proxied-{os.urandom(3).hex()}"
    create(environment, name, size=3, binding="ConfigMap")
    try:
        ready(environment, name)
        pod = environment.get("deployment", name)["spec"]["template"]["spec"]["containers"][0]
        command = ["memcached", "--port=11311", "-o", "proxy_config=/bindings/cache/proxy.lua"]
        environment.apply(pod_with_list(name, f"{name}-servers", {"image": pod["image"], "command": command}))
        environment.wait_ready(f"pod/{name}")
        address = environment.get("pod", name)["status"]["podIP"]
        lines = [word for number in range(60) for word in (f"set item-{number} 0 0 1", "x")]
        assert talk(environment, address, 11311, *lines).count("STORED") == 60
        gets = [f"get item-{number}" for number in range(60)]
        assert talk(environment, address, 11311, *gets).count("VALUE") == 60
        items = [
            int(talk(environment, *split(server), "stats").split("STAT curr_items ")[1].split()[0])
            for server in environment.get(f"{RESOURCE}/{name}")["status"]["serverList"]
        ]
        assert sum(items) == 60
        assert all(items), "every cache has its share"
    finally:
        environment.kubectl("delete", "pod", name, "--ignore-not-found", "--wait=false")
        environment.kubectl("delete", f"{RESOURCE}/{name}", "--wait=true")


def test_an_edited_list_is_set_back_and_one_that_is_not_wanted_goes(
    environment: Environment, cache: str
) -> None:
    servers = f"configmap/{cache}-servers"
    resource = f"{RESOURCE}/{cache}"
    environment.kubectl("patch", resource, "--type=merge", "--patch", '{"spec":{"binding":"ConfigMap"}}')
    environment.kubectl("wait", "--for=create", servers, "--timeout=30s")
    before = environment.get(servers)["data"]
    assert before["servers"].split() == environment.get(resource)["status"]["serverList"]
    environment.kubectl("patch", servers, "--type=merge", "--patch", '{"data":{"servers":"10.6.6.6:1\\n"}}')
    within(10, lambda: environment.get(servers)["data"] == before)
    environment.kubectl("patch", resource, "--type=merge", "--patch", '{"spec":{"binding":null}}')
    environment.kubectl("wait", "--for=delete", servers, "--timeout=30s")


def test_more_than_three_are_of_the_second_version(environment: Environment, cache: str) -> None:
    first = RESOURCE.replace(".", ".v1alpha1.", 1)
    refusals = {
        f"{RESOURCE}/{cache}": (101, 100),
        f"{first}/{cache}": (4, 3),
    }
    for resource, (wanted, most) in refusals.items():
        for words in (
            ("scale", resource, f"--replicas={wanted}"),
            ("patch", resource, "--type=merge", "--patch", json.dumps({"spec": {"size": wanted}})),
        ):
            with pytest.raises(AssertionError) as refused:
                environment.kubectl(*words)
            assert f"spec.size: Invalid value: {wanted}" in str(refused.value)
            assert f"less than or equal to {most}" in str(refused.value)
    assert environment.get(f"{RESOURCE}/{cache}")["spec"]["size"] == 1

    spec = {"size": 6, "memoryMB": 16, "statistics": True, "binding": "ConfigMap"}
    environment.kubectl("patch", f"{RESOURCE}/{cache}", "--type=merge", "--patch", json.dumps({"spec": spec}))
    within(
        90, lambda: environment.get(f"{RESOURCE}/{cache}")["status"].get("statistics", {}).get("servers") == 6
    )
    environment.kubectl("wait", "--for=condition=Ready", f"{RESOURCE}/{cache}", "--timeout=90s")
    status = environment.get(f"{first}/{cache}")["status"]
    listed = environment.get(f"configmap/{cache}-servers")["data"]["servers"].split()
    assert (status["replicas"], len(set(listed))) == (6, 6)
    assert status["serverList"] == listed
    environment.kubectl("patch", f"{first}/{cache}", "--type=merge", "--patch", '{"spec":{"size":1}}')
    within(60, lambda: len(environment.get(f"{RESOURCE}/{cache}")["status"]["serverList"]) == 1)


def test_a_port_below_1024_is_bound_and_more_can_be_asked(environment: Environment, cache: str) -> None:
    spec = {"containerPort": 80, "memoryMB": 32, "maxConnections": 600, "threads": 2}
    environment.kubectl("patch", f"{RESOURCE}/{cache}", "--type=merge", "--patch", json.dumps({"spec": spec}))
    generation = environment.get(f"{RESOURCE}/{cache}")["metadata"]["generation"]
    environment.kubectl(
        "wait",
        f"--for=jsonpath={{.status.observedGeneration}}={generation}",
        f"{RESOURCE}/{cache}",
        "--timeout=60s",
    )
    environment.kubectl("wait", "--for=condition=Ready", f"{RESOURCE}/{cache}", "--timeout=90s")
    (server,) = environment.get(f"{RESOURCE}/{cache}")["status"]["serverList"]
    assert server.endswith(":80")
    answer = talk(environment, f"{cache}.default.svc", 80, "stats settings")
    for line in (f"maxbytes {32 * 1024 * 1024}", "maxconns 600", "num_threads 2", "tcpport 80"):
        assert f"STAT {line}\n" in answer


def test_deleting_leaves_nothing(environment: Environment, cache: str) -> None:
    environment.kubectl("scale", f"{RESOURCE}/{cache}", "--replicas=2")
    environment.kubectl("wait", "--for=create", f"poddisruptionbudget/{cache}", "--timeout=30s")
    mine = ("-l", f"app.kubernetes.io/instance={cache}")
    environment.kubectl("delete", f"{RESOURCE}/{cache}", "--wait=true", "--cascade=foreground", timeout=180)
    environment.kubectl("wait", "--for=delete", KINDS, *mine, "--timeout=120s")
    assert environment.get(KINDS, *mine)["items"] == []
