"""Without `python3 -m infra`: a checkout, `pulumi install`, `pulumi preview`, `pulumi up`, as in any project.

And without `infra/bootstrap`, which is for machines that lack something.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from infra import paths
from infra.bootstrap.toolchain import TOOLS, Toolchain, build, sdk_version
from tests import pulumi_hosts
from tests.apiserver.support.apiclient import Api
from tests.apiserver.support.controlplane import ControlPlane
from tests.apiserver.support.existing import PROGRAM, ROWS

STACK = "eu"


class Checkout:
    """A fresh one, and a home in which nothing of Pulumi's is set up but where to keep the state."""

    def __init__(self, folder: Path, plane: ControlPlane) -> None:
        self.folder = folder / "kindling"
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
            cwd=paths.REPOSITORY,
            capture_output=True,
            text=True,
            check=True,
        )
        for name in filter(None, listed.stdout.split("\0")):
            # Whoever has Pulumi and kubectl needs nothing of what makes them.
            if not name.startswith("infra/bootstrap/") and (source := paths.REPOSITORY / name).is_file():
                (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, self.folder / name)
        (self.folder / f"Pulumi.{STACK}.yaml").write_text(
            "config:\n  pulumi:disable-default-providers: [kubernetes]\n  kindling:cluster: existing\n"
            "  kindling:context: test\n  kindling:registry: registry.example:5000/kindling\n"
            "  kindling:protect: false\n"
        )
        for name in ("backend", "bin", "pulumi"):
            (folder / name).mkdir()
        self.pulumi = Toolchain().ensure("pulumi")
        kubectl = Toolchain().ensure("kubectl")
        self.env_vars = {
            "PATH": f"{folder / 'bin'}:{self.pulumi.parent}:{kubectl.parent}:{os.environ['PATH']}",
            "HOME": str(folder),
            "KUBECONFIG": str(plane.kubeconfig),
            "PULUMI_HOME": str(folder / "pulumi"),
            "PULUMI_BACKEND_URL": f"file://{folder / 'backend'}",
            "PULUMI_CONFIG_PASSPHRASE": "canary",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "KINDLING_CACHE": str(paths.cache_dir()),
        }
        if Toolchain().builds_provider():
            self._as_installed(folder)

    def _as_installed(self, folder: Path) -> None:
        """What an ordinary Pulumi brings or fetches."""
        host = self.pulumi.parent / "pulumi-language-python"
        found = pulumi_hosts.programs(host=host, project=self.folder, python=Path(sys.executable))
        for name, text in found.items():
            file = folder / "bin" / name
            file.write_text(text)
            file.chmod(0o755)
        provider = build.location(TOOLS["pulumi-resource-kubernetes"])
        plugin = folder / "pulumi" / "plugins" / f"resource-kubernetes-v{sdk_version()}"
        plugin.mkdir(parents=True)
        (plugin / provider.name).symlink_to(provider)

    def run(self, *words: str) -> str:
        done = subprocess.run(
            [self.pulumi, *words, "--non-interactive"],
            cwd=self.folder,
            env=self.env_vars,
            capture_output=True,
            text=True,
            timeout=500,
        )
        assert done.returncode == 0, f"{words}: {done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout


@pytest.fixture
def checkout(tmp_path: Path, plane: ControlPlane) -> Checkout:
    return Checkout(tmp_path, plane)


def test_a_fresh_checkout_is_an_ordinary_project(checkout: Checkout, api: Api) -> None:
    checkout.run("install")
    python = checkout.folder / ".venv" / "bin" / "python"
    assert python.exists()
    checkout.run("stack", "init", STACK)
    shown = checkout.run("preview", "--stack", STACK)
    assert re.search(r"\+ \d\d to create", shown), shown
    # Nothing runs Pods here, so what is brought up is less.
    (checkout.folder / "__main__.py").write_text(PROGRAM)
    checkout.run("up", "--yes", "--stack", STACK)
    assert api.get(ROWS).status == 200
    checkout.run("destroy", "--yes", "--stack", STACK)
    assert api.get(ROWS).status == 404
