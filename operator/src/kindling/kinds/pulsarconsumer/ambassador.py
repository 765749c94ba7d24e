"""The local broker inside a Pod whose spec says localhost, which in a Pod is the Pod itself.

Why so, and not by changing the address: docs/decisions/0008-local-broker.md.
"""

from __future__ import annotations

import ipaddress
from typing import NamedTuple

from kindling.kinds import pod_security
from kindling.kube.resources import Object

SCHEME = "pulsar://"
PORT = 6650
RESOURCES: Object = {"requests": {"cpu": "5m", "memory": "8Mi"}, "limits": {"memory": "64Mi"}}


class Listen(NamedTuple):
    """A loopback address and a port at which a client looks for its broker."""

    address: ipaddress.IPv4Address | ipaddress.IPv6Address
    port: int


def loopbacks(server: str) -> list[Listen]:
    """The loopback addresses among a broker's addresses, each once, in their order."""
    found: dict[Listen, None] = {}
    for part in server.partition("://")[2].rstrip("/").split(","):
        host, port = _split(part)
        # Where localhost is ::1 too, clients go on to the next address when the first does not answer.
        address = _address("127.0.0.1" if host.lower().rstrip(".") == "localhost" else host)
        if address is not None and address.is_loopback:
            found[Listen(address, port)] = None
    return list(found)


def needed(server: str, *, local_broker: str) -> list[Listen]:
    """Where to listen for the local broker; not for TLS, whose certificate would be another's."""
    return loopbacks(server) if local_broker and server.startswith(SCHEME) else []


def containers(server: str, *, local_broker: str, image: str) -> list[Object]:
    """One sidecar for each address: there before the consumer starts, and until it has ended."""
    return [
        {
            "name": "local-broker" if number == 1 else f"local-broker-{number}",
            **pod_security.image(image),
            "command": _command(listen, local_broker),
            "restartPolicy": "Always",
            "resources": RESOURCES,
            "securityContext": pod_security.CONTAINER,
            "terminationMessagePolicy": "FallbackToLogsOnError",
        }
        for number, listen in enumerate(needed(server, local_broker=local_broker), start=1)
    ]


def _command(listen: Listen, local_broker: str) -> list[str]:
    family = "TCP4" if listen.address.version == 4 else "TCP6"
    address = str(listen.address) if listen.address.version == 4 else f"[{listen.address}]"
    return [
        "socat",
        f"{family}-LISTEN:{listen.port},bind={address},fork,reuseaddr",
        f"TCP:{local_broker}",
    ]


def _split(part: str) -> tuple[str, int]:
    host, colon, port = part.rpartition(":")
    if not colon or "]" in port:  # an IPv6 address without a port ends in its bracket
        host, port = part, ""
    number = int(port) if port.isascii() and port.isdigit() else PORT
    return host.removeprefix("[").removesuffix("]"), number


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
