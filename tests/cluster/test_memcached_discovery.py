"""spec.discovery of a Memcached, as AWS's own client for ElastiCache meets it: it follows by itself."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from infra.drivers import maven
from infra.drivers.maven import Artifact
from tests.cluster import client_pod
from tests.cluster.secured_caches import RESOURCE
from tests.cluster.stack import ROOT, Environment, within
from tests.cluster.test_claims import hold
from tests.cluster.test_memcached import KUBELET_SECONDS, create, ready, scale, talk
from tests.cluster.test_memcached_workloads import names, servers

CLIENT = Artifact(
    "com.amazonaws:elasticache-java-cluster-client:1.2.4:jar:",
    size=548008,
    sha512="1ac4fe23f137612e4e233c7333c68695e03dc328cef29f9d3905c69778f71b60d739d3d997cbf3280c39e992de67b061e4"
    "da7b5686fac2841be4d9107db584d0",
)
# Runs a client's program as it stands: the broker's image has Java, and no compiler.
INTERPRETER = Artifact(
    "org.apache-extras.beanshell:bsh:2.0b6:jar:",
    size=389033,
    sha512="a39321a99a8a619a48b65752f6ee6b8f11d3b28ebb051082ec70a70a0d5041e83d144378df191929e3d6562bd5ee4c4f1c"
    "cadb0ba42055529d18800a41d8ae18",
)
PROGRAM = ROOT / "tests" / "cluster" / "elasticache_client.bsh"
POLL_SECONDS = 60
"""The client asks again as often as that."""
FOLLOWS_SECONDS = KUBELET_SECONDS + POLL_SECONDS + 30
KEY = "AmazonElastiCache:cluster"


def kept(name: str, program: Path) -> dict[str, Any]:
    """The client and a program for it as the ConfigMap of that name."""
    files = {
        "client.jar": maven.fetch(CLIENT),
        "interpreter.jar": maven.fetch(INTERPRETER),
        "it.bsh": program,
    }
    data = {key: base64.b64encode(path.read_bytes()).decode() for key, path in files.items()}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "binaryData": data}


@contextmanager
def java(environment: Environment, program: Path, *arguments: str) -> Iterator[str]:
    """A Pod which runs the program."""
    name = f"java-{os.urandom(3).hex()}"
    broker = environment.get("deployment", "pulsar", "-n", "pulsar")
    container = {
        "image": broker["spec"]["template"]["spec"]["containers"][0]["image"],
        "command": [
            "java",
            "-Xmx64m",
            "-cp",
            "/client/client.jar:/client/interpreter.jar",
            "bsh.Interpreter",
        ],
        "args": ["/client/it.bsh", *arguments],
        "volumeMounts": [{"name": "client", "mountPath": "/client"}],
    }
    # Too large for the annotation that a plain `apply` keeps of it.
    environment.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(kept(name, program)))
    try:
        with client_pod.running(environment, "java", container, spec=client_pod.mounted(name)) as pod:
            yield pod
    finally:
        environment.kubectl("delete", f"configmap/{name}", "--wait=false")


def known(environment: Environment, pod: str) -> tuple[list[str], int]:
    """What it knows now, and how many of its items it has just found."""
    said = re.findall(
        r"^knows (\S*) found (\d+)$", environment.kubectl("logs", pod, "--tail=20"), re.MULTILINE
    )
    return (said[-1][0].split(","), int(said[-1][1])) if said else ([], 0)


def test_a_client_that_knows_elasticache_follows_by_itself(environment: Environment) -> None:
    name = f"found-{os.urandom(3).hex()}"
    create(environment, name, size=2, workload="StatefulSet", discovery=True)
    try:
        ready(environment, name)
        hold(environment, RESOURCE, name)
        endpoint = environment.get(f"{RESOURCE}/{name}")["status"]["discovery"]["endpoint"]
        assert environment.get(f"configmap/{name}-servers")["data"]["discovery"] == endpoint
        host, _, port = endpoint.rpartition(":")
        with java(environment, PROGRAM, host, port) as pod:
            within(60, lambda: known(environment, pod) == (names(name, 2), 20))
            scale(environment, name, 3)
            within(FOLLOWS_SECONDS, lambda: known(environment, pod) == (names(name, 3), 20))
            hold(environment, RESOURCE, name)
            scale(environment, name, 2)
            within(FOLLOWS_SECONDS, lambda: known(environment, pod) == (names(name, 2), 20))
        host, _, port = servers(environment, name)[0].rpartition(":")
        held = talk(environment, host, int(port), f"get {KEY}")
        assert all(f"{server.rpartition(':')[0]}|" in held for server in names(name, 2))
    finally:
        environment.kubectl("delete", f"{RESOURCE}/{name}", "--ignore-not-found", "--wait=true")
