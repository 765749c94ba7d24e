"""HTTP with a broker's admin API that nobody vouches for, encrypted or not: who is asked, and how long."""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import urlsplit

from kindling.kinds.pulsarconsumer.backlog import SubscriptionRequest
from kindling.prober.tls import in_memory

SECONDS = 4.0
"""For each step of it; the pool has a deadline for all, which leaves time to say what happened."""
LONGEST_ANSWER = 2**20
"""Bytes: a thousand consumers take two thirds of it."""
MOST_REDIRECTS = 2
FAILURES = (OSError, http.client.HTTPException, ValueError, TypeError, LookupError)


class Rejected(Exception):
    """The status of an answer that is none, and its text."""

    def __init__(self, status: int, body: bytes = b"") -> None:
        super().__init__(f"status {status}")
        self.status = status
        self.body = body


class NoBroker(ValueError):
    """The address is one that only this Pod or its node can reach."""


@dataclass(frozen=True)
class AdminClient:
    """Where it is asked: `address` may be another than the request's; with `shown` as authorization."""

    address: tuple[str, int]
    request: SubscriptionRequest
    shown: str

    @cached_property
    def _context(self) -> ssl.SSLContext:
        """For all that is asked: to read the authorities takes longer than an answer."""
        return context_of(self.request)

    def ask(self, path: str, *, method: str = "GET") -> bytes:
        """The body of its answer.

        :raises Rejected: (and FAILURES) for what is no answer.
        """
        request = self.request
        # Another host than the request's is the operator's own way there, from outside of the cluster.
        tunnel = self.address if self.address[0] != request.host else None
        host, port = request.host, request.port
        context = self._context if request.encrypted else None
        headers = {"Connection": "close", "Accept": "application/json"}
        if self.shown:
            headers["Authorization"] = self.shown
        for _ in range(MOST_REDIRECTS + 1):
            with connected(tunnel or allowed(host, port), host, port, context) as connection:
                connection.request(method, path, headers=headers)
                with connection.getresponse() as response:
                    if response.status == 307:
                        location = response.getheader("Location") or ""
                        host, port = redirected(location, path, encrypted=request.encrypted)
                        tunnel = None
                        continue
                    body = response.read(LONGEST_ANSWER + 1)
                    if response.status not in (200, 204):
                        raise Rejected(response.status, body)
            if len(body) > LONGEST_ANSWER:
                raise ValueError("too long")
            return body
        raise ValueError("too many redirections")


@contextmanager
def connected(
    address: tuple[str, int], host: str, port: int, context: ssl.SSLContext | None
) -> Iterator[http.client.HTTPConnection]:
    """A connection to this address, for requests to this host; encrypted where there is a context."""
    with ExitStack() as stack:
        plain = stack.enter_context(socket.create_connection(address, timeout=SECONDS))
        if context is None:
            connection = http.client.HTTPConnection(host, port, timeout=SECONDS)
            connection.sock = plain
        else:
            connection = http.client.HTTPSConnection(host, port, timeout=SECONDS)
            connection.sock = stack.enter_context(context.wrap_socket(plain, server_hostname=host))
        yield connection


def redirected(location: str, path: str, *, encrypted: bool = False) -> tuple[str, int]:
    """To the broker that has the topic: for the same question, and as the first one was asked."""
    found = urlsplit(location)
    scheme, default = ("https", 443) if encrypted else ("http", 80)
    if found.scheme != scheme or not found.hostname or found.path != path.partition("?")[0]:
        raise ValueError("redirected elsewhere")
    return found.hostname, found.port or default


def allowed(host: str, port: int) -> tuple[str, int]:
    """The address to connect to. What only this Pod or its node can reach is no broker: who names it, or has
    a name that leads there, has the operator ask in their place.
    """
    for *_, found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        ip = ipaddress.ip_address(str(found[0]).partition("%")[0])
        ip = getattr(ip, "ipv4_mapped", None) or ip
        if ip.is_loopback or ip.is_link_local or ip.is_unspecified or ip.is_multicast:
            raise NoBroker
        return str(found[0]), port
    raise OSError("no address")


def context_of(request: SubscriptionRequest) -> ssl.SSLContext:
    """By whom the broker is vouched for, and the client's certificate.

    :raises OSError: (and ValueError) for what is no certificate, or no key of it.
    """
    context = _context(request.ca)
    if request.certificate:
        # One file may have both, and Python reads them from a file alone.
        with in_memory(f"{request.key}\n{request.certificate}\n") as file:
            context.load_cert_chain(file)
    return context


def issuer_context(request: SubscriptionRequest) -> ssl.SSLContext:
    """An issuer may be vouched for by anybody, and by the broker's authority too."""
    context = _context("")
    if request.ca:
        context.load_verify_locations(cadata=request.ca)
    return context


def _context(ca: str) -> ssl.SSLContext:
    """Python 3.13 refuses what many private authorities issue, which lacks an extension; clients do not."""
    context = ssl.create_default_context(cadata=ca or None)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context
