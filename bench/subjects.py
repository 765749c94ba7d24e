"""Who is measured: our operator, and the Go one in its settings, each as a process of its own."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.kinds import GO_MEMCACHED, IMAGES, OURS, Asked
from bench.testbed import Identity, Testbed
from tests.apiserver.support.controlplane import background
from tests.apiserver.support.operator_process import operator
from tests.ports import free_port

START_SECONDS = 120.0
# Nobody here knows the Services' names; the machine's resolver shall not take long to say so.
ENVIRONMENT = {"RES_OPTIONS": "timeout:1 attempts:1"}

Start = Callable[[Testbed, Path], AbstractContextManager[int]]
"""Start it, its log under that directory; gives its process id once it answers its probe."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """`way` is how it comes to the API server."""

    name: str
    kinds: Mapping[str, Asked]
    way: Callable[[Testbed], Identity]
    start: Start


@contextmanager
def _kindling(stage: Testbed, directory: Path) -> Iterator[int]:
    with operator(stage.kindling.plane, env=ENVIRONMENT) as running:
        running.wait_ready(START_SECONDS)
        try:
            yield running.process.pid
        finally:
            (directory / "kindling.log").write_text(running.log())


def _go(program: Path, *settings: str) -> Start:
    @contextmanager
    def start(stage: Testbed, directory: Path) -> Iterator[int]:
        port = free_port()
        words: list[str | Path] = [
            program,
            f"--kubeconfig={stage.go.plane.kubeconfig}",
            f"--health-probe-bind-address=127.0.0.1:{port}",
            f"--image={IMAGES['memcached']}",
            *settings,
        ]
        with background(words, log=directory / "go.log") as running:
            _wait_ready(f"http://127.0.0.1:{port}/readyz")
            yield running.process.pid

    return start


def subjects(program: Path) -> dict[str, Subject]:
    """All of them by name; `program` is the Go operator."""
    settings: Mapping[str, tuple[str, ...]] = {
        "go, as scaffolded": (),
        "go, 32 workers": ("--max-concurrent-reconciles=32",),
        "go, 20 requests/s": ("--kube-api-qps=20", "--kube-api-burst=30"),
    }
    found = [Subject(name="kindling", kinds=OURS, way=lambda stage: stage.kindling, start=_kindling)]
    for name, words in settings.items():
        found.append(
            Subject(
                name=name,
                kinds={"memcached": GO_MEMCACHED},
                way=lambda stage: stage.go,
                start=_go(program, *words),
            )
        )
    return {subject.name: subject for subject in found}


def _wait_ready(url: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
