"""The key pair by which a Backup's runs and the archiver know each other: one certificate, its own authority.

Made from given randomness, so that the same input makes the same pair. It has no end: it is exchanged by
deleting its Secret, and nobody but these two trusts it.
"""

from __future__ import annotations

import hashlib
import hmac
from datetime import UTC, datetime
from typing import NamedTuple

COMMON_NAME = "main"
"""pgBackRest admits a client by the common name of its certificate (`tls-server-auth`)."""

_FROM, _NO_END = datetime(2020, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


class KeyPair(NamedTuple):
    """Both in PEM."""

    certificate: str
    key: str


def make(entropy: bytes, *, hosts: list[str]) -> KeyPair:
    """A pair for a server of these DNS names, and for its clients."""
    # Loaded where a pair is made: a dozen MiB that no other operator needs.
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
    # 64 bytes, so that the remainder is as good as even.
    scalar = int.from_bytes(hmac.digest(entropy, b"backup key", hashlib.sha512), "big") % (order - 1) + 1
    serial = int.from_bytes(hmac.digest(entropy, b"backup serial", hashlib.sha256)[:16], "big") >> 1 | 1
    key = ec.derive_private_key(scalar, ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, COMMON_NAME)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(serial)
        .not_valid_before(_FROM)
        .not_valid_after(_NO_END)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts]), critical=False)
        .sign(key, hashes.SHA256(), ecdsa_deterministic=True)
    )
    return KeyPair(
        certificate=certificate.public_bytes(serialization.Encoding.PEM).decode(),
        key=key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ).decode(),
    )
