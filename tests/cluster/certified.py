"""A Pod with libpq's programs and Secrets of roles as files, for logins with a certificate."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager

from tests.cluster import client_pod
from tests.cluster.stack import Environment

FOLDER = "/etc/roles"
GROUP = 999
"""Of the files: libpq takes a key that a group may read if it is root's, and the Pod need not run as root."""


def secret_of(name: str, role: str) -> str:
    return f"{name}-role-{role.replace('_', '-')}"


def values(environment: Environment, name: str, role: str) -> dict[str, str]:
    data = environment.get("secret", secret_of(name, role))["data"]
    return {key: base64.b64decode(value).decode() for key, value in data.items()}


@contextmanager
def client(environment: Environment, name: str, *roles: str) -> Iterator[str]:
    """Of the Postgresql `name`, with each role's Secret in a folder; the first one's host and database."""
    secrets = {role: secret_of(name, role) for role in roles}
    container = {
        **environment.operand(name, secret=secrets[roles[0]]),
        "command": ["sleep", "infinity"],
        "volumeMounts": [
            {"name": secret, "mountPath": f"{FOLDER}/{role}", "readOnly": True}
            for role, secret in secrets.items()
        ],
    }
    spec = {
        "securityContext": {"fsGroup": GROUP},
        "volumes": [
            {"name": secret, "secret": {"secretName": secret, "defaultMode": 0o440}}
            for secret in secrets.values()
        ],
    }
    with client_pod.running(environment, "certified", container, spec=spec) as pod:
        yield pod


def asks(
    environment: Environment,
    pod: str,
    query: str,
    *,
    user: str,
    shows: str | None = None,
    password: str | None = None,
    mode: str = "verify-full",
    folder: str = FOLDER,
) -> str:
    """As `user`, with the certificate of the role `shows`, and a password only if one is given."""
    none = "/dev/null/none"
    files = {"PGSSLCERT": "tls.crt", "PGSSLKEY": "tls.key"}
    given = {name: f"{folder}/{shows}/{file}" if shows else none for name, file in files.items()}
    given |= {"PGUSER": user, "PGSSLMODE": mode, "PGSSLROOTCERT": f"{folder}/{user}/ca.crt"}
    given |= {"PGPASSWORD": password} if password is not None else {}
    without = () if password is not None else ("--unset=PGPASSWORD",)
    words = ("env", *without, *(f"{name}={value}" for name, value in given.items()))
    psql = ("psql", "--no-psqlrc", "--no-password", "-tAc", query)
    return environment.kubectl("exec", pod, "--", *words, *psql).strip()
