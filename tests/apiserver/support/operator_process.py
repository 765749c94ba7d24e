"""The operator's process on this machine, against an API server of ours: started, queried, stopped.

Apart from the tests, because each test of the process as a whole needs one. It is the real
`python -m kindling` from the working tree, configured by its environment alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import prometheus_client.parser

from tests.apiserver.support.apiclient import Api
from tests.apiserver.support.controlplane import ControlPlane
from tests.ports import free_port

REPOSITORY = Path(__file__).resolve().parents[3]
SOURCE = REPOSITORY / "operator" / "src"
NAMESPACE = "kindling-system"
STOP_SECONDS = 30.0
READY_SECONDS = 60.0
LEASE_LOST = 3
"""The exit status of one whose lease ran out."""
MAX_RESTARTS = 3


@dataclass
class OperatorProcess:
    """A running operator. `process` is its handle, for signals and exit statuses."""

    port: int
    process: subprocess.Popen[bytes] = field(repr=False)
    _log: Path = field(repr=False)
    restarts_left: int = 0
    """How often it may still lose its lease and be restarted."""

    def get(self, path: str) -> tuple[int, str]:
        """Status and text of one of its pages; status 0 where nothing answers."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError as error:
            return 0, str(error)

    def metrics(self) -> str:
        status, text = self.get("/metrics")
        assert status == 200, f"{status}: {text}"
        return text

    def value(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples that have these labels."""
        families = prometheus_client.parser.text_string_to_metric_families(self.metrics())
        samples = [sample for family in families for sample in family.samples if sample.name == name]
        return sum(sample.value for sample in samples if labels.items() <= sample.labels.items())

    @property
    def leads(self) -> bool:
        return self.value("kindling_leader") == 1

    def log(self) -> str:
        """All that it has written."""
        return self._log.read_text(errors="replace")

    def ended(self) -> int | None:
        """Its exit status; None while it runs, or will be restarted."""
        status = self.process.poll()
        return None if status == LEASE_LOST and self.restarts_left else status

    def wait_ready(self, timeout: float = READY_SECONDS) -> None:
        """Until /readyz says so: it works, or stands by. AssertionError, with its log, if it does not."""
        deadline = time.monotonic() + timeout
        while (answer := self.get("/readyz"))[0] != 200:
            ended = self.ended()
            assert ended is None, f"the operator ended with status {ended}:\n{self.log()}"
            assert time.monotonic() < deadline, f"not ready in {timeout:g} s: {answer}\n{self.log()}"
            time.sleep(0.05)

    def kill(self) -> None:
        """End it as a lost node would: nothing is tidied up, the Lease is not given back."""
        self.process.kill()
        self.process.wait(timeout=STOP_SECONDS)

    def stop(self) -> int:
        """Send it SIGTERM, as the kubelet does, and return its exit status."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(timeout=STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()
        return self.process.returncode


@contextmanager
def operator(
    plane: ControlPlane,
    *,
    port: int | None = None,
    namespaces: str = "",
    identity: str = "one",
    env: Mapping[str, str] = {},
    source: Path | None = None,
    kept: bool = False,
) -> Iterator[OperatorProcess]:
    """Start it, and stop it on leaving. `namespaces` to watch, parted by commas; empty means all.

    `env` is laid over its default environment; `source` runs another tree's `operator/src`.
    The namespace of its Lease is created if it is missing. `kept` restarts it, a few times and with a
    warning, if its lease ran out, as the kubelet does: if the machine stands still for eight seconds, that
    is no fault of the operator.
    """
    port = port or free_port()
    full_env = {
        "PATH": os.environ.get("PATH", ""),
        "PYTHONPATH": str(source or SOURCE),
        "PYTHONUNBUFFERED": "1",
        "KUBECONFIG": str(plane.kubeconfig),
        "KINDLING_NAMESPACE": NAMESPACE,
        "KINDLING_POD": identity,
        "KINDLING_PORT": str(port),
        "KINDLING_WATCH_NAMESPACES": namespaces,
        # Nobody here knows the Services' names; the machine's resolver shall not take long to say so.
        "RES_OPTIONS": "timeout:1 attempts:1",
        **images(),
        **allocator(),
        **env,
    }
    _ensure_namespace(plane, full_env["KINDLING_NAMESPACE"])
    with tempfile.TemporaryDirectory(prefix="kindling-operator-") as folder:
        log = Path(folder) / "log"

        def start() -> subprocess.Popen[bytes]:
            with log.open("ab") as output:
                return subprocess.Popen(
                    [sys.executable, "-m", "kindling"],
                    env=full_env,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )

        running = OperatorProcess(port, start(), log, MAX_RESTARTS if kept else 0)
        try:
            with _kubelet(running, start):
                yield running
        finally:
            running.stop()


@contextmanager
def _kubelet(running: OperatorProcess, start: Callable[[], subprocess.Popen[bytes]]) -> Iterator[None]:
    """Its restart policy, for one cause."""
    over = threading.Event()

    def keep() -> None:
        while running.restarts_left and not over.wait(0.1):
            if running.process.poll() == LEASE_LOST:
                warnings.warn("the operator's lease ran out, it is restarted", stacklevel=1)
                running.process = start()
                running.restarts_left -= 1

    thread = threading.Thread(target=keep)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def allocator() -> dict[str, str]:
    """How the operator's image has the C library keep memory: whatever is measured is measured so."""
    lines = (REPOSITORY / "operator" / "Containerfile").read_text().splitlines()
    (settings,) = [line.split()[1:] for line in lines if line.startswith("ENV MALLOC_")]
    return {name: value for name, _, value in (setting.partition("=") for setting in settings)}


def images() -> dict[str, str]:
    """A name for the image of each operand; nothing here ever pulls one."""
    folders = sorted(path.parent.name for path in (REPOSITORY / "operator/images").glob("*/Containerfile"))
    return {
        f"KINDLING_IMAGE_{name.upper().replace('-', '_')}": f"kindling.invalid/{name}:1" for name in folders
    }


def _ensure_namespace(plane: ControlPlane, name: str) -> None:
    with closing(Api(plane)) as api:
        if api.get(f"/api/v1/namespaces/{name}").status == 404:
            api.create("/api/v1/namespaces", {"metadata": {"name": name}}).accepted()
