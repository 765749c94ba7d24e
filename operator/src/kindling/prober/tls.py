"""TLS by libpq: the authorities are handed over without a file on disk, and what the server showed is read.

libpq reads the authorities from a file, and the prober has no folder that it may write to: they are in a file
that is in memory and has no name.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, NamedTuple

from kindling.kinds.certificates import make_authority, read, stamp
from kindling.kinds.postgresql.login import Login, SuperuserRequest
from kindling.kinds.postgresql.objects import Objects
from kindling.kinds.postgresql.reload import Reload
from kindling.prober.jobs import LONGEST_ISSUER

NONE = "/dev/null/none"
"""A file that there cannot be; without a name, libpq looks into a home."""


class Trust(NamedTuple):
    """Who the server is to be, and who says so; `ca` is in PEM.

    `bound`: its certificate proves nothing, because it has ended, say. The server proves itself by the
    verifier of the password, and its proof is bound to this very connection (SCRAM-SHA-256-PLUS).
    """

    host: str
    ca: str
    bound: bool = False


def trust_of(
    request: Login | Objects | Reload | SuperuserRequest,
) -> Trust | None:
    """None where the server has no TLS."""
    return None if request.ca is None else Trust(request.host, request.ca)


def warm_up() -> None:
    """Load what reading a certificate loads."""
    made = make_authority(b"", name="-", now=datetime(2020, 1, 1, tzinfo=UTC))
    read(made.certificate)


@contextmanager
def settings(trust: Trust | None) -> Iterator[dict[str, str]]:
    """What a connection is to be made with, for as long as the context lasts."""
    if trust is None:
        yield {"sslmode": "disable"}
        return
    common = {"ssl_min_protocol_version": "TLSv1.2", "sslcert": NONE, "sslcrl": NONE}
    if trust.bound:
        yield {**common, "sslmode": "require", "channel_binding": "require", "sslrootcert": NONE}
        return
    with in_memory(trust.ca) as file:
        yield {**common, "sslmode": "verify-full", "sslrootcert": file}


@contextmanager
def in_memory(text: str) -> Iterator[str]:
    """The path of a file with this text, for as long as the context lasts, for what reads files alone."""
    file = os.memfd_create("in-memory", os.MFD_CLOEXEC)
    try:
        os.write(file, text.encode())
        yield f"/proc/self/fd/{file}"
    finally:
        os.close(file)


def certificate_of(library: ctypes.CDLL, connection: int) -> dict[str, str] | None:
    """What the server showed, as in `described`.

    `library` is the libpq of the connection, whose own OpenSSL is found through it.
    """
    return described(_der(library, connection))


def described(der: bytes | None) -> dict[str, str] | None:
    """Fingerprint, end and issuer of a certificate; None for what is none."""
    from cryptography import x509

    if der is None:
        return None
    try:
        found = x509.load_der_x509_certificate(der)
        issuer = found.issuer.rfc4514_string()
        return {
            "fingerprint": sha256(der).hexdigest(),
            "not_after": stamp(found.not_valid_after_utc),
            "issuer": issuer[:LONGEST_ISSUER],
        }
    except (ValueError, TypeError, OverflowError):
        return None


def _der(library: ctypes.CDLL, connection: int) -> bytes | None:
    ssl = _call(library.PQsslStruct, ctypes.c_void_p(connection), b"OpenSSL")
    if not ssl:
        return None
    certificate = _call(library.SSL_get1_peer_certificate, ctypes.c_void_p(ssl))
    if not certificate:
        return None
    try:
        begin = ctypes.c_void_p(None)
        length = library.i2d_X509(ctypes.c_void_p(certificate), ctypes.byref(begin))
        if length <= 0 or not begin.value:
            return None
        try:
            return ctypes.string_at(begin.value, length)
        finally:
            library.CRYPTO_free(begin, None, 0)
    finally:
        library.X509_free(ctypes.c_void_p(certificate))


def _call(function: Callable[..., Any], *values: Any) -> int | None:
    """Of a function that returns a pointer."""
    function.restype = ctypes.c_void_p  # type: ignore[attr-defined]
    found: int | None = function(*values)
    return found
