"""The certificate that a server shows to whoever connects."""

from __future__ import annotations

import re
import socket
import ssl

from cryptography import x509

from tests.cluster.stack import Environment

_SSL_REQUEST = (8).to_bytes(4, "big") + (80877103).to_bytes(4, "big")


def certificate_of(
    environment: Environment, pod: str, namespace: str, *, port: int = 5432
) -> x509.Certificate | None:
    """By a handshake through a port-forward; None where a PostgreSQL server says that it has no TLS.

    On another port, the first bytes are those of TLS.
    """
    forward = environment.start("port-forward", "-n", namespace, f"pod/{pod}", f":{port}")
    try:
        assert forward.stdout is not None
        found = re.search(r"127\.0\.0\.1:(\d+) ->", forward.stdout.readline())
        assert found is not None
        with socket.create_connection(("127.0.0.1", int(found[1])), timeout=10) as connection:
            if port == 5432:
                connection.sendall(_SSL_REQUEST)
                if connection.recv(1) != b"S":
                    return None
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            with context.wrap_socket(connection) as secured:
                shown = secured.getpeercert(binary_form=True)
        assert shown is not None
        return x509.load_der_x509_certificate(shown)
    finally:
        forward.kill()
        forward.wait()
