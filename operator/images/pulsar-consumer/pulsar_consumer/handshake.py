"""Does a broker refuse who we are? The client does not say so: it tries until its time is up.

(apache/pulsar-client-cpp#227.) So a failed attempt to connect is followed by this question, the first
frame of Pulsar's binary protocol, whose answer says it.
"""

from __future__ import annotations

import re
import socket
import ssl
import struct
from contextlib import closing
from urllib.parse import urlsplit

from pulsar_consumer.settings import Broker

SECONDS = 5.0
# BaseCommand{type: ERROR, error: CommandError{request_id: any, error: AuthenticationError}}
_REFUSAL = re.compile(rb"\x08\x0e\x72[\x80-\xff]*[\x00-\x7f]\x08[\x80-\xff]*[\x00-\x7f]\x10\x03", re.DOTALL)


def refused(broker: Broker, *, token: str | None) -> bool:
    """Whether one of the broker's hosts answers, and that is its answer."""
    scheme, _, hosts = broker.server.partition("://")
    return any(_refuses(f"//{host}", scheme, token) for host in hosts.rstrip("/").split(","))


def _refuses(host: str, scheme: str, token: str | None) -> bool:
    try:
        address = urlsplit(host)
        port = address.port or (6651 if scheme == "pulsar+ssl" else 6650)
        connection = socket.create_connection((address.hostname or "", port), timeout=SECONDS)
        if scheme == "pulsar+ssl":
            context = ssl.create_default_context()
            connection = context.wrap_socket(connection, server_hostname=address.hostname)
        with closing(connection):
            connection.sendall(_connect(token))
            # After the sizes of the frame and of its command.
            return _REFUSAL.match(connection.recv(4096)[8:]) is not None
    except (OSError, ValueError):
        return False


def _connect(token: str | None) -> bytes:
    """A frame of BaseCommand{type: CONNECT, connect: CommandConnect}."""
    connect = _field(1, b"kindling") + b"\x20\x13"  # client_version, protocol_version 19
    if token is not None:
        connect += _field(5, b"token") + _field(3, token.encode())  # auth_method_name, auth_data
    command = b"\x08\x02" + _field(2, connect)
    return struct.pack(">II", len(command) + 4, len(command)) + command


def _field(number: int, value: bytes) -> bytes:
    """A field of bytes in protobuf's encoding."""
    size, length = len(value), bytearray()
    while size > 0x7F:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    length.append(size)
    return bytes([number << 3 | 2]) + bytes(length) + value
