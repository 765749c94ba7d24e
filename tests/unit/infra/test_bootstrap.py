"""`infra.bootstrap` is for machines that lack something: where nothing is missing, nobody comes there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from infra.drivers.base_image import BASE_IMAGE
from infra.drivers.node_image import PUBLISHED
from infra.paths import REPOSITORY

PODMAN = """\
import sys
words = sys.argv[1:]
pulled = open({pulled!r}, "a+")
pulled.seek(0)
match words:
    case ["--version"]:
        print("podman version 5.4.0")
    case ["images", *_]:
        pass
    case ["image", "inspect", ref, *_]:
        sys.exit(ref not in pulled.read().split())
    case ["pull", *_, ref]:
        pulled.write(ref + "\\n")
    case _:
        sys.exit(f"not expected here: {{words}}")
"""
VERSIONS = {"kind": "0.33.0", "kubectl": "Client Version: v1.34.4", "pulumi": "v3.259.0"}

PROGRAM = """\
import sys

sys.modules["infra.bootstrap"] = None  # An import of it is an ImportError.

from infra import program
from infra.drivers import images, node_image
from infra.drivers.engine import install_engine
from infra.progress import Progress
from infra.resources import host

kind = host.kind()
contexts = host.cluster_context("test"), host.context_readonly("test")
print(kind.program.name, *[context.kubectl.name for context in contexts])
print(install_engine(Progress()).name, node_image.present(kind.engine))
print(images.ensure_node_image(kind.engine), images.ensure_base_image(kind.engine))
print(node_image.present(kind.engine))
"""


def run(folder: Path, *, without: str = "") -> subprocess.CompletedProcess[str]:
    """The Pulumi program's way to its tools and images, on a machine that has all of them but one."""
    programs = folder / "bin"
    programs.mkdir()
    bodies = {name: f"print({version!r})\n" for name, version in VERSIONS.items()}
    bodies["podman"] = PODMAN.format(pulled=str(folder / "pulled"))
    for name, body in bodies.items():
        if name != without:
            (programs / name).write_text(f"#!{sys.executable}\n{body}")
            (programs / name).chmod(0o755)
    return subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=REPOSITORY,
        env={"PATH": str(programs), "HOME": str(folder), "KINDLING_ENGINE": "podman"},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_a_machine_that_has_everything_needs_nothing_of_bootstrap(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert done.stdout.splitlines() == [
        "kind kubectl kubectl",
        "podman False",
        f"{PUBLISHED} {BASE_IMAGE}",
        "True",
    ], done.stderr


@pytest.mark.parametrize("without", ["kind", "kubectl", "podman"])
def test_what_is_missing_is_asked_of_bootstrap(tmp_path: Path, without: str) -> None:
    """So the test above would fail if anything there were not found but made."""
    done = run(tmp_path, without=without)
    assert done.returncode != 0
    assert "infra.bootstrap" in done.stderr or "no container engine" in done.stderr, done.stderr
