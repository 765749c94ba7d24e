"""The exporter beside PostgreSQL: Debian's postgres_exporter, logged in as a role of the operator's own.

It listens on the Pod's loopback alone, behind a program of ours (operator/images/exporters/metrics-proxy)
that serves its metrics: it would connect to any server for whoever asks.

The role is one of `roles.read`: so it is made, dropped and reported as those of the spec are. Its password is
in the Secret of such a role, and comes from there as a file.
"""

from __future__ import annotations

from urllib.parse import urlencode

from kindling.kinds import exporter
from kindling.kinds.postgresql import roles, tls
from kindling.kinds.postgresql.service import PORT
from kindling.kube.resources import Object

EXPORTER_PORT = 9187
LOOPBACK = "127.0.0.1:9188"
FILES = "/etc/kindling/exporter"
DATABASE = "postgres"
"""Where it is connected: a database that is always there. In a template, it would block CREATE DATABASE."""
VOLUME = exporter.NAME

COMMAND = [
    "metrics-proxy",
    f"--listen=:{EXPORTER_PORT}",
    f"--exporter={LOOPBACK}",
    f"--file={FILES}/password",
    "--",
    "prometheus-postgres-exporter",
    f"--web.listen-address={LOOPBACK}",
    "--collector.database_wraparound",
    "--collector.long_running_transactions",
]


def container(cr: Object, *, image: str) -> Object:
    options = {
        # The server may ask for TLS of everybody; on the Pod's loopback there is nobody to verify.
        "sslmode": "require" if tls.is_enabled(cr) else "disable",
        "application_name": exporter.NAME,
        # Whoever owns the database could put functions of his own before those of the system.
        "search_path": "pg_catalog",
    }
    return exporter.container(
        cr,
        image=image,
        command=COMMAND,
        port=EXPORTER_PORT,
        env=[
            {"name": "DATA_SOURCE_URI", "value": f"localhost:{PORT}/{DATABASE}?{urlencode(options)}"},
            {"name": "DATA_SOURCE_USER", "value": roles.EXPORTER},
            {"name": "DATA_SOURCE_PASS_FILE", "value": f"{FILES}/password"},
        ],
        mounts=[{"name": VOLUME, "mountPath": FILES, "readOnly": True}],
    )


def volume(cr: Object) -> Object:
    """The password alone. Not optional: the Pod waits for it."""
    return {
        "name": VOLUME,
        "secret": {
            "secretName": roles.secret_name(cr, roles.EXPORTERS_ROLE),
            "defaultMode": 0o440,
            "items": [{"key": "password", "path": "password"}],
        },
    }
