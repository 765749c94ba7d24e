"""NetworkPolicies by what connections meet: our agent's on the assembled node image, kindnetd's on kind's."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.cluster.connections import Client, client, listen
from tests.cluster.stack import Environment, within

INSIDE, OUTSIDE = "network-inside", "network-outside"
PORTS = {"data": 5000, "admin": 5010}
SERVER = {"matchLabels": {"app": "server"}}
TEAM = {"matchLabels": {"team": "a"}}
MATE = {"matchLabels": {"role": "mate"}}
THERE = {"matchLabels": {"kubernetes.io/metadata.name": OUTSIDE}}
EVERYBODY = {"mate", "stranger", "outsider"}


@dataclass(frozen=True)
class Ground:
    """A server and three clients: two in its namespace, of which one has the role `mate`, and one outside."""

    environment: Environment
    address: str
    clients: dict[str, Client]

    def enforce(self, spec: dict[str, Any]) -> None:
        """This policy, and no other, in the server's namespace."""
        metadata = {"name": "policy", "namespace": INSIDE}
        body = {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": metadata,
            "spec": spec,
        }
        self.environment.kubectl("apply", "-f", "-", stdin=json.dumps(body))

    def free(self) -> None:
        self.environment.kubectl("delete", "networkpolicy", "--all", "-n", INSIDE)


@pytest.fixture(scope="module")
def ground(environment: Environment) -> Iterator[Ground]:
    for name in (INSIDE, OUTSIDE):
        labels = {"team": "a"} if name == OUTSIDE else {}
        metadata = {"name": name, "labels": labels}
        environment.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    try:
        address = listen(environment, "server", namespace=INSIDE, ports=PORTS)
        with (
            client(environment, namespace=INSIDE, labels=MATE["matchLabels"]) as mate,
            client(environment, namespace=INSIDE) as stranger,
            client(environment, namespace=OUTSIDE, labels=MATE["matchLabels"]) as outsider,
        ):
            yield Ground(environment, address, {"mate": mate, "stranger": stranger, "outsider": outsider})
    finally:
        environment.kubectl("delete", "namespace", INSIDE, OUTSIDE, timeout=180)


@pytest.fixture(autouse=True)
def _free(ground: Ground) -> Iterator[None]:
    yield
    ground.free()


def test_without_a_policy_everybody_gets_in(ground: Ground) -> None:
    for who in ground.clients.values():
        for port in PORTS.values():
            who.reaches(ground.address, port)
        assert who.tries(ground.address, 5999) == "refused"


@pytest.mark.parametrize(
    ("peers", "admitted"),
    [
        pytest.param([{"podSelector": {}}], {"mate", "stranger"}, id="own namespace"),
        pytest.param([{"podSelector": MATE}], {"mate"}, id="label"),
        pytest.param([{"namespaceSelector": THERE}], {"outsider"}, id="namespace by name"),
        pytest.param([{"namespaceSelector": TEAM, "podSelector": MATE}], {"outsider"}, id="both at once"),
        pytest.param([{"namespaceSelector": TEAM}, {"podSelector": MATE}], {"outsider", "mate"}, id="either"),
        pytest.param([{"namespaceSelector": {}}], EVERYBODY, id="every namespace"),
        pytest.param([{"namespaceSelector": {}, "podSelector": MATE}], {"mate", "outsider"}, id="anywhere"),
        pytest.param([{"ipBlock": {"cidr": "0.0.0.0/0"}}], EVERYBODY, id="any address"),
    ],
)
def test_who_gets_in(ground: Ground, peers: list[dict[str, Any]], admitted: set[str]) -> None:
    ground.enforce({"podSelector": SERVER, "ingress": [{"from": peers}]})
    for name in sorted(EVERYBODY, key=admitted.__contains__):
        who = ground.clients[name]
        (who.reaches if name in admitted else who.is_kept_out)(ground.address, PORTS["data"])


def test_an_address_may_be_excepted(ground: Ground) -> None:
    mate = ground.clients["mate"]
    own = ground.environment.get("pod", mate.name, "-n", INSIDE)["status"]["podIP"]
    block = {"cidr": "0.0.0.0/0", "except": [f"{own}/32"]}
    ground.enforce({"podSelector": SERVER, "ingress": [{"from": [{"ipBlock": block}]}]})
    mate.is_kept_out(ground.address, PORTS["data"])
    ground.clients["outsider"].reaches(ground.address, PORTS["data"])


@pytest.mark.parametrize(
    "port",
    [{"port": "data"}, {"port": 5000, "protocol": "TCP"}, {"port": 4990, "endPort": 5009}],
    ids=["name", "number", "range"],
)
def test_at_which_port(ground: Ground, port: dict[str, Any]) -> None:
    ground.enforce({"podSelector": SERVER, "ingress": [{"ports": [port]}]})
    for who in ground.clients.values():
        who.is_kept_out(ground.address, PORTS["admin"])
        who.reaches(ground.address, PORTS["data"])


def test_who_lets_nobody_in_is_still_asked_by_the_kubelet(ground: Ground) -> None:
    ground.enforce({"podSelector": {}, "policyTypes": ["Ingress"]})
    for who in ground.clients.values():
        who.is_kept_out(ground.address, PORTS["data"])
    time.sleep(5)  # Three probes without an answer, and it would not be ready.
    ground.environment.wait_ready("pod/server", "-n", INSIDE, seconds=1)


def test_where_to(ground: Ground) -> None:
    """Outwards a policy holds for its own Pods; DNS, too, must be allowed."""
    mate = ground.clients["mate"]
    dns = ground.environment.get("service", "kube-dns", "-n", "kube-system")["spec"]["clusterIP"]
    mate.reaches(dns, 53)
    ground.enforce({"podSelector": MATE, "policyTypes": ["Egress"]})
    mate.is_kept_out(ground.address, PORTS["data"])
    mate.is_kept_out(dns, 53)
    ground.clients["stranger"].reaches(ground.address, PORTS["data"])
    to_server = {"to": [{"podSelector": SERVER}], "ports": [{"port": "data"}]}
    ground.enforce({"podSelector": MATE, "policyTypes": ["Egress"], "egress": [to_server]})
    mate.reaches(ground.address, PORTS["data"])
    mate.is_kept_out(ground.address, PORTS["admin"])


def test_what_may_go_out_may_yet_not_come_in(ground: Ground) -> None:
    """Both sides have a say."""
    isolated = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"], "egress": [{}]}
    ground.enforce(isolated)
    ground.clients["mate"].is_kept_out(ground.address, PORTS["data"])
    ground.enforce({**isolated, "ingress": [{}], "egress": []})
    ground.clients["mate"].is_kept_out(ground.address, PORTS["data"])
    ground.enforce({**isolated, "ingress": [{}]})
    ground.clients["mate"].reaches(ground.address, PORTS["data"])


def test_a_policy_follows_labels_and_ends_with_its_object(ground: Ground) -> None:
    stranger = ground.clients["stranger"]
    ground.enforce({"podSelector": SERVER, "ingress": [{"from": [{"podSelector": MATE}]}]})
    stranger.is_kept_out(ground.address, PORTS["data"])
    ground.environment.kubectl("label", "pod", stranger.name, "-n", INSIDE, "role=mate")
    stranger.reaches(ground.address, PORTS["data"])
    ground.environment.kubectl("label", "pod", stranger.name, "-n", INSIDE, "role-")
    stranger.is_kept_out(ground.address, PORTS["data"])
    ground.free()
    stranger.reaches(ground.address, PORTS["data"])


def test_a_database_admits_its_own_namespace_and_nobody_else(ground: Ground) -> None:
    """Logins of the operator, from a namespace of its own, go on: the resource stays Ready."""
    service = "mydb.default.svc.cluster.local"
    address = ground.environment.get("pod", "mydb-0")["status"]["podIP"]
    with client(ground.environment) as neighbour:
        neighbour.reaches(service, 5432)
    ground.clients["outsider"].is_kept_out(address, 5432)
    ground.clients["outsider"].is_kept_out(service, 5432)
    ready = "postgresqls.database.db.example.com/mydb"
    within(60, lambda: ground.environment.get(ready)["status"]["pgPhase"] == "up")
