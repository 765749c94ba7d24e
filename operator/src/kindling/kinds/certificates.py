"""X.509: an authority and its certificates for servers and clients, made from given randomness; and others'
are read.

Pure: the same input makes the same pair. All is PEM. `cryptography` is loaded where it is needed first.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

AUTHORITY_LIFE = timedelta(days=3650)
LONGEST_SKEW = timedelta(minutes=5)
"""How far a client's clock may be behind; at most a tenth of the certificate's life."""
DELIVERY = timedelta(seconds=110)
"""How long it may take from a changed Secret to changed files in a running Pod: the kubelet's period."""
LEAST_SECONDS = 120
"""The shortest life of a certificate that can be renewed in time."""
LONGEST_CHAIN = 8
MOST_REMEMBERED = 4096
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


class Pair(NamedTuple):
    """A certificate, with those between it and its authority after it, and its private key."""

    certificate: str
    key: str


class Certificate(NamedTuple):
    """What a certificate says. `fingerprint` is the SHA-256 of its DER, in hexadecimal; `names` are those of
    hosts, `common_name` is the subject's, empty if it has none or several.
    """

    fingerprint: str
    not_before: datetime
    not_after: datetime
    names: frozenset[str]
    common_name: str = ""

    @property
    def renewal(self) -> datetime:
        """When its successor is due: at two thirds of its life, and in time for a Pod to get the files."""
        life = self.not_after - self.not_before
        return self.not_after - max(life / 3, DELIVERY)


def private_key(entropy: bytes, purpose: str) -> ec.EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    # 64 bytes, so that the remainder is as good as even.
    digest = hmac.digest(entropy, purpose.encode(), hashlib.sha512)
    return ec.derive_private_key(int.from_bytes(digest, "big") % (_ORDER - 1) + 1, ec.SECP256R1())


def serial_number(entropy: bytes, purpose: str) -> int:
    return int.from_bytes(hmac.digest(entropy, purpose.encode(), hashlib.sha256)[:16], "big") >> 1 | 1


def pem(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
    from cryptography.hazmat.primitives import serialization

    return Pair(
        certificate=certificate.public_bytes(serialization.Encoding.PEM).decode(),
        key=key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ).decode(),
    )


def make_authority(entropy: bytes, *, name: str, now: datetime) -> Pair:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import NameOID

    key = private_key(entropy, "authority key")
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    begins = now.replace(microsecond=0) - LONGEST_SKEW
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(serial_number(entropy, "authority serial"))
        .not_valid_before(begins)
        .not_valid_after(begins + AUTHORITY_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256(), ecdsa_deterministic=True)
    )
    return pem(made, key)


def make_server(
    entropy: bytes, *, authority: Pair, name: str, hosts: Sequence[str], now: datetime, life: timedelta
) -> Pair:
    """Signed by the authority, and never longer valid than that is."""
    return _issued(entropy, authority=authority, name=name, purpose="server", hosts=hosts, now=now, life=life)


def make_client(entropy: bytes, *, authority: Pair, name: str, now: datetime, life: timedelta) -> Pair:
    """For a client of this common name. No server can use it, and no client that of a server."""
    return _issued(
        entropy, authority=authority, name=name, purpose=f"client {name}", hosts=(), now=now, life=life
    )


def _issued(
    entropy: bytes,
    *,
    authority: Pair,
    name: str,
    purpose: str,
    hosts: Sequence[str],
    now: datetime,
    life: timedelta,
) -> Pair:
    """For a server if there are hosts, else for a client."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    issuer = x509.load_pem_x509_certificate(authority.certificate.encode())
    signer = serialization.load_pem_private_key(authority.key.encode(), None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)  # `make_authority` makes no other
    key, moment = private_key(entropy, f"{purpose} key"), now.replace(microsecond=0)
    begins = max(moment - min(LONGEST_SKEW, life / 10), issuer.not_valid_before_utc)
    usage = ExtendedKeyUsageOID.SERVER_AUTH if hosts else ExtendedKeyUsageOID.CLIENT_AUTH
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(serial_number(entropy, f"{purpose} serial"))
        .not_valid_before(begins)
        .not_valid_after(min(moment + life, issuer.not_valid_after_utc))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    )
    if hosts:
        names = x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts])
        builder = builder.add_extension(names, critical=False)
    made = (
        builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
        .sign(signer, hashes.SHA256(), ecdsa_deterministic=True)
    )
    return pem(made, key)


def _usage(*, signs: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


T = TypeVar("T")


def _remembered(decide: Callable[..., T]) -> Callable[..., T]:
    """The same, of the last texts once. They are known by a hash: each reconciliation reads them once more
    from a Secret, a copy that would stay as long as its answer; and no key is to stay that is in no Secret.
    """
    known: dict[bytes, T] = {}

    @wraps(decide)
    def found(*texts: str) -> T:
        digest = hashlib.sha256("\0".join(texts).encode()).digest()
        if digest not in known:
            if len(known) >= MOST_REMEMBERED:
                del known[next(iter(known))]
            known[digest] = decide(*texts)
        return known[digest]

    return found


@_remembered
def read(text: str) -> Certificate | None:
    """What the first certificate says; None where there is none."""
    from cryptography import x509

    if not (found := _load(text)):
        return None
    first = found[0]
    try:
        extension = first.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        names = frozenset(extension.value.get_values_for_type(x509.DNSName))
    except (x509.ExtensionNotFound, x509.DuplicateExtension, x509.UnsupportedGeneralNameType, ValueError):
        names = frozenset()
    return Certificate(
        fingerprint=hashlib.sha256(_der(first)).hexdigest(),
        not_before=first.not_valid_before_utc,
        not_after=first.not_valid_after_utc,
        names=names,
        common_name=_common_name(first),
    )


def _common_name(certificate: x509.Certificate) -> str:
    from cryptography.x509.oid import NameOID

    try:
        found = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    except ValueError:
        return ""
    return str(found[0].value) if len(found) == 1 else ""


def is_pair(pair: Pair) -> bool:
    """Whether the key is that of the first certificate."""
    return _is_pair(*pair)


@_remembered
def _is_pair(certificate: str, key: str) -> bool:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization

    if not (found := _load(certificate)):
        return False
    try:
        private = serialization.load_pem_private_key(key.encode(), None, unsafe_skip_rsa_key_validation=True)
        return bool(private.public_key() == found[0].public_key())
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return False


@_remembered
def is_issued_by(text: str, authority: str) -> bool:
    """Whether signatures lead from the first certificate, by those after it, to one of the authority's."""
    from cryptography.exceptions import InvalidSignature

    chain, roots = _load(text), _load(authority)
    if not chain or not roots:
        return False
    current = chain[0]
    for _ in range(LONGEST_CHAIN):
        for issuer in (*roots, *chain[1:]):
            try:
                current.verify_directly_issued_by(issuer)
            except (ValueError, TypeError, InvalidSignature):
                continue
            if issuer in roots:
                return True
            current = issuer
            break
        else:
            return False
    return False


def covers(certificate: Certificate, host: str) -> bool:
    """Whether the certificate names the host, by itself or by a `*` for its first label."""
    return host in certificate.names or f"*.{host.partition('.')[2]}" in certificate.names


def merged(*texts: str) -> str:
    """The certificates of these texts, each once, as one; what is none is left out."""
    from cryptography.hazmat.primitives import serialization

    found = [certificate for text in texts for certificate in _load(text)]
    return "".join(each.public_bytes(serialization.Encoding.PEM).decode() for each in dict.fromkeys(found))


def _load(text: str) -> list[x509.Certificate]:
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificates(text.encode())
    except ValueError:
        return []


def _der(certificate: x509.Certificate) -> bytes:
    from cryptography.hazmat.primitives import serialization

    return certificate.public_bytes(serialization.Encoding.DER)


def stamp(moment: datetime) -> str:
    """As Kubernetes writes times."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
