"""A stack as its users have it: the commands of the README, and what they need to ask of the cluster."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from infra.bootstrap.toolchain import Toolchain
from infra.settings import read
from tests.cluster.reading import Reader

ROOT = Path(__file__).parents[2]
STACK = "test"


def within(seconds: float, true: Callable[[], bool]) -> float:
    """How many seconds it took to become true, by a twentieth too many; fails when it does not in time.

    A question is a process; what takes minutes is asked for once a second, so that others get work done.
    """
    began = time.monotonic()
    while not true():
        took = time.monotonic() - began
        assert took < seconds, f"not so within {seconds} s"
        time.sleep(min(1.0, max(0.1, took / 20)))
    return time.monotonic() - began


class Environment:
    """The brought-up stack and the commands of the README against it."""

    def __init__(self, home: Path) -> None:
        self.kubeconfig = home / "kubeconfig"
        self.state = home / "state"
        self._reader = Reader(self.kubeconfig, context=read(STACK).cluster.context)
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

    @contextmanager
    def beside(self, *words: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
        """`python3 -m infra WORDS…` until it is interrupted, and ends by that; what it says is in `log`."""
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "infra", *words],
                cwd=ROOT,
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            status = process.wait(timeout=60)
        assert status == 130, log.read_text()

    def kubectl(self, *words: str, stdin: str | None = None, timeout: float = 300) -> str:
        """kubectl against this stack; must succeed.

        Without `infra exec`, whose start would be paid some hundred times; its own tests run that. Plain
        questions are answered without a process.
        """
        if stdin is None and (answer := self._read(*words)) is not None:
            return answer
        done = subprocess.run(
            self._kubectl(*words),
            env=self._env,
            input=stdin,
            timeout=timeout,
            text=True,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, f"kubectl {words}: {done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout

    def _read(self, *words: str) -> str | None:
        if words[0] == "logs":
            return self._reader.logs(*words[1:])
        if words[:2] == ("get", "--raw") and len(words) == 3:
            return self._reader.raw(words[2])
        return None

    def start(self, *words: str, into: IO[str] | int = subprocess.PIPE) -> subprocess.Popen[str]:
        """kubectl left running; the caller waits for it. What it prints without an end goes `into` a file."""
        return subprocess.Popen(
            self._kubectl(*words),
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=into,
            stderr=subprocess.PIPE,
            text=True,
        )

    def _kubectl(self, *words: str) -> list[str]:
        return [str(Toolchain().ensure("kubectl")), f"--context={read(STACK).cluster.context}", *words]

    def apply(self, manifest: dict[str, Any]) -> None:
        """`kubectl apply` of one object."""
        self.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))

    def get(self, *words: str) -> dict[str, Any]:
        """What `kubectl get … -o json` prints."""
        if (found := self._reader.get(*words)) is not None:
            return found
        loaded: dict[str, Any] = json.loads(self.kubectl("get", *words, "-o", "json"))
        return loaded

    def wait_ready(self, *words: str, seconds: int = 120) -> None:
        """Until all of these have the condition Ready."""
        self.kubectl("wait", "--for=condition=Ready", *words, f"--timeout={seconds}s", timeout=seconds + 60)

    def answer(self, container: dict[str, Any], *, retried: bool = False) -> str:
        """What this container prints, run to its end in a Pod of its own; it must succeed.

        `retried`: in three minutes, as a program does that waits for its server; else at once.
        """
        name = f"client-{os.urandom(3).hex()}"
        spec = {
            "restartPolicy": "OnFailure" if retried else "Never",
            "automountServiceAccountToken": False,
            "containers": [{"name": "client", **container}],
        }
        self.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
        try:
            self.kubectl("wait", f"pod/{name}", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=180s")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.kubectl('logs', name)}") from None
        else:
            return self.kubectl("logs", name)
        finally:
            self.kubectl("delete", "pod", name, "--wait=false")

    def operand(self, resource: str, *, secret: str = "") -> dict[str, Any]:
        """Image and login of this Postgresql, as a container's fields for libpq's own programs.

        `secret` has the login, if it is not the default user's.
        """
        image = self.get("statefulset", resource)["spec"]["template"]["spec"]["containers"][0]["image"]
        variables = {
            "PGHOST": "host",
            "PGPORT": "port",
            "PGUSER": "username",
            "PGPASSWORD": "password",
            "PGDATABASE": "database",
        }
        return {
            "image": image,
            "env": [
                {
                    "name": variable,
                    "valueFrom": {"secretKeyRef": {"name": secret or f"{resource}-binding", "key": key}},
                }
                for variable, key in variables.items()
            ],
        }

    def psql(self, resource: str, statement: str, *, retried: bool = False, secret: str = "") -> str:
        """Run SQL from a Pod of its own, through the Service, with what the binding Secret says.

        Or with what another `secret` of that shape says.
        """
        plain = ("--no-psqlrc", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1")
        command = ["psql", *plain, "-c", statement]
        return self.answer(
            {**self.operand(resource, secret=secret), "command": command}, retried=retried
        ).strip()
