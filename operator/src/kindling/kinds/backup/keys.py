"""The key pair by which a Backup's runs and the archiver know each other: one certificate, its own authority.

Made from given randomness, so that the same input makes the same pair. It has no end: it is exchanged by
deleting its Secret, and nobody but these two trusts it.
"""

from __future__ import annotations

from datetime import UTC, datetime

from kindling.kinds import certificates
from kindling.kinds.certificates import Pair

COMMON_NAME = "main"
"""pgBackRest admits a client by the common name of its certificate (`tls-server-auth`)."""

_FROM, _NO_END = datetime(2020, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


def make(entropy: bytes, *, hosts: list[str]) -> Pair:
    """A pair for a server of these DNS names, and for its clients."""
    # Loaded where a pair is made: a dozen MiB that not every operator needs.
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import NameOID

    key = certificates.private_key(entropy, "backup key")
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, COMMON_NAME)])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(certificates.serial_number(entropy, "backup serial"))
        .not_valid_before(_FROM)
        .not_valid_after(_NO_END)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts]), critical=False)
        .sign(key, hashes.SHA256(), ecdsa_deterministic=True)
    )
    return certificates.pem(made, key)
