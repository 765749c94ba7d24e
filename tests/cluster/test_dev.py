"""`python3 -m infra dev` against the cluster: a database gets Ready by a login through the API server."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.cluster.stack import STACK, Environment, within

DATABASE = "postgresqls.database.db.example.com/made-by-dev"
SECONDS = 180.0


def test_the_checkouts_operator_makes_a_database_ready_from_here(
    environment: Environment, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    try:
        with environment.beside("dev", STACK, log=log) as process:
            wait_logged(process, log, "became leader")
            kind = {"apiVersion": "database.db.example.com/v1", "kind": "Postgresql"}
            resource = {
                **kind,
                "metadata": {"name": "made-by-dev"},
                "spec": {"storage": {"ephemeral": True}},
            }
            environment.kubectl("apply", "-f", "-", stdin=json.dumps(resource))
            environment.kubectl("wait", "--for=condition=Ready", DATABASE, f"--timeout={SECONDS:.0f}s")
            wait_logged(process, log, "made-by-dev status: Ready=True")
    finally:
        environment.kubectl("delete", DATABASE, "--ignore-not-found")
    place = ("deployment/kindling-operator", "--namespace=kindling-system")
    environment.kubectl("rollout", "status", *place, "--timeout=120s")
    assert environment.get(*place)["status"]["readyReplicas"] > 0


def wait_logged(process: subprocess.Popen[bytes], log: Path, words: str) -> None:
    """Wait until the log has these words, which may come a moment after the cluster's change."""

    def says() -> bool:
        assert process.poll() is None, log.read_text()
        return words in log.read_text()

    within(SECONDS, says)
