"""The node of the stack's cluster, from outside of Kubernetes: what breaks there, and what goes on.

Apart from `stack`, because nothing a user does needs it. Containers are named by the id that the API
gives them, so what is looked up before the API goes away can be reached while it is gone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from infra.drivers.engine import ContainerEngine
from infra.settings import cluster_name
from tests.cluster.stack import STACK, Environment, within

API_SERVER = "kube-apiserver.yaml"
MANIFESTS = "/etc/kubernetes/manifests"
ASIDE = "/etc/kubernetes"
STOP_SECONDS = 90.0
START_SECONDS = 180.0


class Node:
    """The control plane's node, which is all there is of stack `test`."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._engine = ContainerEngine.detect()
        self._name = f"{cluster_name(STACK)}-control-plane"

    def container(self, pod: str, name: str, *, namespace: str = "default") -> str:
        """The id of the Pod's running container of that name."""
        statuses = self._environment.get("pod", pod, "-n", namespace)["status"]["containerStatuses"]
        [found] = [status for status in statuses if status["name"] == name]
        return str(found["containerID"]).removeprefix("containerd://")

    def signal(self, container: str, name: str) -> None:
        """Send the signal (KILL, STOP, CONT) to all processes of the container."""
        self._tasks("kill", "--all", "--signal", f"SIG{name}", container)

    def execute(self, container: str, *words: str, timeout: float) -> str:
        """What the words print, run in the container; they must succeed."""
        return self._tasks("exec", "--exec-id", os.urandom(4).hex(), container, *words, timeout=timeout)

    def restart(self) -> None:
        """Stop the node with all that runs on it, as a machine that is switched off, and start it again."""
        self._engine.run("restart", "--time=10", self._name, timeout=300)
        within(START_SECONDS, self._answers)

    @contextmanager
    def without_api_server(self) -> Iterator[None]:
        """No API server from the first statement on; there again, and ready, after the last."""
        self._run("mv", f"{MANIFESTS}/{API_SERVER}", ASIDE)
        try:
            within(STOP_SECONDS, lambda: not self._answers())
            yield
        finally:
            self._run("mv", f"{ASIDE}/{API_SERVER}", MANIFESTS)
            within(START_SECONDS, self._answers)

    def _answers(self) -> bool:
        try:
            return self._environment.kubectl("get", "--raw=/readyz", "--request-timeout=5s") == "ok"
        except AssertionError:
            return False

    def _tasks(self, *words: str, timeout: float = 60) -> str:
        return self._run("ctr", "--namespace=k8s.io", "tasks", *words, timeout=timeout)

    def _run(self, *words: str, timeout: float = 60) -> str:
        return self._engine.run("exec", self._name, *words, timeout=timeout)
