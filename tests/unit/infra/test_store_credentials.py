"""Keys and certificate of the object store: made once, kept in the state, and what TLS asks of them."""

from __future__ import annotations

import base64
import datetime
import pickle
import ssl
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from pulumi.dynamic.dynamic import serialize_provider
from pulumi.runtime.rpc import UNKNOWN

from infra.components.object_store import HOSTS
from infra.drivers import certificates
from infra.resources.store_credentials import StoreCredentials, StoreCredentialsProvider

PROVIDER = StoreCredentialsProvider()
INPUTS: dict[str, Any] = {
    "hosts": HOSTS,
    **dict.fromkeys(("accessKeyId", "secretAccessKey", "authority", "certificate", "privateKey")),
}
NOW = datetime.datetime(2028, 2, 29, 12, tzinfo=datetime.UTC)


def created() -> tuple[str, dict[str, Any]]:
    result = PROVIDER.create(dict(INPUTS))
    assert result.outs is not None
    return result.id, dict(result.outs)


def test_the_state_names_the_provider_by_reference() -> None:
    pickled = base64.b64decode(serialize_provider(PROVIDER))
    assert len(pickled) < 200
    assert b"infra.resources.store_credentials" in pickled
    assert isinstance(pickle.loads(pickled), StoreCredentialsProvider)
    assert StoreCredentials._resource_type_name == "dynamic/stores:Credentials"


def test_a_server_without_a_host_is_named() -> None:
    (failure,) = PROVIDER.check({}, {**INPUTS, "hosts": []}).failures
    assert failure.property == "hosts"
    assert PROVIDER.check({}, {**INPUTS, "hosts": UNKNOWN}).failures == []
    assert PROVIDER.check({}, INPUTS).failures == []


def test_each_that_is_made_is_another() -> None:
    (one_id, one), (other_id, other) = created(), created()
    assert one_id != other_id
    assert one["hosts"] == other["hosts"] == HOSTS
    for name in ("accessKeyId", "secretAccessKey", "authority", "certificate", "privateKey"):
        assert one[name] != other[name]
    assert one["secretAccessKey"] not in one_id
    assert len(one["accessKeyId"]) == 20
    assert len(one["secretAccessKey"]) == 40


def test_what_was_made_stays_as_it_is() -> None:
    id_, state = created()
    assert PROVIDER.read(id_, state).outs == state
    same = PROVIDER.diff(id_, state, dict(INPUTS))
    assert (same.changes, same.replaces) == (False, [])
    assert PROVIDER.update(id_, state, dict(INPUTS)).outs == state


def test_other_hosts_are_another_certificate() -> None:
    id_, state = created()
    found = PROVIDER.diff(id_, state, {**INPUTS, "hosts": ["elsewhere"]})
    assert (found.changes, found.replaces) == (True, ["hosts"])


def handshake(folder: Path, issued: certificates.Issued, *, host: str, authority: str) -> str:
    """The TLS version that both ends settle on, without a network; raises what the client says."""
    (folder / "tls.crt").write_text(issued.certificate)
    (folder / "tls.key").write_text(issued.key)
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    asking = ssl.create_default_context(cadata=authority)
    asking.verify_flags |= ssl.VERIFY_X509_STRICT
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = serving.wrap_bio(to_server, to_client, server_side=True)
    client = asking.wrap_bio(to_client, to_server, server_hostname=host)
    done: set[ssl.SSLObject] = set()
    while len(done) < 2:
        for end in (client, server):
            try:
                end.do_handshake()
                done.add(end)
            except ssl.SSLWantReadError:
                continue
    return str(client.version())


@pytest.mark.parametrize("host", HOSTS)
def test_who_trusts_the_authority_trusts_the_server_by_each_of_its_names(tmp_path: Path, host: str) -> None:
    issued = certificates.issue("x", HOSTS, now=datetime.datetime.now(datetime.UTC))
    assert handshake(tmp_path, issued, host=host, authority=issued.authority).startswith("TLS")


def test_nobody_trusts_another_name_or_by_another_authority(tmp_path: Path) -> None:
    now = datetime.datetime.now(datetime.UTC)
    issued, other = (certificates.issue("x", HOSTS, now=now) for _ in range(2))
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        handshake(tmp_path, issued, host="elsewhere", authority=issued.authority)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(tmp_path, issued, host=HOSTS[0], authority=other.authority)


def test_it_is_good_for_ten_years_from_a_day_before(tmp_path: Path) -> None:
    issued = certificates.issue("x", HOSTS, now=NOW)
    for pem in (issued.authority, issued.certificate):
        found = x509.load_pem_x509_certificate(pem.encode())
        assert found.not_valid_before_utc == NOW - datetime.timedelta(days=1)
        assert found.not_valid_after_utc == NOW.replace(year=2038, day=28)


def test_the_authority_signs_servers_alone_and_its_key_is_not_kept() -> None:
    issued = certificates.issue("x", HOSTS, now=NOW)
    authority, server = (
        x509.load_pem_x509_certificate(pem.encode()) for pem in (issued.authority, issued.certificate)
    )
    limits = authority.extensions.get_extension_for_class(x509.BasicConstraints).value
    assert (limits.ca, limits.path_length) == (True, 0)
    assert not server.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    server.verify_directly_issued_by(authority)
    kept = "".join((issued.authority, issued.certificate, issued.key))
    assert kept.count("PRIVATE KEY-----") == 2  # begin and end of the server's
