"""memcached, asked whether it lets its clients in, and for its `stats`.

It is a server that nobody vouches for: one connection, little is read.
"""

from __future__ import annotations

import socket
import ssl
from typing import Any

from kindling.kinds import reasons
from kindling.kinds.base import ExternalResult
from kindling.kinds.memcached.access import CERTIFICATE, LOGIN, AccessRequest
from kindling.kinds.memcached.stats import (
    COUNTERS,
    ENOUGH_READS,
    HITS,
    MISSES,
    MOST,
    RATIO,
    READS,
    StatsRequest,
)
from kindling.prober.tls import described

SECONDS = 5.0
"""For each step of it; the pool has a deadline for all."""
LONGEST_ANSWER = 2**15
"""Bytes: memcached's own is of 3 KiB."""
LONGEST_QUOTE = 80
_STAT, _END = b"STAT ", b"END\r\n"
_STORED, _REFUSED = b"STORED\r\n", b"CLIENT_ERROR authentication failure\r\n"
_DIGITS = len(str(MOST))


class _Wrong(Exception):
    """What was answered instead; `reason` is that of the result."""

    def __init__(self, message: str, reason: str = reasons.NOT_RESPONDING) -> None:
        super().__init__(message)
        self.reason = reason


def query(address: tuple[str, int], request: AccessRequest) -> ExternalResult:
    """Never raises for what a server may answer."""
    try:
        return ExternalResult(ok=True, facts=_facts(address, request))
    except ssl.SSLCertVerificationError as error:
        return _failed(request, reasons.CERTIFICATE_REJECTED, error.verify_message)
    except _Wrong as error:
        return _failed(request, error.reason, str(error))
    except OSError as error:
        return _failed(request, reasons.NOT_RESPONDING, f"{type(error).__name__}: {error}")


def _failed(request: AccessRequest, reason: str, why: str) -> ExternalResult:
    place, pod = f"memcached at {request.host}:{request.port}", request.pod
    look = f"see Pod {pod} (`kubectl logs {pod} -n {request.namespace}`)"
    if reason == reasons.CERTIFICATE_REJECTED:
        message = (
            f"{place} does not prove to be {request.name}: {why}. It is asked again; {look} and spec.tls."
        )
    elif reason == reasons.LOGIN_FAILED:
        message = f"{place} does not accept the login of its own Secret: {why}. It is asked again; {look}."
    elif isinstance(request, StatsRequest):
        soon = "" if request.ratio else " within minutes"
        message = f"{place} gave no statistics: {why}. It is asked again{soon}; {look}."
    else:
        message = f"{place} does not let its clients in: {why}. It is asked again; {look}."
    return ExternalResult(ok=False, reason=reason, message=message)


def _facts(address: tuple[str, int], request: AccessRequest) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    with socket.create_connection(address, timeout=SECONDS) as plain:
        connection = plain
        if request.ca is not None:
            connection = _context(request.ca).wrap_socket(plain, server_hostname=request.name)
            if (served := described(connection.getpeercert(binary_form=True))) is not None:
                facts[CERTIFICATE] = served
        with connection:
            if request.passwords:
                facts[LOGIN] = _log_in(connection, request)
            if isinstance(request, StatsRequest):
                counters = _counters(_stats(connection))
                facts |= _ratio(counters) if request.ratio else counters
    return facts


def _context(ca: str) -> ssl.SSLContext:
    """It trusts these authorities, and verifies the name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_verify_locations(cadata=ca)
    except (ssl.SSLError, ValueError) as error:
        raise _Wrong(f"its authority cannot be read: {error}", reasons.CERTIFICATE_REJECTED) from error
    return context


def _log_in(connection: socket.socket, request: AccessRequest) -> bool:
    """Whether the first password is accepted, and not only one of those after it."""
    for number, password in enumerate(request.passwords):
        words = f"{request.username} {password}".encode()
        connection.sendall(b"set login 0 0 %d\r\n%b\r\n" % (len(words), words))
        answer = _answer(connection, ends=b"\r\n", begins=(_STORED, _REFUSED), quoted=False)
        if answer == _STORED:
            return number == 0
    raise _Wrong("it refuses user and password", reasons.LOGIN_FAILED)


def _stats(connection: socket.socket) -> bytes:
    connection.sendall(b"stats\r\n")
    return _answer(connection, ends=_END, begins=(_STAT, _END))


def _answer(
    connection: socket.socket, *, ends: bytes, begins: tuple[bytes, ...], quoted: bool = True
) -> bytes:
    """Not `quoted` in an error where it may have what was sent: a password."""
    answer = bytearray()
    while not answer.endswith(ends):
        if len(answer) == LONGEST_ANSWER:
            raise _Wrong(f"it answered more than {LONGEST_ANSWER} bytes")
        part = connection.recv(LONGEST_ANSWER - len(answer))
        if not part:
            raise _Wrong("it closed the connection")
        answer += part
        if not any(answer[: len(begin)] == begin[: len(answer)] for begin in begins):
            quote = (
                f" {bytes(answer[:LONGEST_QUOTE])!r}" if quoted else ", to a login, what memcached does not"
            )
            raise _Wrong(f"it answered{quote}")
    return bytes(answer)


def _ratio(counters: dict[str, int]) -> dict[str, int]:
    reads = counters[HITS] + counters[MISSES]
    return {RATIO: 100 * counters[HITS] // max(1, reads), READS: min(reads, ENOUGH_READS)}


def _counters(answer: bytes) -> dict[str, int]:
    found: dict[str, int] = {}
    for line in answer.split(b"\r\n"):
        word, _, rest = line.partition(b" ")
        name, _, value = rest.decode("ascii", "replace").partition(" ")
        if word == b"STAT" and name in COUNTERS and value.isascii() and value.isdecimal():
            found[name] = min(int(value), MOST) if len(value) <= _DIGITS else MOST
    if missing := [name for name in COUNTERS if name not in found]:
        raise _Wrong(f"its answer has no {missing[0]}")
    return found
