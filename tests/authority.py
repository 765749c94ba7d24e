"""A certificate authority for tests: what the parts of a secured broker show each other.

Its certificates have no key identifiers, as those of many private authorities: what verifies strictly refuses
them, and brokers' clients do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFE = timedelta(days=2)


class Pair(NamedTuple):
    """A certificate and its key, in PEM."""

    certificate: str
    key: str


class Authority:
    """`certificate` is its own, in PEM."""

    def __init__(self, name: str) -> None:
        self._key, self._name = ec.generate_private_key(ec.SECP256R1()), _named(name)
        constraints = x509.BasicConstraints(ca=True, path_length=0)
        own = self._builder(self._name, self._key).add_extension(constraints, critical=True)
        self.certificate = _pem(own.sign(self._key, hashes.SHA256()))

    def issue(self, name: str, *hosts: str) -> Pair:
        """For a server at these hosts and for a client; `name` is the common name."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(_named(name), key)
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        builder = builder.add_extension(usage, critical=False)
        if hosts:
            builder = builder.add_extension(_names(hosts), critical=False)
        # As Java reads it.
        written = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return Pair(_pem(builder.sign(self._key, hashes.SHA256())), written.decode())

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(minutes=5))
            .not_valid_after(now + LIFE)
        )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _names(hosts: Sequence[str]) -> x509.SubjectAlternativeName:
    names: list[x509.GeneralName] = []
    for host in hosts:
        try:
            names.append(x509.IPAddress(ip_address(host)))
        except ValueError:
            names.append(x509.DNSName(host))
    return x509.SubjectAlternativeName(names)


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()
