"""A server has its certificate from cert-manager, whose real controller runs beside the cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.apiserver.support import cert_manager
from tests.cluster.stack import Environment, within
from tests.cluster.test_claims import hold
from tests.cluster.test_tls import DELIVERED_SECONDS, PLURAL, asks, client, database, server, status_of

pytestmark = pytest.mark.thorough

ISSUER, CERTIFICATE = "tls-private-ca", "certificates.cert-manager.io"
LOAD_SECONDS = 180


@pytest.fixture
def issuer(environment: Environment, tmp_path: Path) -> Iterator[str]:
    """The name of a ClusterIssuer with its own authority; at the end, the cluster has no cert-manager."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(environment.kubectl("config", "view", "--raw", "--minify"))
    files = [f"--filename={path}" for path in cert_manager.definitions()]
    environment.kubectl("create", *files)
    try:
        environment.kubectl("wait", "--for=condition=Established", "--timeout=60s", *files)
        with cert_manager.controller(kubeconfig, log=tmp_path / "cert-manager.log"):
            make(environment, "ClusterIssuer", "tls-self-signed", {"selfSigned": {}})
            of = {"name": "tls-self-signed", "kind": "ClusterIssuer"}
            ca = {"secretName": ISSUER, "isCA": True, "commonName": ISSUER, "issuerRef": of}
            make(environment, "Certificate", ISSUER, ca)
            make(environment, "ClusterIssuer", ISSUER, {"ca": {"secretName": ISSUER}})
            environment.wait_ready(f"clusterissuer/{ISSUER}", seconds=60)
            yield ISSUER
    finally:
        environment.kubectl("delete", "--ignore-not-found", *files)
        environment.kubectl("delete", "--ignore-not-found", f"secret/{ISSUER}")


def make(environment: Environment, kind: str, name: str, spec: dict[str, Any]) -> None:
    body = {"apiVersion": "cert-manager.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
    environment.apply(body)


@contextmanager
def load(environment: Environment, pod: str) -> Iterator[None]:
    """Clients that keep their connections, and clients with one for each transaction: none may fail."""
    environment.kubectl("exec", pod, "--", "pgbench", "--initialize", "--quiet", "--scale=1")
    words = ("pgbench", "--no-vacuum", "--client=4", f"--time={LOAD_SECONDS}", "--builtin=simple-update")
    running = [environment.start("exec", pod, "--", *words, *more) for more in ((), ("--connect",))]
    yield
    for each in running:
        assert each.poll() is None, "it ended before what it was to meet"
    for each in running:
        printed, errors = each.communicate(timeout=LOAD_SECONDS + 60)
        assert each.returncode == 0, errors
        assert "number of failed transactions: 0 " in printed, printed


def test_it_is_served_and_a_renewal_fails_no_transaction(environment: Environment, issuer: str) -> None:
    tls = {"issuerRef": {"name": issuer, "kind": "ClusterIssuer"}}

    def ends(name: str) -> str:
        """By cert-manager's word."""
        found = environment.get(f"{CERTIFICATE}/{name}-server-issued")
        return str(found["status"]["notAfter"])

    with database(environment, "tls-issued", tls=tls) as name, client(environment, name) as pod:
        before = server(environment, name)
        assert asks(environment, pod, "verify-full") == "t"
        said = status_of(environment, name)["tls"]
        assert (said["issuer"], said["notAfter"]) == (f"CN={issuer}", ends(name))
        hold(environment, PLURAL, name)
        with load(environment, pod):
            first = ends(name)
            patch = json.dumps([{"op": "add", "path": "/status/conditions/-", "value": cert_manager.RENEW}])
            certificate = f"{CERTIFICATE}/{name}-server-issued"
            words = ("--subresource=status", "--type=json", f"--patch={patch}")
            environment.kubectl("patch", certificate, *words)
            within(30, lambda: ends(name) != first)
            second = ends(name)
            within(DELIVERED_SECONDS, lambda: status_of(environment, name)["tls"]["notAfter"] == second)
            assert asks(environment, pod, "verify-full") == "t"
        assert server(environment, name) == before
        hold(environment, PLURAL, name)
