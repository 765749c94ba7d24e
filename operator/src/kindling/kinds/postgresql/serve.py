"""What the server's container runs: a program of ours, `postgres-init serve`, with the server as its child.

It passes on what ends the container, ends as the server does, and restarts the server within its Pod when
it is asked to: by a file that the operator has the server write, over SQL. So that takes no right in the
cluster.

It also answers the kubelet's readiness probe over HTTP, which waits for a server that starts. The first time
that the server of a container takes logins, it sets the superuser's password from its Secret: so a password
that was edited or lost, or a volume that was restored from elsewhere, is fixed by a restart of the Pod. A
password that cannot be set keeps no server from starting.
"""

from __future__ import annotations

from kindling.kinds.postgresql import server_log
from kindling.kinds.postgresql.initdb import PASSWORD_FILE, PGDATA, PROGRAM, SOCKETS, TRIAL
from kindling.kinds.postgresql.service import PORT
from kindling.kinds.postgresql.spec import SUPERUSER
from kindling.kube.resources import Object

FILE = "kindling.restart"
REQUEST = f"{SOCKETS}/{FILE}"
"""Where the request is written, beside the server's socket: `PID SECOND BASE64`, the server that it is for
and the file of its parameters.
"""

READY_PORT = 8008
READY = "ready"
"""The port, and its name, where the program answers the kubelet: a command would be a process of the
container runtime each time.
"""
IS_READY: Object = {"path": "/", "port": READY}
"""The page of the readiness probe."""
RESTARTED = "restarted"
"""The fact of an answer: the parameters that the server was restarted for within its Pod."""

SERVE = [
    PROGRAM, "serve", f"--data={PGDATA}", f"--trial={TRIAL}", f"--sockets={SOCKETS}", f"--port={PORT}",
    f"--username={SUPERUSER}", f"--password-file={PASSWORD_FILE}", f"--ready={READY_PORT}",
    f"--request={REQUEST}",
]  # fmt: skip


def command(cr: Object, server: list[str], *, seconds: int) -> list[str]:
    """The container's command, of the server's own; `seconds` is how long that has to end."""
    return [*SERVE, f"--seconds={seconds}", *server_log.arguments(cr), "--", *server]


def restarts(workload: Object) -> bool:
    """Whether a Pod of this StatefulSet's template has that program, and not one of an operator before."""
    template = (workload.get("spec") or {}).get("template") or {}
    containers = (template.get("spec") or {}).get("containers") or ()
    return any(SERVE[-1] in (item.get("command") or ()) for item in containers)
