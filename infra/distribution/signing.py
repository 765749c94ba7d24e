"""A release's signature: of its checksums, and so of every file, by a key that is the releaser's.

ECDSA on P-256 over SHA-256, in base64: what `openssl dgst -verify` and cosign's `verify-blob` read.
"""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from infra.errors import KindlingError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

SIGNATURE = "SHA256SUMS.sig"
PASSPHRASE = "KINDLING_SIGNING_PASSPHRASE"
"""The environment variable: an argument could be read in the list of processes."""
_MAKE = "make one: openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -aes-256-cbc -out FILE"


def read_key(file: Path, *, passphrase: str | None) -> EllipticCurvePrivateKey:
    """The private key in PEM (PKCS #8); raises `KindlingError` where it is none that can sign."""
    # Imported where something is signed: no other command needs it.
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    try:
        text = file.read_bytes()
    except OSError as error:
        raise _wrong(file, why=error.strerror or str(error), remedy=_MAKE) from None
    encrypted = b"ENCRYPTED" in text
    if encrypted and not passphrase:
        raise _wrong(file, why="it is encrypted", remedy=f"set {PASSPHRASE} in the environment.")
    try:
        key = serialization.load_pem_private_key(
            text, passphrase.encode() if encrypted and passphrase else None
        )
    except (ValueError, TypeError, UnsupportedAlgorithm):
        why = f"{PASSPHRASE} does not open it" if encrypted else "it is no private key in PEM"
        raise _wrong(file, why=why, remedy="name the right one." if encrypted else _MAKE) from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise _wrong(file, why="it is no key of the curve P-256, which is what cosign reads", remedy=_MAKE)
    return key


def sign(key: EllipticCurvePrivateKey, content: bytes) -> bytes:
    """The signature of the content, one line of base64. The same key and content make the same one."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    signature = key.sign(content, ec.ECDSA(hashes.SHA256(), deterministic_signing=True))
    return base64.b64encode(signature) + b"\n"


def key_id(key: EllipticCurvePrivateKey) -> str:
    """The SHA-256 of the public key in DER, in hexadecimal: `openssl pkey -pubout -outform DER` has it."""
    from cryptography.hazmat.primitives import serialization

    public = key.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return hashlib.sha256(public).hexdigest()


def _wrong(file: Path, *, why: str, remedy: str) -> KindlingError:
    return KindlingError(f"--signing-key cannot be `{file}`", why=why, remedy=remedy)
