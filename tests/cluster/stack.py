"""A stack as its users have it: the commands of the README, and what they need to ask of the cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
STACK = "test"


class Environment:
    """The brought-up stack and the commands of the README against it."""

    def __init__(self, home: Path) -> None:
        self.kubeconfig = home / "kubeconfig"
        self.state = home / "state"
        self._env = {**os.environ, "KINDLING_STATE": str(self.state), "KUBECONFIG": str(self.kubeconfig)}

    def infra(
        self, *words: str, stdin: str | None = None, timeout: float = 1500, checkout: Path = ROOT
    ) -> subprocess.CompletedProcess[str]:
        """`python3 -m infra WORDS…`, of this checkout or another; the caller looks at the exit status."""
        return subprocess.run(
            [sys.executable, "-m", "infra", *words],
            cwd=checkout,
            env=self._env,
            input=stdin,
            timeout=timeout,
            text=True,
            capture_output=True,
            check=False,
        )

    def ok(self, *words: str, stdin: str | None = None, timeout: float = 1500) -> str:
        """The same, but it must succeed; returns standard output."""
        done = self.infra(*words, stdin=stdin, timeout=timeout)
        assert done.returncode == 0, f"{words}: {done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout

    def kubectl(self, *words: str, stdin: str | None = None, timeout: float = 300) -> str:
        """kubectl as `infra exec` finds it, against this stack; must succeed."""
        return self.ok("exec", "--stack", STACK, "kubectl", *words, stdin=stdin, timeout=timeout)

    def get(self, *words: str) -> dict[str, Any]:
        """`kubectl get … -o json`."""
        loaded: dict[str, Any] = json.loads(self.kubectl("get", *words, "-o", "json"))
        return loaded

    def psql(self, resource: str, statement: str) -> str:
        """Run SQL from a Pod of its own, through the Service, with what the binding Secret says."""
        image = self.get("statefulset", resource)["spec"]["template"]["spec"]["containers"][0]["image"]
        name = f"client-{os.urandom(3).hex()}"
        environment = [
            {"name": variable, "valueFrom": {"secretKeyRef": {"name": f"{resource}-binding", "key": key}}}
            for variable, key in (
                ("PGHOST", "host"),
                ("PGPORT", "port"),
                ("PGUSER", "username"),
                ("PGPASSWORD", "password"),
                ("PGDATABASE", "database"),
            )
        ]
        container = {
            "name": "psql",
            "image": image,
            "command": [
                "psql",
                "--no-psqlrc",
                "--tuples-only",
                "--no-align",
                "--set=ON_ERROR_STOP=1",
                "-c",
                statement,
            ],
            "env": environment,
        }
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {"restartPolicy": "Never", "containers": [container]},
        }
        self.kubectl("apply", "-f", "-", stdin=json.dumps(pod))
        try:
            self.kubectl("wait", f"pod/{name}", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=60s")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.kubectl('logs', name)}") from None
        finally:
            output = self.kubectl("logs", name)
            self.kubectl("delete", "pod", name, "--wait=false")
        return output.strip()
