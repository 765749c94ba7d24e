"""What a database acknowledged and what it has: PostgreSQL's own load generator against one resource.

Each client counts its own rows. What it has no answer for it does not log, and it ends there.
"""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.cluster.stack import Environment

CLIENTS = 4
INSERT = """\
\\set n :n + 1
INSERT INTO ledger (round, client, n) VALUES (:round, :client_id, :n);
"""
TABLE = "CREATE TABLE ledger (round int, client int, n int, PRIMARY KEY (round, client, n))"


@dataclass(frozen=True)
class Ledger:
    """A database with a table for it, and the Pod that the load comes from."""

    environment: Environment
    database: str
    pod: str

    def words(self, *, round: int, seconds: int) -> list[str]:
        """The words that load it until the time is over or the server gone."""
        return [
            "pgbench",
            "--no-vacuum",
            f"--client={CLIENTS}",
            f"--time={seconds}",
            "--log",
            f"--log-prefix=/tmp/round-{round}-",
            f"--define=round={round}",
            "--define=n=0",
            "--file=/script/insert.sql",
            # A server that goes without a word is noticed too.
            "tcp_user_timeout=5000 keepalives_idle=5 keepalives_interval=1 keepalives_count=3",
        ]

    def start(self, *, round: int, seconds: int) -> subprocess.Popen[str]:
        return self.environment.start("exec", self.pod, "--", *self.words(round=round, seconds=seconds))

    def acknowledged(self, *, round: int) -> Counter[int]:
        """How many commits the server acknowledged to each client."""
        search = ("grep", "--recursive", "--no-filename", "", "/tmp", f"--include=round-{round}-*")
        logged = self.environment.kubectl("exec", self.pod, "--", *search)
        return Counter(int(line.split()[0]) for line in logged.splitlines())

    def assert_kept(self, *, round: int) -> None:
        """Every acknowledged row exists, and at most one more per client, whose answer got lost."""
        acknowledged = self.acknowledged(round=round)
        query = f"SELECT client, count(*), max(n) FROM ledger WHERE round = {round} GROUP BY client"
        rows = [line.split("|") for line in self.environment.psql(self.database, query).splitlines()]
        found = {int(client): (int(count), int(last)) for client, count, last in rows}
        assert acknowledged.total() > 100, acknowledged
        for client, commits in acknowledged.items():
            count, last = found[client]
            assert count == last, f"round {round}, client {client}: a gap below {last}"
            assert commits <= count <= commits + 1, (
                f"round {round}, client {client}: {commits} acknowledged, {count} kept"
            )


@contextmanager
def ledger_of(environment: Environment, database: str) -> Iterator[Ledger]:
    """The table, created again, and the Pod of the clients; the Pod is deleted at the end."""
    environment.psql(database, f"DROP TABLE IF EXISTS ledger; {TABLE}")
    name = f"load-{os.urandom(3).hex()}"
    script = {"name": "script", "configMap": {"name": name}}
    container = {
        **environment.operand(database),
        "name": "load",
        "command": ["sleep", "infinity"],
        "volumeMounts": [{"name": "script", "mountPath": "/script"}],
    }
    spec = {"containers": [container], "volumes": [script], "terminationGracePeriodSeconds": 0}
    for kind, content in (("ConfigMap", {"data": {"insert.sql": INSERT}}), ("Pod", {"spec": spec})):
        environment.apply({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **content})
    try:
        environment.wait_ready(f"pod/{name}")
        yield Ledger(environment, database, name)
    finally:
        environment.kubectl("delete", f"pod/{name}", f"configmap/{name}", "--wait=false")
