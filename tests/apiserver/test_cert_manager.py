"""A Postgresql has its certificate from cert-manager: its real controller, on the real API server.

What a server then does with it, `tests/cluster/test_cert_manager.py` shows.
"""

from __future__ import annotations

import base64
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from kindling.kube.resources import CERTIFICATE, SECRET, STATEFUL_SET, Ref

from infra import rbac
from tests.apiserver.support import cert_manager, differ
from tests.apiserver.support.accounts import with_rights
from tests.apiserver.support.apiclient import Json
from tests.apiserver.support.audit import wait_until
from tests.apiserver.support.cluster import KINDS_BY_NAME, Cluster, cluster, path, ref_to, role_rule
from tests.apiserver.support.kinds import POSTGRESQL
from tests.apiserver.support.operator_process import OperatorProcess, operator
from tests.convergence.rights import denied, of_cert_manager, used

pytestmark = pytest.mark.thorough

KIND = KINDS_BY_NAME[POSTGRESQL.id]
SECONDS = 90.0


@dataclass
class Scenario:
    """One database, to which one thing after the other happens: the tests below, in their order."""

    cluster: Cluster
    process: OperatorProcess
    mark: int
    directory: Path
    namespace: str = "issued"

    @property
    def database(self) -> Ref:
        return ref_to(KIND, self.namespace, "db")

    @property
    def certificate(self) -> Ref:
        return Ref(CERTIFICATE, self.namespace, "db-server-issued")

    def data(self, suffix: str, *, of: str = "db") -> dict[str, str]:
        found = (self.cluster.get(Ref(SECRET, self.namespace, f"{of}-{suffix}")) or {}).get("data") or {}
        return {key: base64.b64decode(value).decode() for key, value in found.items()}

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        wait_until(
            condition,
            seconds=SECONDS,
            what=lambda: (
                f"{what}; Ready is {self.cluster.ready(self.database)}\n{self.process.log()[-3000:]}"
            ),
        )

    def reason(self, reason: str) -> str:
        found: Json = {}

        def reached() -> bool:
            found.clear()
            found.update(self.cluster.ready(self.database))
            return bool(found.get("reason") == reason)

        self.wait(reached, reason)
        return str(found["message"])


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scenario]:
    """A cluster without cert-manager, for its kinds stay once they are installed."""
    directory = tmp_path_factory.mktemp("issued")
    with cluster(directory=directory) as place, operator(place.operator_plane, kept=True) as process:
        process.wait_ready()
        place.namespace("issued")
        yield Scenario(place, process, place.audit.mark(), directory)


@pytest.fixture(scope="module")
def with_cert_manager(scenario: Scenario) -> Iterator[None]:
    cert_manager.install(scenario.cluster.api)
    with cert_manager.controller(
        scenario.cluster.plane.kubeconfig, log=scenario.directory / "cert-manager.log"
    ):
        yield


def test_a_cluster_without_cert_manager_is_said_so(scenario: Scenario) -> None:
    tls = {"issuerRef": {"name": "private-ca"}}
    scenario.cluster.create(KIND, scenario.namespace, "db", {"tls": tls})
    message = scenario.reason("CertManagerNotFound")
    assert message.startswith("spec.tls.issuerRef.name 'private-ca': ")
    assert "install cert-manager" in message
    assert scenario.cluster.get(Ref(STATEFUL_SET, scenario.namespace, "db")) is None
    assert not scenario.data("server-ca"), "no authority of its own is made"


@pytest.mark.usefixtures("with_cert_manager")
def test_an_issuer_that_is_missing_is_said_once_cert_manager_is_there(scenario: Scenario) -> None:
    message = scenario.reason("CertificatePending")
    assert "Issuer 'private-ca' in namespace 'issued' exists and is Ready" in message
    assert scenario.cluster.get(Ref(STATEFUL_SET, scenario.namespace, "db")) is None


@pytest.mark.usefixtures("with_cert_manager")
def test_what_is_issued_is_served(scenario: Scenario) -> None:
    cert_manager.authority(scenario.cluster.api, scenario.namespace, "private-ca")
    stateful_set = Ref(STATEFUL_SET, scenario.namespace, "db")
    scenario.wait(
        lambda: scenario.cluster.get(stateful_set) is not None, "a server, once there is a certificate"
    )
    served, authority = scenario.data("server-tls"), scenario.data("ca", of="private-ca")["tls.crt"]
    assert served["ca.crt"] == authority
    assert scenario.data("binding")["ca.crt"].strip() == authority.strip()
    for host in ("db", "db.issued", "db.issued.svc", "db.issued.svc.cluster.local"):
        assert _handshake(scenario.directory, served, authority=scenario.data("binding")["ca.crt"], host=host)
    assert not scenario.data("server-ca")


@pytest.mark.usefixtures("with_cert_manager")
def test_a_renewal_is_taken_up_and_changes_no_pod(scenario: Scenario) -> None:
    before = scenario.data("server-tls")["tls.crt"]
    template = (scenario.cluster.get(Ref(STATEFUL_SET, scenario.namespace, "db")) or {})["spec"]["template"]
    known = (scenario.cluster.get(scenario.certificate) or {})["status"]["conditions"]
    patch = {"status": {"conditions": [*known, cert_manager.RENEW]}}
    scenario.cluster.api.merge(f"{path(scenario.certificate)}/status", patch).accepted()
    scenario.wait(lambda: scenario.data("server-tls")["tls.crt"] != before, "the successor")
    served = scenario.data("server-tls")
    assert served == {key: scenario.data("server-issued")[key] for key in served}
    assert _handshake(
        scenario.directory, served, authority=scenario.data("binding")["ca.crt"], host="db.issued.svc"
    )
    assert (scenario.cluster.get(Ref(STATEFUL_SET, scenario.namespace, "db")) or {})["spec"][
        "template"
    ] == template


@pytest.mark.usefixtures("with_cert_manager")
def test_an_edited_certificate_is_repaired_and_a_deleted_one_made_again(scenario: Scenario) -> None:
    names = (scenario.cluster.get(scenario.certificate) or {})["spec"]["dnsNames"]
    scenario.cluster.merge(scenario.certificate, {"spec": {"dnsNames": ["other.example.com"]}})

    def same() -> bool:
        return bool(
            ((scenario.cluster.get(scenario.certificate) or {}).get("spec") or {}).get("dnsNames") == names
        )

    scenario.wait(same, "the names as they were")
    scenario.cluster.delete(scenario.certificate)
    scenario.wait(same, "the Certificate as it was")


@pytest.mark.usefixtures("with_cert_manager")
def test_the_preview_reads_certificates_and_changes_none(scenario: Scenario) -> None:
    reader = partial(with_rights, scenario.cluster.plane, scenario.cluster.api, namespace="kindling-preview")
    rules = [role_rule(rule) for rule in rbac.diff_rules()]
    found = differ.diff(reader(account="sees", rules=rules), namespaces=scenario.namespace)
    assert (found["changes"], found["total"]) == (False, 1), found
    others = [rule for rule in rules if rule["apiGroups"] != [CERTIFICATE.group]]
    done = differ.run(reader(account="does-not", rules=others), namespaces=scenario.namespace)
    assert done.returncode == 1
    assert 'cannot list resource "certificates"' in done.stderr


@pytest.mark.usefixtures("with_cert_manager")
def test_another_issuer_that_is_missing_takes_nothing_away(scenario: Scenario) -> None:
    # The edits of the test before may have had it issued once more.
    scenario.wait(lambda: scenario.data("server-tls") == _pair(scenario), "what was issued last")
    before = scenario.data("server-tls")
    scenario.cluster.merge(scenario.database, {"spec": {"tls": {"issuerRef": {"name": "nobody"}}}})

    def names(issuer: str) -> bool:
        found = scenario.cluster.get(scenario.certificate) or {}
        said = {item["type"]: item for item in (found.get("status") or {}).get("conditions", [])}
        ready = said.get("Ready", {}).get("status") == "True"
        return bool(found["spec"]["issuerRef"]["name"] == issuer) and ready is (issuer != "nobody")

    scenario.wait(lambda: names("nobody"), "a Certificate that nobody issues")
    scenario.cluster.audit.wait_quiet()
    assert scenario.data("server-tls") == before
    scenario.cluster.merge(scenario.database, {"spec": {"tls": {"issuerRef": {"name": "private-ca"}}}})
    scenario.wait(lambda: names("private-ca"), "a Certificate as before")


@pytest.mark.usefixtures("with_cert_manager")
def test_without_the_field_the_certificate_goes_and_its_secret_stays(scenario: Scenario) -> None:
    scenario.cluster.merge(scenario.database, {"spec": {"tls": {"issuerRef": None}}})
    scenario.wait(lambda: scenario.cluster.get(scenario.certificate) is None, "no Certificate any more")
    scenario.wait(
        lambda: scenario.data("server-tls")["ca.crt"] == scenario.data("server-ca").get("ca.crt"),
        "a certificate of the own authority",
    )
    assert scenario.data("server-issued"), "cert-manager's Secret is left"


@pytest.mark.usefixtures("with_cert_manager")
def test_each_right_was_used_and_none_was_missing(scenario: Scenario) -> None:
    requests = scenario.cluster.audit.requests(scenario.mark)
    assert denied(requests) == set()
    # Its own list and watch began when the kinds came.
    assert {str(right) for right in of_cert_manager() - used(requests)} == set()


def _pair(scenario: Scenario) -> dict[str, str]:
    return {key: scenario.data("server-issued").get(key, "") for key in ("tls.crt", "tls.key", "ca.crt")}


def _handshake(directory: Path, served: dict[str, str], *, authority: str, host: str) -> bool:
    """Whether a client that trusts this authority takes these files for that host: libpq's `verify-full`."""
    certificate, key = directory / "tls.crt", directory / "tls.key"
    certificate.write_text(served["tls.crt"])
    key.write_text(served["tls.key"])
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(certificate, key)
    ours, theirs = socket.socketpair()

    def serve() -> None:
        with serving.wrap_socket(theirs, server_side=True) as secured:
            secured.send(b"x")

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        trusting = ssl.create_default_context(cadata=authority)
        with trusting.wrap_socket(ours, server_hostname=host) as secured:
            return secured.recv(1) == b"x"
    finally:
        thread.join()
