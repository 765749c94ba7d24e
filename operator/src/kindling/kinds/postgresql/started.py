"""Once the server takes connections: the superuser's password is set from its Secret, at each start.

So a password that was edited or lost, or a volume that was restored from elsewhere, is fixed by a restart.
It is the startup probe, because that runs in each container that starts, ahead of the Pod's readiness. Like
`initdb` it is one program, GNU find: a password that cannot be set keeps no server from starting.
"""

from __future__ import annotations

from kindling.kinds.postgresql.initdb import SUPERUSER_FILES
from kindling.kinds.postgresql.service import PORT
from kindling.kinds.postgresql.spec import SUPERUSER

SOCKETS = "/var/run/postgresql"
IS_READY = ["pg_isready", "--quiet", f"--host={SOCKETS}", f"--port={PORT}", "--dbname=postgres"]
LONGEST = 10_000
SECONDS = 3
"""Within the probe's time limit."""

# The server reads the file itself, so that no statement has the password in it. What is executed within
# a DO is not logged, but the context of an error is: nothing of this session is.
_SQL = f"""DO $do$
DECLARE word text := pg_read_file('{SUPERUSER_FILES}/password', 0, {LONGEST}, true);
BEGIN
  IF word <> '' THEN EXECUTE format('ALTER ROLE {SUPERUSER} PASSWORD %L', word); END IF;
END $do$"""
_SETTINGS = {
    "search_path": "pg_catalog",
    "default_transaction_read_only": "off",
    "password_encryption": "scram-sha-256",
    "synchronous_commit": "local",
    "statement_timeout": f"{SECONDS}s",
    "log_statement": "none",
    "log_min_messages": "panic",
    "log_min_duration_statement": "-1",
    "pg_stat_statements.track": "none",
}
_OPTIONS = " ".join(f"-c {name}={value}" for name, value in _SETTINGS.items())

# "If the server is ready, set the password, whether or not that can be done; if it is not, fail."
STARTED = [
    "find", SOCKETS, "-maxdepth", "0",
    "-exec", *IS_READY, ";",
    "(",
    "-exec", "psql", "--no-psqlrc", "--quiet", "--no-password", f"--command={_SQL}",
    f"host={SOCKETS} port={PORT} user={SUPERUSER} dbname=postgres connect_timeout={SECONDS} "
    f"application_name=kindling options='{_OPTIONS}'", ";",
    "-o", "-true",
    ")",
    "-o", "-exec", "false", "{}", "+",
]  # fmt: skip
