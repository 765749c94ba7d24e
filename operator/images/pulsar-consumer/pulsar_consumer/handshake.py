"""Does a broker refuse who we are, or is it not who it should be? The client does not say so: it tries until
its time is up.

(apache/pulsar-client-cpp#227.) So a failed attempt to connect is followed by this question, the first
frame of Pulsar's binary protocol, whose answer says it.
"""

from __future__ import annotations

import re
import socket
import ssl
import struct
from contextlib import closing
from enum import Enum
from urllib.parse import urlsplit

from pulsar_consumer.credentials import Shown, shown, tls_context
from pulsar_consumer.settings import Broker

SECONDS = 5.0
# BaseCommand{type: ERROR, error: CommandError{request_id: any, error: AuthenticationError}}
_REFUSAL = re.compile(rb"\x08\x0e\x72[\x80-\xff]*[\x00-\x7f]\x08[\x80-\xff]*[\x00-\x7f]\x10\x03", re.DOTALL)
# The alerts of TLS by which a server says that it wants a client's certificate.
_WANTED = ("CERTIFICATE_REQUIRED", "HANDSHAKE_FAILURE", "BAD_CERTIFICATE")


class Refusal(Enum):
    """Who refuses whom, and by what."""

    CREDENTIALS = "the broker refuses what is shown to it"
    CLIENT_CERTIFICATE = "the broker refuses the client's certificate, or that there is none"
    BROKER = "the broker's certificate is refused"


def refusal(broker: Broker) -> tuple[Refusal, str] | None:
    """That of one of the broker's hosts, with words for the cause or none; None where none refuses."""
    scheme, _, hosts = broker.server.partition("://")
    presented = shown(broker)
    for host in hosts.rstrip("/").split(","):
        if found := _refusal(f"//{host}", scheme, broker, presented):
            return found
    return None


def _refusal(host: str, scheme: str, broker: Broker, presented: Shown | None) -> tuple[Refusal, str] | None:
    try:
        address = urlsplit(host)
        port = address.port or (6651 if scheme == "pulsar+ssl" else 6650)
        connection = socket.create_connection((address.hostname or "", port), timeout=SECONDS)
        with closing(connection):
            if scheme == "pulsar+ssl":
                connection = tls_context(broker).wrap_socket(connection, server_hostname=address.hostname)
            with closing(connection):
                connection.sendall(_connect(presented))
                # After the sizes of the frame and of its command.
                refused = _REFUSAL.match(connection.recv(4096)[8:]) is not None
        return (Refusal.CREDENTIALS, "") if refused else None
    except ssl.SSLCertVerificationError as error:
        return Refusal.BROKER, str(error.verify_message)
    except ssl.SSLError as error:
        said = error.reason or ""
        # Pulsar calls a certificate of another authority an internal error.
        shows = broker.certificate_file is not None
        by_alert = "ALERT" in said and (shows or any(name in said for name in _WANTED))
        return (Refusal.CLIENT_CERTIFICATE, "") if by_alert else None
    except (OSError, ValueError):
        return None


def _connect(presented: Shown | None) -> bytes:
    """A frame of BaseCommand{type: CONNECT, connect: CommandConnect}."""
    connect = _field(1, b"kindling") + b"\x20\x13"  # client_version, protocol_version 19
    if presented is not None:  # auth_method_name, auth_data
        connect += _field(5, presented.method.encode()) + _field(3, presented.data.encode())
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
