"""Before the server starts: the data directory is made, the parameters are tried and put in place.

One program, GNU find, whose expression is the control flow: the image's shell is not ours to need.
"""

from __future__ import annotations

from kindling.kinds.postgresql.spec import SUPERUSER

MOUNT = "/var/lib/postgresql/data"
PGDATA = f"{MOUNT}/pgdata"
CONFIG = "/etc/kindling/config"
SUPERUSER_FILES = "/etc/kindling/superuser"
TRIAL = "/tmp/kindling-trial"

PARAMETERS = "parameters.conf"
"""The file of our parameters in the ConfigMap."""

IDENTIFIER = "system-identifier"
"""The file in the ConfigMap that has PostgreSQL's system identifier, once there is data that can be lost."""

LOST = "DataLost: the volume has no data, and it had some: no database was initialised"
"""The line that the operator knows a start without data by."""

REFUSED = "parameters.refused"
"""In the data directory, a copy of parameters with which `postgres` would not start; the operator reads it.
"""

_AUTO = "postgresql.auto.conf"

# "Unless PG_VERSION is there, clear the half-made, initdb beside it, rename; if any step failed,
# fail". Killed at any instant, the next run heals it, and data is never seen incomplete. An existing
# directory gets mode 0700 again, which a volume's group change (fsGroup) may have widened and
# postgres refuses. Where there was data before, none is made in its place.
_DATA = [
    "-exec", "test", "-e", "{}/pgdata/PG_VERSION", ";",
    "-exec", "chmod", "0700", "{}/pgdata", ";",
    "-o",
    "(", "-exec", "test", "!", "-s", f"{CONFIG}/{IDENTIFIER}", ";", "-o", "!", "-printf", f"{LOST}\\n", ")",
    "-exec", "rm", "-rf", "{}/pgdata.partial", ";",
    "-exec", "initdb", "--pgdata={}/pgdata.partial", f"--username={SUPERUSER}",
    f"--pwfile={SUPERUSER_FILES}/password", "--auth-local=peer", "--auth-host=scram-sha-256",
    "--encoding=UTF8", "--locale=C.UTF-8", "--data-checksums", "--no-instructions", ";",
    "-exec", "mv", "-T", "{}/pgdata.partial", "{}/pgdata", ";",
    "-exec", "sync", "{}", ";",
]  # fmt: skip

# Asked for a value that it has to compute, postgres goes through all checks of a start, the
# libraries included, and starts nothing. It does so in a directory of links, so that nothing is
# changed before it is known to be good.
_TRIAL = ["-exec", "postgres", "-D", TRIAL, "-C", "data_checksums", ";"]

# "If our parameters pass, they take the place of what ALTER SYSTEM left; if not, say so, and keep
# what was there, if that passes: or start with none." None of it stops the server from starting. On a full
# volume nothing can be written: then what was there stays, until there is space again.
_PARAMETERS = [
    "-exec", "rm", "-rf", TRIAL, ";",
    "-exec", "mkdir", "-p", "-m", "0700", TRIAL, ";",
    "-exec", "ln", "-st", TRIAL,
    f"{PGDATA}/PG_VERSION", f"{PGDATA}/global", f"{PGDATA}/postgresql.conf", ";",
    "(",
    "-exec", "install", "-m", "0600", f"{CONFIG}/{PARAMETERS}", f"{TRIAL}/{_AUTO}", ";",
    *_TRIAL,
    "(",
    "-exec", "install", "-m", "0600", f"{TRIAL}/{_AUTO}", f"{PGDATA}/{_AUTO}.new", ";",
    "-exec", "mv", "-T", f"{PGDATA}/{_AUTO}.new", f"{PGDATA}/{_AUTO}", ";",
    "-exec", "rm", "-f", f"{PGDATA}/{REFUSED}", ";",
    "-o", "-true",
    ")",
    "-o",
    "(",
    "-exec", "install", "-m", "0600", f"{CONFIG}/{PARAMETERS}", f"{PGDATA}/{REFUSED}", ";",
    "-o", "-true",
    ")",
    "-exec", "install", "-m", "0600", f"{PGDATA}/{_AUTO}", f"{TRIAL}/{_AUTO}", ";",
    *_TRIAL,
    "-o", "-exec", "install", "-m", "0600", "/dev/null", f"{PGDATA}/{_AUTO}", ";",
    ")",
]  # fmt: skip

INITDB = [
    "find", MOUNT, "-maxdepth", "0",
    "(", *_DATA, ")", "(", *_PARAMETERS, "-o", "-true", ")",
    "-o", "-exec", "false", "{}", "+",
]  # fmt: skip
