"""A server's certificate of an authority that exists for it alone: who trusts the one trusts nobody else.

The authority's own key is forgotten once it has signed, so nothing else is ever of it.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

YEARS = 10
# A clock of a node may be behind.
BEFORE = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Issued:
    """All in PEM; `key` is the server's private key, and a secret."""

    authority: str
    certificate: str
    key: str


def issue(name: str, hosts: Sequence[str], *, now: datetime.datetime) -> Issued:
    """A certificate for a server of these host names, the first of which is its subject.

    Raises `ValueError` for a name that no certificate can have.
    """
    # Imported where one is made: no stack without an object store needs it.
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    def named(common: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])

    def builder(
        subject: str, public: ec.EllipticCurvePublicKey, *, authority: bool
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(named(subject))
            .issuer_name(named(name))
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - BEFORE)
            .not_valid_after(now.replace(year=now.year + YEARS, day=min(now.day, 28)))
            .add_extension(
                x509.BasicConstraints(ca=authority, path_length=0 if authority else None), critical=True
            )
            .add_extension(_usage(authority=authority), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key()), critical=False
            )
        )

    def _usage(*, authority: bool) -> x509.KeyUsage:
        return x509.KeyUsage(
            digital_signature=not authority,
            key_cert_sign=authority,
            crl_sign=authority,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )

    signing, serving = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority = builder(name, signing.public_key(), authority=True).sign(signing, hashes.SHA256())
    certificate = (
        builder(hosts[0], serving.public_key(), authority=False)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(signing, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    key = serving.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Issued(authority.public_bytes(pem).decode(), certificate.public_bytes(pem).decode(), key.decode())
