"""Before the server starts: the data directory is made, the parameters are tried and put in place.

Both are done by one static program of ours, operator/images/postgres-init, which runs the server too
(`serve`). The first init container, of its own image, copies it into a volume of the Pod; from there it runs
in whatever image has the server. It calls PostgreSQL's programs and no others.
"""

from __future__ import annotations

from kindling.kinds.postgresql.spec import SUPERUSER

MOUNT = "/var/lib/postgresql/data"
PGDATA = f"{MOUNT}/pgdata"
CONFIG = "/etc/kindling/config"
SUPERUSER_FILES = "/etc/kindling/superuser"
PASSWORD_FILE = f"{SUPERUSER_FILES}/password"
TRIAL = "/tmp/kindling-trial"
SOCKETS = "/var/run/postgresql"

PROGRAM_MOUNT = "/kindling"
PROGRAM = f"{PROGRAM_MOUNT}/postgres-init"

PARAMETERS = "parameters.conf"
"""The file of our parameters in the ConfigMap; the program knows it by this name, as it does those below."""

IDENTIFIER = "system-identifier"
"""The file in the ConfigMap that has PostgreSQL's system identifier, once there is data that can be lost."""

KEEP_PREVIOUS = "keep-previous"
"""The file in the ConfigMap with which a start leaves the data from before a restore in place where it is."""

LOST = "DataLost: the volume has no data, and it had some: no database was initialised"
"""The line that the operator knows a start without data by."""

REFUSED = "parameters.refused"
"""In the data directory, a copy of parameters with which `postgres` would not start; the operator reads it.
"""

INSTALL = ["/postgres-init", "install", f"--to={PROGRAM}"]

INITDB = [
    PROGRAM, "initdb", f"--data={PGDATA}", f"--config={CONFIG}", f"--trial={TRIAL}",
    f"--username={SUPERUSER}", f"--password-file={PASSWORD_FILE}",
]  # fmt: skip
"""Killed at any instant, the next run heals it, and data is never seen incomplete; where there was data
before, none is made in its place. Neither a parameter nor a full volume keeps the server from starting.
"""
