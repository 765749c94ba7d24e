"""Memcached as its users meet it: items through the Service, what someone edits set back, three at most."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest

from tests.cluster.stack import ROOT, Environment, within

RESOURCE = "memcacheds.cache.example.com"
SAMPLE = f"{RESOURCE}/memcached-sample"
KINDS = "deployments,pods,services,poddisruptionbudgets,networkpolicies"

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
    """What memcached answers to these lines, asked from a Pod of its own.

    The Pod is of the operator's image, which has Python.
    """
    operator = environment.get("deployment", "kindling-operator", "-n", "kindling-system")
    image = operator["spec"]["template"]["spec"]["containers"][0]["image"]
    command = ["/opt/kindling/bin/python", "-c", CLIENT, host, str(port), *lines]
    return environment.answer({"image": image, "command": command})


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


def test_four_are_refused_by_field_and_value(environment: Environment, cache: str) -> None:
    for words in (
        ("scale", f"{RESOURCE}/{cache}", "--replicas=4"),
        ("patch", f"{RESOURCE}/{cache}", "--type=merge", "--patch", '{"spec":{"size":4}}'),
    ):
        with pytest.raises(AssertionError) as refused:
            environment.kubectl(*words)
        assert "spec.size: Invalid value: 4" in str(refused.value)
        assert "less than or equal to 3" in str(refused.value)
    assert environment.get(f"{RESOURCE}/{cache}")["spec"]["size"] == 1


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
