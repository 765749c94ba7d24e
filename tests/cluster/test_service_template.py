"""spec.serviceTemplate and the Pods' account with real nodes: who reaches a database by a node's port, and as
whom Pods run.

The client is a Pod of another namespace that connects to the node's address: to the NetworkPolicy it is an
address from outside, which the database's own namespace does not cover.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.connections import Client, client
from tests.cluster.stack import Environment, within

DATABASE, CACHE = "postgresqls.database.db.example.com", "memcacheds.cache.example.com"
OUTSIDE = "service-outside"
SECONDS = 180.0
# A server of PostgreSQL answers the request for TLS with one byte, S or N.
_GREET = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), 10) as server:
    server.sendall(bytes.fromhex("0000000804d2162f"))
    print(server.recv(1).decode())
"""


@pytest.fixture(scope="module")
def outsider(environment: Environment) -> Iterator[Client]:
    environment.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OUTSIDE}})
    try:
        with client(environment, namespace=OUTSIDE) as found:
            yield found
    finally:
        environment.kubectl("delete", "namespace", OUTSIDE, timeout=180)


@pytest.fixture(scope="module")
def database(environment: Environment) -> Iterator[str]:
    """A Postgresql whose Service has a port of the node."""
    name = f"served-{os.urandom(3).hex()}"
    spec = {
        "storage": {"size": "256Mi"},
        "deletionPolicy": "Delete",
        "serviceTemplate": {
            "metadata": {"annotations": {"example.com/zone": "dmz"}},
            "spec": {"type": "NodePort", "externalTrafficPolicy": "Local"},
        },
    }
    body = {"apiVersion": "database.db.example.com/v1", "kind": "Postgresql", "metadata": {"name": name}}
    environment.apply({**body, "spec": spec})
    try:
        environment.wait_ready(f"{DATABASE}/{name}", seconds=180)
        yield name
    finally:
        environment.kubectl("delete", f"{DATABASE}/{name}", "--ignore-not-found", "--wait=true")


def edit(environment: Environment, resource: str, spec: dict[str, Any]) -> None:
    environment.kubectl("patch", resource, "--type=merge", f"--patch={json.dumps({'spec': spec})}")


def address(environment: Environment, pod: str) -> tuple[str, int]:
    """Address of the Pod's node, and the port there of the Service of the same resource."""
    node = environment.get("pod", f"{pod}-0")["spec"]["nodeName"]
    addresses = environment.get("node", node)["status"]["addresses"]
    host = next(item["address"] for item in addresses if item["type"] == "InternalIP")
    return str(host), int(environment.get("service", pod)["spec"]["ports"][0]["nodePort"])


def greeted(environment: Environment, who: Client, host: str, port: int) -> str:
    words = ("python3", "-c", _GREET, host, str(port))
    return environment.kubectl("exec", "-n", who.namespace, who.name, "--", *words, timeout=60).strip()


def ready(environment: Environment, resource: str) -> bool:
    """Of the spec as it stands."""
    found = environment.get(resource)
    return any(
        item["type"] == "Ready"
        and item["status"] == "True"
        and item["observedGeneration"] == found["metadata"]["generation"]
        for item in found["status"].get("conditions", [])
    )


def test_a_database_is_reached_by_a_nodes_port_from_the_addresses_that_are_admitted(
    environment: Environment, database: str, outsider: Client
) -> None:
    resource = f"{DATABASE}/{database}"
    assert environment.get("service", database)["metadata"]["annotations"]["example.com/zone"] == "dmz"
    host, port = address(environment, database)
    outsider.is_kept_out(host, port)
    own = environment.get("pod", outsider.name, "-n", OUTSIDE)["status"]["podIP"]
    edit(environment, resource, {"allowedFrom": [{"ipBlock": {"cidr": f"{own}/32"}}]})
    outsider.reaches(host, port)
    assert greeted(environment, outsider, host, port) in ("N", "S")
    # What applications use within the cluster is what it was.
    assert environment.psql(database, "SELECT 1", retried=True) == "1"
    edit(environment, resource, {"allowedFrom": None})
    outsider.is_kept_out(host, port)


def test_a_load_balancer_without_an_address_leaves_the_database_ready(
    environment: Environment, database: str
) -> None:
    """The cluster has nothing that would give it one."""
    resource = f"{DATABASE}/{database}"
    inside = environment.get("service", database)["spec"]["clusterIP"]
    edit(environment, resource, {"serviceTemplate": {"spec": {"type": "LoadBalancer"}}})
    within(SECONDS, lambda: environment.get("service", database)["spec"]["type"] == "LoadBalancer")
    within(SECONDS, lambda: ready(environment, resource))
    found = environment.get("service", database)
    assert found["status"]["loadBalancer"] == {}
    assert found["spec"]["clusterIP"] == inside
    assert environment.psql(database, "SELECT 1", retried=True) == "1"
    edit(environment, resource, {"serviceTemplate": None})
    within(SECONDS, lambda: environment.get("service", database)["spec"]["type"] == "ClusterIP")
    assert "nodePort" not in environment.get("service", database)["spec"]["ports"][0]
    within(SECONDS, lambda: ready(environment, resource))


def test_pods_run_as_an_account_once_it_exists_and_have_no_token(environment: Environment) -> None:
    name = f"account-{os.urandom(3).hex()}"
    resource = f"{CACHE}/{name}"
    body = {"apiVersion": "cache.example.com/v1alpha1", "kind": "Memcached", "metadata": {"name": name}}
    template = {"spec": {"serviceAccountName": name}}
    environment.apply({**body, "spec": {"size": 1, "podTemplate": template}})
    try:
        within(SECONDS, lambda: f'serviceaccount "{name}" not found' in said(environment, resource))
        assert "Create that ServiceAccount, or name another in spec.podTemplate" in said(
            environment, resource
        )
        environment.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
        within(SECONDS, lambda: ready(environment, resource))
        [pod] = environment.get("pods", "-l", f"app.kubernetes.io/instance={name}")["items"]
        assert pod["spec"]["serviceAccountName"] == name
        assert pod["spec"].get("volumes", []) == []
    finally:
        environment.kubectl("delete", resource, "--ignore-not-found", "--wait=true")
        environment.kubectl("delete", "serviceaccount", name, "--ignore-not-found")


def said(environment: Environment, resource: str) -> str:
    """The message of Ready; empty until there is one."""
    conditions = environment.get(resource).get("status", {}).get("conditions", [])
    return next((str(item["message"]) for item in conditions if item["type"] == "Ready"), "")
