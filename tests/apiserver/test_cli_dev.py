"""`python3 -m infra dev` as a developer has it: the real command and operator, against a real API server.

In a copy of the checkout, with a state of its own; the API server stands for the stack's cluster.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from infra.bootstrap import virtualenv
from infra.cli.dev.operator_deployment import OperatorDeployment
from tests.apiserver.support.apiclient import Api, Json
from tests.apiserver.support.controlplane import ControlPlane, tool
from tests.apiserver.support.kinds import POSTGRESQL_EXAMPLE, REPOSITORY
from tests.apiserver.support.operator_process import images

DEPLOYMENT = "/apis/apps/v1/namespaces/kindling-system/deployments/kindling-operator"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kindling-system/leases/kindling-operator"
SECONDS = 60.0


@dataclass
class Checkout:
    """A copy of the checkout whose stack `test` is the API server."""

    folder: Path
    home: Path
    kubeconfig: Path

    @property
    def note(self) -> Path:
        return self.home / "state/stacks/test/dev.json"

    @contextlib.contextmanager
    def dev(self) -> Iterator[Dev]:
        log = self.home / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "infra", "dev", "test"],
                cwd=self.folder,
                env={
                    "PATH": f"{self.home / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}",
                    "HOME": str(self.home),
                    "KUBECONFIG": str(self.kubeconfig),
                    "KINDLING_STATE": str(self.home / "state"),
                    "KINDLING_CACHE": str(self.home / "cache"),
                },
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        try:
            yield Dev(process, log)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                process.wait(timeout=SECONDS)


@dataclass
class Dev:
    process: subprocess.Popen[bytes]
    _log: Path

    @property
    def log(self) -> str:
        return self._log.read_text()

    def wait(self, until: Callable[[], object]) -> None:
        deadline = time.monotonic() + SECONDS
        while not until():
            assert self.process.poll() is None, self.log
            assert time.monotonic() < deadline, self.log
            time.sleep(0.05)

    @property
    def works(self) -> bool:
        found = re.search(r"http://\S+/metrics", self.log)
        if found is None:
            return False
        try:
            with urllib.request.urlopen(found[0], timeout=5) as answer:
                return b"\nkindling_leader 1.0\n" in answer.read()
        except OSError:
            return False

    @property
    def starts(self) -> int:
        return self.log.count("became leader")


@pytest.fixture
def checkout(plane: ControlPlane, tmp_path: Path) -> Checkout:
    folder = tmp_path / "checkout"
    kept = shutil.ignore_patterns("__pycache__")
    for name in ("infra", "operator"):
        shutil.copytree(REPOSITORY / name, folder / name, ignore=kept)
    for file in [*REPOSITORY.glob("Pulumi*.yaml"), *REPOSITORY.glob("requirements*.txt")]:
        shutil.copy(file, folder)
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "kubectl").symlink_to(tool("kubectl"))
    config = json.loads(plane.kubeconfig.read_text())
    config["contexts"][0]["name"] = "kind-kindling-test"
    config["current-context"] = "none"
    config["contexts"].append({"name": "none", "context": {"cluster": "none", "user": "none"}})
    kubeconfig = home / "kubeconfig"
    kubeconfig.write_text(json.dumps(config))
    # This interpreter has all that both need; installing it again is not what is tested.
    words = f"[{sys.executable!r}, *sys.argv[1:]]"
    for lock in (virtualenv.REQUIREMENTS, "operator/requirements.txt"):
        environment = home / "cache" / "python" / virtualenv.location(lock).name
        (environment / "bin").mkdir(parents=True)
        python = environment / "bin" / "python"
        python.write_text(f"#!{sys.executable}\nimport os, sys\nos.execv({sys.executable!r}, {words})\n")
        python.chmod(0o755)
        (environment / "complete").touch()
    return Checkout(folder, home, kubeconfig)


@pytest.fixture
def deployment(api: Api) -> Iterator[None]:
    """The operator's Deployment, applied as Pulumi does it."""
    if api.get("/api/v1/namespaces/kindling-system").status == 404:
        api.create("/api/v1/namespaces", {"metadata": {"name": "kindling-system"}}).accepted()
    apply(api, replicas=2)
    yield
    api.delete(DEPLOYMENT).accepted()


def apply(api: Api, *, replicas: int) -> None:
    env: list[Json] = [{"name": name, "value": image} for name, image in images().items()]
    env += [{"name": "KINDLING_WATCH_NAMESPACES", "value": "default"}]
    field = {"fieldRef": {"fieldPath": "metadata.name"}}
    env += [{"name": "KINDLING_POD", "valueFrom": field}]
    labels = {"app": "operator"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "operator", "image": "operator:1", "env": env}]},
    }
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "kindling-operator"},
        "spec": spec,
    }
    api.apply(DEPLOYMENT, body, manager="pulumi").accepted()


def replicas_of(api: Api) -> int:
    return int(api.get(DEPLOYMENT).accepted()["spec"]["replicas"])


def test_dev_scales_down_the_deployment_reconciles_reloads_and_scales_up_again(
    api: Api, checkout: Checkout, deployment: None, new_name: Callable[[], str]
) -> None:
    with checkout.dev() as dev:
        dev.wait(lambda: dev.works)
        assert replicas_of(api) == 0
        assert api.get(LEASE).body["spec"]["holderIdentity"].startswith("dev-")
        assert (checkout.note.parent / "dev.kubeconfig").stat().st_mode & 0o777 == 0o600
        name = new_name()
        api.create(POSTGRESQL_EXAMPLE.collection, POSTGRESQL_EXAMPLE.resource(name, {})).accepted()
        dev.wait(lambda: f"default/{name} create Service {name}" in dev.log)

        kind = checkout.folder / "operator/src/kindling/__init__.py"
        before = kind.read_text()
        kind.write_text("not Python")
        dev.wait(lambda: "started again when a file changes" in dev.log)
        kind.write_text(before)
        dev.wait(lambda: dev.starts == 2 and dev.works)
        assert "kindling/__init__.py has changed" in dev.log

        dev.process.send_signal(signal.SIGINT)
        assert dev.process.wait(timeout=SECONDS) == 130
        assert "Traceback" not in dev.log.rpartition("has changed")[2]
    assert replicas_of(api) == 2
    assert api.get(LEASE).body["spec"]["holderIdentity"] == ""
    assert not list(checkout.note.parent.iterdir())
    apply(api, replicas=3)  # would be refused if the number were still ours
    assert replicas_of(api) == 3


def test_a_request_to_end_gives_the_place_back_too(api: Api, checkout: Checkout, deployment: None) -> None:
    with checkout.dev() as dev:
        dev.wait(lambda: dev.works)
        dev.process.send_signal(signal.SIGTERM)
        assert dev.process.wait(timeout=SECONDS) == 143
    assert replicas_of(api) == 2


def kill(checkout: Checkout) -> None:
    with checkout.dev() as dev:
        dev.wait(lambda: dev.works)
        dev.process.kill()
        dev.process.wait(timeout=SECONDS)
        deadline = time.monotonic() + SECONDS
        while dev.works:  # the operator ends with the one who started it
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_what_a_killed_run_took_the_next_gives_back(api: Api, checkout: Checkout, deployment: None) -> None:
    kill(checkout)
    assert replicas_of(api) == 0
    with checkout.dev() as dev:
        dev.wait(lambda: dev.works)
        assert "place of the Deployment's 2 replicas" in dev.log
    assert replicas_of(api) == 2
    assert not checkout.note.exists()


def test_what_a_killed_run_took_is_healed_once(
    api: Api, checkout: Checkout, deployment: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill(checkout)
    monkeypatch.setenv("KINDLING_STATE", str(checkout.home / "state"))
    monkeypatch.setenv("KUBECONFIG", str(checkout.kubeconfig))
    operator = OperatorDeployment("test", kubectl=tool("kubectl"))
    assert operator.recover()
    assert replicas_of(api) == 2
    assert not operator.recover()


def test_nothing_is_healed_while_a_run_is_at_work(
    api: Api, checkout: Checkout, deployment: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KINDLING_STATE", str(checkout.home / "state"))
    monkeypatch.setenv("KUBECONFIG", str(checkout.kubeconfig))
    with checkout.dev() as dev:
        dev.wait(lambda: dev.works)
        assert not OperatorDeployment("test", kubectl=tool("kubectl")).recover()
        assert replicas_of(api) == 0


def test_a_cluster_that_is_gone_has_nothing_to_heal(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KINDLING_STATE", str(checkout.home / "state"))
    monkeypatch.setenv("KUBECONFIG", str(checkout.home / "none"))
    checkout.note.parent.mkdir(parents=True)
    checkout.note.write_text('{"replicas": 2}')
    assert not OperatorDeployment("test", kubectl=tool("kubectl")).recover()
    assert not checkout.note.exists()


def test_two_at_once_are_refused_and_the_first_goes_on(
    api: Api, checkout: Checkout, deployment: None
) -> None:
    with checkout.dev() as first:
        first.wait(lambda: first.works)
        done = subprocess.run(
            [sys.executable, "-m", "infra", "dev", "test"],
            cwd=checkout.folder,
            env=environ_of(first.process.pid),
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        assert done.returncode == 1
        assert "the operator's place in stack `test` is taken" in done.stderr
        assert replicas_of(api) == 0
        assert first.works
    assert replicas_of(api) == 2


def environ_of(pid: int) -> dict[str, str]:
    entries = Path(f"/proc/{pid}/environ").read_text().split("\0")
    return dict(entry.split("=", 1) for entry in entries if entry)


def test_without_an_operator_in_the_cluster_it_says_so(api: Api, checkout: Checkout) -> None:
    with checkout.dev() as dev:
        assert dev.process.wait(timeout=SECONDS) == 1
        assert "stack `test` has no operator whose place could be taken" in dev.log
        assert "remedy: python3 -m infra up test" in dev.log
        assert "Traceback" not in dev.log
