"""Once the server takes connections: the superuser's password is set from its Secret, at each start.

So a password that was edited or lost, or a volume that was restored from elsewhere, is fixed by a restart.
It is the startup probe, because that runs in each container that starts, ahead of the Pod's readiness. A
password that cannot be set keeps no server from starting.
"""

from __future__ import annotations

from kindling.kinds.postgresql.initdb import PASSWORD_FILE, PROGRAM
from kindling.kinds.postgresql.service import PORT
from kindling.kinds.postgresql.spec import SUPERUSER

SOCKETS = "/var/run/postgresql"

STARTED = [
    PROGRAM, "started", f"--sockets={SOCKETS}", f"--port={PORT}",
    f"--username={SUPERUSER}", f"--password-file={PASSWORD_FILE}",
]  # fmt: skip
