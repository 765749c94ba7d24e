"""A cluster that Kindling's program did not make, a registry, and a checkout with stacks that know both.

The stand-in is a kind cluster of another name, which the stacks know by its context alone. Its nodes pull
from Debian's registry on the host's bridge address, without TLS.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.bootstrap.toolchain import Toolchain
from infra.drivers import debian_lock, images
from infra.drivers.engine import ContainerEngine
from infra.drivers.kind import KindCli
from tests.cluster.stack import ROOT
from tests.unit.infra.registry_server import registry
from tests.unit.infra.repository import commit, git

NAME = "kindling-standin"
GATEWAYS = {
    "podman": "{{range .Subnets}}{{.Gateway}} {{end}}",
    "docker": "{{range .IPAM.Config}}{{.Gateway}} {{end}}",
}
CERTIFICATES = "/etc/containerd/certs.d"
# Of containerd 1 and of containerd 2; each leaves the other's alone.
PATCHES = [
    f'[plugins."{plugin}".registry]\n  config_path = "{CERTIFICATES}"'
    for plugin in ("io.containerd.grpc.v1.cri", "io.containerd.cri.v1.images")
]
CONFIG = {
    "kind": "Cluster",
    "apiVersion": "kind.x-k8s.io/v1alpha4",
    "networking": {"apiServerAddress": "127.0.0.1"},
    "nodes": [{"role": "control-plane"}],
    "containerdConfigPatches": PATCHES,
}


def said(words: tuple[str, ...]) -> tuple[str, ...]:
    """As it is said where nobody can be asked."""
    return (*words, "--yes") if words[0] in ("up", "destroy") else words


class Checkout:
    """A copy of the repository with settings, state and kubeconfig of its own."""

    def __init__(self, home: Path, *, host: str) -> None:
        """Staging brings up all that it can hold, a broker of half a gigabyte among it."""
        self.home, self.folder = home, home / "checkout"
        self.folder.mkdir(parents=True)
        for name in ("infra", "operator", "crds", "samples", "integrations"):
            shutil.copytree(
                ROOT / name, self.folder / name, ignore=shutil.ignore_patterns("__pycache__", ".*_cache")
            )
        others = [ROOT / name for name in ("__main__.py", ".gitignore", "CHANGELOG.md", "LICENSE")]
        for file in [*ROOT.glob("Pulumi*.yaml"), *ROOT.glob("requirements*.txt"), *others]:
            shutil.copy(file, self.folder)
        self.change("staging", "context: staging.example.com", f"context: kind-{NAME}")
        self.change("prod", "context: prod.example.com", f"context: kind-{NAME}")
        self.change(
            "staging",
            "registry: registry.example.com/kindling",
            f"registry: {host}/kindling\n  kindling:insecureRegistry: true\n"
            "  kindling:samples: true\n  kindling:broker: true\n  kindling:protect: false",
        )
        git(self.folder, "init", "--quiet", "--initial-branch", "main")
        commit(self.folder)

    def change(self, stack: str, old: str, new: str) -> None:
        file = self.folder / f"Pulumi.{stack}.yaml"
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))

    def infra(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "infra", *said(words)],
            cwd=self.folder,
            env={
                # As on somebody's own machine: in a pipeline such a stack wants a backend that stays.
                **{name: value for name, value in os.environ.items() if name != "CI"},
                "KINDLING_STATE": str(self.home / "state"),
                "KUBECONFIG": str(self.home / "kubeconfig"),
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=1500,
            check=False,
        )

    def ok(self, *words: str) -> str:
        done = self.infra(*words)
        assert done.returncode == 0, f"{words}: {done.stdout[-4000:]}\n{done.stderr[-3000:]}"
        return done.stdout

    def kubectl(self, stack: str, *words: str) -> str:
        return self.ok("exec", "--stack", stack, "kubectl", *words)

    def get(self, stack: str, *words: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.kubectl(stack, "get", *words, "-o", "json"))
        return found

    def operator_image(self, stack: str) -> str:
        deployment = self.get(stack, "deployment", "kindling-operator", "-n", "kindling-system")
        assert deployment["status"]["readyReplicas"] == deployment["spec"]["replicas"]
        return str(deployment["spec"]["template"]["spec"]["containers"][0]["image"])


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    home = tmp_path_factory.mktemp("existing")
    engine = ContainerEngine.detect()
    kind = KindCli(Toolchain().ensure("kind"), engine)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", str(home / "kubeconfig"))
        kind.delete(NAME)  # What an earlier, killed run left.
        try:
            kind.create(
                name=NAME,
                incarnation=secrets.token_hex(4),
                node_image=images.ensure_node_image(engine),
                config=CONFIG,
                timeout=600,
            )
            gateways = engine.run("network", "inspect", "kind", "--format", GATEWAYS[engine.name]).split()
            address = next(found for found in gateways if ":" not in found)
            with registry(home / "registry", address=address) as host:
                trust(engine, host, folder=home)
                yield Checkout(home, host=host)
        finally:
            kind.delete(NAME)


def trust(engine: ContainerEngine, host: str, *, folder: Path) -> None:
    """Have the node pull from there without TLS, as its administrator would."""
    node, place = f"{NAME}-control-plane", f"{CERTIFICATES}/{host}"
    file = folder / "hosts.toml"
    file.write_text(
        f'server = "http://{host}"\n[host."http://{host}"]\n  capabilities = ["pull", "resolve"]\n'
    )
    engine.run("exec", node, "mkdir", "-p", place)
    engine.run("cp", file, f"{node}:{place}/hosts.toml")


def bring_staging_up(checkout: Checkout) -> None:
    """What is pushed is of the locked packages alone, and Debian drops a version when a fixed one comes.

    Then the locks are renewed first, as the error says: no failure of what is tested here.
    """
    done = checkout.infra("up", "staging")
    if done.returncode != 0 and debian_lock.RENEW in done.stdout + done.stderr:
        warnings.warn(f"Debian has moved on: {debian_lock.RENEW}, and commit what it changes", stacklevel=1)
        checkout.ok("renew")
        commit(checkout.folder)
        done = checkout.infra("up", "staging")
    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-3000:]}"
