"""What lets a PulsarConsumer in at its broker: files in its Pods, and what the admin API is shown."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from kindling.kinds.pulsarconsumer.backlog import BacklogRequest
from kindling.kube.resources import Object, Ref
from pulsar_consumer.settings import Broker

from tests.unit.operator.pulsarconsumers import (
    AUTHORITY,
    KIND,
    OWN,
    SECRETS,
    SPECS,
    consumer,
    observed,
    secret,
)

BASIC: Object = {"auth": {"basicSecretRef": {"name": "pulsar-login"}}}
ISSUER = "https://issuer.example.com/realms/a"
OAUTH2: Object = {
    "auth": {
        "oauth2": {
            "issuerURL": ISSUER, "audience": "pulsar", "scope": "a b",
            "credentialsSecretRef": {"name": "pulsar-client"},
        }
    }
}  # fmt: skip
TLS: Object = {
    "serverAddress": "pulsar+ssl://broker:6651",
    "tls": {
        "caSecretRef": {"name": "pulsar-ca"},
        "clientCertificateSecretRef": {"name": "pulsar-certificate"},
    },
}
ADMIN = "https://broker.pulsar.svc:8443"


def pod_of(**spec: Any) -> Any:
    [_, deployment] = KIND.desired(consumer(**spec), observed(SECRETS))
    return deployment.body["spec"]["template"]["spec"]


def broker_of(**spec: Any) -> Broker:
    """As the consumer's image reads what its container is given."""
    [container] = pod_of(**spec)["containers"]
    return Broker.load({item["name"]: item.get("value", "") for item in container["env"]})


def files_of(**spec: Any) -> dict[str, tuple[str, str]]:
    """Secret and key of each file in the Pod."""
    pod = pod_of(**spec)
    [container] = pod["containers"]
    folders = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    return {
        f"{folders[volume['name']]}/{item['path']}": (volume["secret"]["secretName"], item["key"])
        for volume in pod["volumes"]
        if "secret" in volume
        for item in volume["secret"]["items"]
    }


def request_of(**spec: Any) -> BacklogRequest:
    [probe] = KIND.probes(consumer(**spec), observed(SECRETS)).values()
    assert isinstance(probe.request, BacklogRequest)
    return probe.request


def test_a_login_is_two_files_and_a_header() -> None:
    read, files = broker_of(**BASIC), files_of(**BASIC)
    assert read.basic_files is not None
    assert files[str(read.basic_files / "username")] == ("pulsar-login", "username")
    assert files[str(read.basic_files / "password")] == ("pulsar-login", "password")
    shown = b64encode(b"canary-user:canary-password").decode()
    assert request_of(**BASIC, adminURL=ADMIN).authorization == f"Basic {shown}"


def test_a_client_of_an_issuer_is_two_files_and_what_a_token_is_asked_for_with() -> None:
    read, files = broker_of(**OAUTH2), files_of(**OAUTH2)
    assert read.oauth2 is not None
    assert (read.oauth2.issuer, read.oauth2.audience, read.oauth2.scope) == (ISSUER, "pulsar", "a b")
    assert files[str(read.oauth2.files / "clientId")] == ("pulsar-client", "clientId")
    assert files[str(read.oauth2.files / "clientSecret")] == ("pulsar-client", "clientSecret")
    asked = request_of(**OAUTH2, adminURL=ADMIN)
    assert asked.authorization == ""
    assert asked.oauth2 == {
        "issuer": ISSUER, "audience": "pulsar", "scope": "a b",
        "client_id": "canary-id", "client_secret": "canary-secret",
    }  # fmt: skip


def test_certificates_are_files_and_go_to_an_encrypted_admin_api_alone() -> None:
    read, files = broker_of(**TLS), files_of(**TLS)
    assert files[str(read.ca_file)] == ("pulsar-ca", "ca.crt")
    assert files[str(read.certificate_file)] == ("pulsar-certificate", "tls.crt")
    assert files[str(read.key_file)] == ("pulsar-certificate", "tls.key")
    asked = request_of(**TLS, adminURL=ADMIN)
    assert asked.encrypted
    assert (asked.host, asked.port) == ("broker.pulsar.svc", 8443)
    assert asked.ca == AUTHORITY.certificate.strip()
    assert (asked.certificate, asked.key) == (OWN.certificate.strip(), OWN.key.strip())
    plain = request_of(**TLS, adminURL="http://broker")
    assert (plain.encrypted, plain.ca, plain.certificate, plain.key) == (False, "", "", "")
    assert request_of(**TLS, adminURL="https://broker").port == 443
    # An issuer is always behind TLS, and may be of that authority.
    issuer = request_of(**{**TLS, **OAUTH2}, adminURL="http://broker")
    assert (issuer.ca, issuer.key) == (AUTHORITY.certificate.strip(), "")


@given(SPECS)
def test_no_secret_is_in_a_child_a_cache_key_or_a_word(spec: Object) -> None:
    cr, seen = consumer(**spec), observed(SECRETS)
    assert KIND.validate(cr, seen) is None
    words = [json.dumps(child.body) for child in KIND.desired(cr, seen)]
    words += [repr(probe.cache_key) + repr(probe.request) for probe in KIND.probes(cr, seen).values()]
    for text in words:
        assert "canary" not in text
        assert "PRIVATE KEY" not in text


@given(SPECS)
def test_every_secret_in_use_is_watched_and_a_change_of_it_is_asked_about_again(spec: Object) -> None:
    cr = consumer(**{**spec, "adminURL": ADMIN})
    named = {watched.name for watched in KIND.watched_objects(cr) if watched.name.startswith("pulsar-")}
    mounted = {volume["secret"]["secretName"] for volume in pod_of(**spec)["volumes"] if "secret" in volume}
    assert named == mounted
    before = [probe.cache_key for probe in KIND.probes(cr, observed(SECRETS)).values()]
    for name in named:
        changed = {
            ref: {**body, "metadata": {**body["metadata"], "resourceVersion": "2"}}
            for ref, body in SECRETS.items()
            if ref.name == name
        }
        after = [probe.cache_key for probe in KIND.probes(cr, observed({**SECRETS, **changed})).values()]
        assert before != after


@pytest.mark.parametrize(
    ("spec", "values", "said"),
    [
        (BASIC, {"pulsar-login": {"username": "u"}}, "of spec.auth.basicSecretRef has no key 'password'"),
        (OAUTH2, {"pulsar-client": {"clientId": "i"}}, "'clientSecret': put the client secret there"),
        (
            TLS,
            {"pulsar-ca": {"other": "x"}},
            "'ca.crt': put the certificates of the broker's authority there",
        ),
        (TLS, {"pulsar-certificate": {"tls.crt": OWN.certificate}}, "'tls.key': put the private key there"),
    ],
)
def test_what_is_missing_is_named_with_its_field(
    spec: Object, values: dict[str, dict[str, str]], said: str
) -> None:
    known: dict[Ref, Object] = {**SECRETS}
    for name, data in values.items():
        known |= secret(name, data)
    problem = KIND.validate(consumer(**spec), observed(known))
    assert problem is not None
    assert problem.reason == "SecretNotFound"
    assert said in problem.message
    assert KIND.probes(consumer(**spec, adminURL=ADMIN), observed(known)) == {}


@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        ("pulsar-ca", {"ca.crt": "canary"}, "ca.crt is no certificate in PEM"),
        ("pulsar-certificate", {"tls.crt": "canary", "tls.key": OWN.key}, "tls.crt is no certificate in PEM"),
        (
            "pulsar-certificate",
            {"tls.crt": OWN.certificate, "tls.key": AUTHORITY.issue("others").key},
            "tls.key (not shown) is not the key of tls.crt",
        ),
    ],
)
def test_what_is_no_certificate_is_named_and_not_repeated(
    name: str, values: dict[str, str], said: str
) -> None:
    problem = KIND.validate(consumer(**TLS), observed({**SECRETS, **secret(name, values)}))
    assert problem is not None
    assert problem.reason == "InvalidCertificate"
    assert said in problem.message
    assert "canary" not in problem.message
    assert "PRIVATE" not in problem.message


def test_the_system_authorities_are_a_file_where_none_is_named() -> None:
    """The client's own OpenSSL looks for them where its builders had them, and finds none."""
    import ssl

    from pulsar_consumer.credentials import tls_arguments

    found = tls_arguments(Broker(server="pulsar+ssl://broker"))
    expected = ssl.get_default_verify_paths().cafile
    assert found.get("tls_trust_certs_file_path") == expected
    assert expected is None or Path(expected).exists()
