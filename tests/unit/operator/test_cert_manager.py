"""A certificate by an issuer of cert-manager: what is asked for, and what is said until it is there."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from kindling.kinds.base import Child, Observed, Problem
from kindling.kinds.postgresql import spec, tls
from kindling.kube.resources import CERTIFICATE, SECRET, STATEFUL_SET, Object, Ref

from tests.unit.operator.postgresqls import KIND, NOW, observed, postgresql
from tests.unit.operator.test_postgresql_tls import NAMES, OWN, at, named, settled, text, values

ISSUED = "db-server-issued"
REF = Ref(CERTIFICATE, "ns", ISSUED)
KEEPS = "The server keeps the certificate that it has."


def database(**issuer: str) -> Object:
    return postgresql(tls={"issuerRef": {"name": "private-ca", **issuer}})


def certificate(generation: int = 1, /, **conditions: tuple[str, str]) -> dict[Ref, Object]:
    said = [
        {"type": type, "status": status, "reason": reason, "message": "x" * 9999, "observedGeneration": 1}
        for type, (status, reason) in conditions.items()
    ]
    return {REF: {"metadata": {"uid": "c", "generation": generation}, "status": {"conditions": said}}}


def secret(**changes: str) -> dict[Ref, Object]:
    data = {key: base64.b64encode(value.encode()).decode() for key, value in values(**changes).items()}
    notes = {"cert-manager.io/certificate-name": ISSUED}
    return {named(ISSUED): {"metadata": {"uid": "s", "annotations": notes}, "data": data}}


def children(cr: Object, world: Observed) -> dict[Ref, Child]:
    return {child.ref: child for child in KIND.desired(cr, world)}


def said(cr: Object, objects: Mapping[Ref, Object], **changes: Any) -> Problem:
    found = tls.problem(cr, replace(at(NOW, objects), **changes))
    assert found is not None
    assert len(found.message) < 600
    return found


def test_the_certificate_is_for_the_service_and_of_the_issuer() -> None:
    made = children(database(), observed())
    body = made[REF].body
    assert body["spec"] == {
        "secretName": ISSUED,
        "dnsNames": NAMES,
        "usages": ["digital signature", "key encipherment", "server auth"],
        "privateKey": {"rotationPolicy": "Always"},
        "issuerRef": {"name": "private-ca", "kind": "Issuer", "group": "cert-manager.io"},
    }
    assert body["metadata"]["ownerReferences"][0]["kind"] == "Postgresql"
    assert named("db-server-ca") not in made, "no authority of the resource's own"
    other = children(database(kind="PCAIssuer", group="pca.example.com"), observed())[REF].body["spec"]
    assert other["issuerRef"] == {"name": "private-ca", "kind": "PCAIssuer", "group": "pca.example.com"}
    assert REF not in children(postgresql(), observed())


def test_a_new_server_waits_for_it_and_nothing_else_does() -> None:
    before = children(database(), at(NOW, certificate()))
    assert before[Ref(STATEFUL_SET, "ns", "db")].blocked
    plain = children(postgresql(), at(NOW))
    others = [ref for ref, child in before.items() if ref.type != STATEFUL_SET and child.blocked]
    assert others == [ref for ref, child in plain.items() if ref.type != STATEFUL_SET and child.blocked]
    issued = {**certificate(Ready=("True", "Ready")), **secret()}
    after = children(database(), at(NOW, issued))
    assert not after[Ref(STATEFUL_SET, "ns", "db")].blocked
    assert text(after[named("db-server-tls")]) == values()
    assert text(after[named("db-binding")])["ca.crt"].strip() == OWN.certificate.strip()


def test_a_server_that_runs_keeps_its_certificate_until_then() -> None:
    world = {**settled(postgresql()), **certificate(Ready=("False", "DoesNotExist"))}
    made = children(database(), at(NOW, world))
    assert not made[Ref(STATEFUL_SET, "ns", "db")].blocked
    assert made[named("db-server-tls")].body["data"] == world[named("db-server-tls")]["data"]
    assert said(database(), world).message.endswith(KEEPS)


def test_a_cluster_without_cert_manager() -> None:
    world = replace(observed(), unserved=frozenset({CERTIFICATE}))
    assert REF not in children(database(), world)
    assert list(KIND.needs(database())) == [CERTIFICATE]
    assert list(KIND.needs(postgresql())) == []
    found = said(database(), {}, unserved=frozenset({CERTIFICATE}))
    assert (found.reason, found.transient) == ("CertManagerNotFound", False)
    assert "no certificates.cert-manager.io in version v1; install cert-manager" in found.message


@pytest.mark.parametrize(
    ("conditions", "reason", "words"),
    [
        ({}, "CertificatePending", "is not issued yet."),
        ({"Ready": ("False", "DoesNotExist")}, "CertificatePending", "is not issued yet (DoesNotExist)."),
        ({"Ready": ("False", "no\nword")}, "CertificatePending", "is not issued yet."),
        (
            {"Ready": ("False", "DoesNotExist"), "Issuing": ("False", "Failed")},
            "CertificateNotIssued",
            "(Failed)",
        ),
        (
            {"Ready": ("False", "IncorrectIssuer"), "Issuing": ("True", "IncorrectIssuer")},
            "CertificatePending",
            "(IncorrectIssuer)",
        ),
    ],
)
def test_what_cert_manager_says_is_said_in_bounds(
    conditions: dict[str, tuple[str, str]], reason: str, words: str
) -> None:
    found = said(database(), certificate(1, **conditions))
    assert found.reason == reason
    assert words in found.message
    assert found.message.startswith("spec.tls.issuerRef.name 'private-ca': ")
    assert "Issuer 'private-ca' in namespace 'ns' exists and is Ready" in found.message
    assert "ClusterIssuer 'private-ca' exists" in said(database(kind="ClusterIssuer"), certificate()).message


def test_what_was_said_of_an_earlier_spec_of_the_certificate_does_not_count() -> None:
    world = {**certificate(2, Ready=("True", "Ready")), **secret()}
    assert said(database(), world).reason == "CertificatePending"


def test_a_failed_renewal_that_is_due_takes_nothing_away() -> None:
    world = {**certificate(Ready=("True", "Ready"), Issuing=("False", "Failed")), **secret()}
    assert tls.problem(database(), at(NOW, world)) is None


def test_a_secret_of_the_users_is_not_written_over() -> None:
    taken = {named(ISSUED): {"metadata": {"uid": "mine"}, "data": {}}}
    assert REF not in children(database(), at(NOW, taken))
    found = said(database(), taken)
    assert found.reason == "NameConflict"
    assert "Delete that Secret" in found.message


def test_what_was_issued_and_cannot_be_served_is_put_down_to_the_issuer() -> None:
    world = {**certificate(Ready=("True", "Ready")), **secret(ca_crt="")}
    found = said(database(), world)
    assert found.reason == "SecretNotFound"
    assert "has nothing under the key 'ca.crt'; name an issuer" in found.message
    assert "put it there" not in found.message


def test_it_excludes_what_else_says_whose_certificate_it_is() -> None:
    both = postgresql(tls={"issuerRef": {"name": "a"}, "secretName": "b"})
    off = postgresql(tls={"issuerRef": {"name": "a"}, "enabled": False})
    for cr, words in ((both, "both give the certificate"), (off, "leave out secretName, issuerRef")):
        found = spec.validate(cr)
        assert found is not None
        assert words in found.message
    assert REF not in children(off, observed())
    assert KIND.needs(off) == ()


def test_the_secret_is_watched_and_read() -> None:
    assert ISSUED in KIND.secrets(database())
    assert (SECRET, ISSUED, "ns") in list(KIND.watched_objects(database()))
