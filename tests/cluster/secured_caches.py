"""How a client gets into a Memcached with spec.tls or spec.auth: by what the Secret NAME-binding says."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

from tests.cluster.stack import Environment

PYTHON = "/opt/kindling/bin/python"
RESOURCE = "memcacheds.cache.example.com"
# Logs in, says the lines given, and prints the answers; an answer ends where memcached falls silent.
_TALK = """
import os, socket, ssl, sys
host, port, *lines = sys.argv[1:]
with socket.create_connection((host, int(port)), 10) as connection:
    if ca := os.environ.get("CA"):
        context = ssl.create_default_context(cadata=ca)
        connection = context.wrap_socket(connection, server_hostname=os.environ["HOST"])
    connection.settimeout(1)
    if password := os.environ.get("PASSWORD"):
        words = os.environ["USERNAME"] + " " + password
        connection.sendall(f"set login 0 0 {len(words)}\\r\\n{words}\\r\\n".encode())
        assert connection.recv(100) == b"STORED\\r\\n"
    connection.sendall("".join(line + "\\r\\n" for line in lines).encode())
    try:
        while part := connection.recv(65536):
            sys.stdout.write(part.decode())
    except TimeoutError:
        pass
"""
_VARIABLES = {"CA": "ca.crt", "HOST": "host", "USERNAME": "username", "PASSWORD": "password"}


@dataclass(frozen=True)
class Way:
    """The way into one resource's caches. `bound`: its spec asks for TLS or a login; `ca`: for TLS."""

    name: str
    namespace: str
    bound: bool
    ca: bool

    def talk(self, environment: Environment, host: str, port: int, *lines: str) -> str:
        """What memcached answers to these lines, asked from a Pod with the binding, which names no value."""
        operator = environment.get("deployment", "kindling-operator", "-n", "kindling-system")
        secret = f"{self.name}-binding"
        container = {
            "image": operator["spec"]["template"]["spec"]["containers"][0]["image"],
            "command": [PYTHON, "-c", _TALK, host, str(port), *lines],
            "env": [
                {
                    "name": name,
                    "valueFrom": {"secretKeyRef": {"name": secret, "key": key, "optional": True}},
                }
                for name, key in _VARIABLES.items()
            ],
        }
        return environment.answer(container)


def way_of(resource: dict[str, Any]) -> Way:
    meta, spec = resource["metadata"], resource["spec"]
    tls, auth = (bool(spec.get(field, {}).get("enabled")) for field in ("tls", "auth"))
    return Way(meta["name"], meta["namespace"], tls or auth, tls)


def binding(environment: Environment, name: str) -> dict[str, str]:
    """The Secret's values."""
    found = environment.get("secret", f"{name}-binding")["data"]
    return {key: base64.b64decode(value).decode() for key, value in found.items()}
