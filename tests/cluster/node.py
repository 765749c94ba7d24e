"""The node of the stack's cluster, from outside of Kubernetes: what breaks there, and what goes on.

Apart from `stack`, because nothing a user does needs it. Containers are named by the id that the API
gives them, so what is looked up before the API goes away can be reached while it is gone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from infra import processes
from infra.drivers.engine import ContainerEngine
from infra.settings import cluster_name
from tests.cluster.stack import STACK, Environment, within

API_SERVER = "kube-apiserver.yaml"
MANIFESTS = "/etc/kubernetes/manifests"
ASIDE = "/etc/kubernetes"
STOP_SECONDS = 90.0
START_SECONDS = 180.0
LONGEST_FREEZE = "120s"
"""Then the node ends it by itself: what is frozen cannot be killed, so a test that died would leave it."""


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

    def has(self, path: str) -> bool:
        """Whether there is a file or folder of that path."""
        return self._engine.succeeds("exec", self._name, "test", "-e", path, timeout=60)

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

    @contextmanager
    def frozen(self, container: str) -> Iterator[None]:
        """All processes of the container's Pod stand still, and what is started in it, as its probes are."""
        file, freeze, thaw = self._freezer(container)
        thawed = f"/var/thawed-{container}"
        self._write(thawed, thaw)
        self._later("cp", thawed, file)
        self._write(file, freeze)
        try:
            yield
        finally:
            self._write(file, thaw)

    @contextmanager
    def disk(self, place: str, *, size: str) -> Iterator[None]:
        """A file system of its own is mounted there; `data` in it is everybody's."""
        image = f"{place}.ext4"
        self._run("truncate", f"--size={size}", image)
        self._run("mkfs.ext4", "-q", image)
        self._run("mkdir", place)
        self._run("mount", "-o", "loop", image, place)
        try:
            self._run("mkdir", "--mode=0777", f"{place}/data")
            yield
        finally:
            self._run("umount", "--lazy", place)
            self._run("rm", image)

    @contextmanager
    def hung(self, place: str) -> Iterator[None]:
        """Whoever writes to the file system that is mounted there waits."""
        self._later("fsfreeze", "--unfreeze", place)
        self._run("fsfreeze", "--freeze", place)
        try:
            yield
        finally:
            self._run("fsfreeze", "--unfreeze", place)

    def _later(self, *words: str) -> None:
        self._run("systemd-run", "--quiet", f"--on-active={LONGEST_FREEZE}", *words)

    def _freezer(self, container: str) -> tuple[str, str, str]:
        """The file that freezes the container's Pod, and the words for it: cgroup v1 where that is there."""
        [pid] = [words[1] for words in map(str.split, self._tasks("list").splitlines()) if container in words]
        lines = [line.split(":", 2) for line in self._run("cat", f"/proc/{pid}/cgroup").splitlines()]
        paths = {controllers: PurePosixPath(path).parent for _, controllers, path in lines}
        if "freezer" in paths:
            return f"/sys/fs/cgroup/freezer{paths['freezer']}/freezer.state", "FROZEN", "THAWED"
        return f"/sys/fs/cgroup{paths['']}/cgroup.freeze", "1", "0"

    def _write(self, file: str, text: str) -> None:
        words: list[str | Path] = [self._engine.program, "exec", "--interactive", self._name, "tee", file]
        processes.run(words, timeout=60, env=self._engine.env_vars(), stdin=text)

    def _answers(self) -> bool:
        try:
            return self._environment.kubectl("get", "--raw=/readyz", "--request-timeout=5s") == "ok"
        except AssertionError:
            return False

    def _tasks(self, *words: str, timeout: float = 60) -> str:
        return self._run("ctr", "--namespace=k8s.io", "tasks", *words, timeout=timeout)

    def _run(self, *words: str, timeout: float = 60) -> str:
        return self._engine.run("exec", self._name, *words, timeout=timeout)
