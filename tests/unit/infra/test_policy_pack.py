"""`policy/` as Pulumi runs a policy pack: the real engine asks the pack, of a bad program and of our own.

Where Pulumi is built, its host for Python is older than the way in which engines start packs today: the
engine is given the pack as one of a runtime of its own, which it starts by a program on PATH. What the pack
is asked, and what it answers, goes the same way.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from infra import policies
from infra.bootstrap import virtualenv
from infra.bootstrap.toolchain import Toolchain
from infra.paths import REPOSITORY
from tests.unit.infra.cli_machine import Machine, machine_with_pulumi

REQUIREMENTS = "policy/requirements.txt"
RUNTIME = "kindling"
PROGRAM = """\
import os

import pulumi
import pulumi_kubernetes as kubernetes
from pulumi_kubernetes import core

version = os.environ.get("KINDLING_PROVIDER_VERSION")
options = pulumi.ResourceOptions(version=version)
provider = kubernetes.Provider("none", render_yaml_to_directory="rendered", opts=options)
inside = pulumi.ResourceOptions(provider=provider)
later = core.v1.ConfigMap("later", opts=inside).id


def pod(name, image, **security):
    amounts = {"cpu": "1", "memory": "1Gi"}
    container = {
        "name": "main",
        "image": image,
        "resources": {"requests": amounts, "limits": amounts},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "runAsNonRoot": True,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
            **security,
        },
    }
    core.v1.Pod(name, spec={"containers": [container]}, opts=inside)


pod("good", "app:1")
pod("later", later)
pod("floating", pulumi.Output.secret("canary:latest"))
pod("root", "app:1", runAsNonRoot=False)
"""


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = machine_with_pulumi(tmp_path)
    python = virtualenv.ensure(REQUIREMENTS)
    shutil.copytree(REPOSITORY / "policy", machine.checkout / "policy")
    if Toolchain().survey(["pulumi"])[0].source != "path":
        (machine.checkout / "policy" / "PulumiPolicy.yaml").write_text(f"runtime: {RUNTIME}\n")
        program = machine.home / "bin" / f"pulumi-analyzer-policy-{RUNTIME}"
        words = f"[{str(python)!r}, '-u', '.', *sys.argv[1:]]"
        program.write_text(f"#!{sys.executable}\nimport os, sys\nos.execv({str(python)!r}, {words})\n")
        program.chmod(0o755)
    machine.extra |= {
        "PULUMI_IGNORE_AMBIENT_PLUGINS": "false",
        "PULUMI_BACKEND_URL": f"file://{tmp_path / 'backend'}",
        "PULUMI_CONFIG_PASSPHRASE": "canary",
    }
    (tmp_path / "backend").mkdir()
    return machine


def preview(machine: Machine) -> subprocess.CompletedProcess[str]:
    made = machine.cli("exec", "pulumi", "stack", "init", "dev")
    assert made.returncode == 0, made.stderr
    return machine.cli("exec", "pulumi", "preview", "--non-interactive", "--policy-pack", "policy")


def test_a_program_that_asks_nobody_is_judged_by_the_same_rules(machine: Machine) -> None:
    (machine.checkout / "__main__.py").write_text(PROGRAM)
    done = preview(machine)
    assert done.returncode != 0
    assert "[mandatory]  no-resource-may  (kubernetes:core/v1:Pod: floating)" in done.stdout
    assert "spec.containers[main].image has a value that is not allowed; name a tag" in done.stdout
    assert "spec.containers[main].securityContext.runAsNonRoot has a value" in done.stdout
    assert done.stdout.count("[mandatory]") == 2, "neither what is good nor what is known later"
    assert "can't run policy" not in done.stdout
    assert "canary:latest" not in done.stdout


def test_our_own_program_passes(machine: Machine) -> None:
    for name in ("crds", "samples", "operator"):
        shutil.copytree(REPOSITORY / name, machine.checkout / name)
    shutil.copy(REPOSITORY / "__main__.py", machine.checkout)
    done = preview(machine)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[mandatory]" not in done.stdout
    assert "kindling@v" in done.stdout or "Policies" in done.stdout, done.stdout


def test_the_pack_is_one_that_todays_pulumi_starts() -> None:
    project = yaml.safe_load((REPOSITORY / "policy" / "PulumiPolicy.yaml").read_text())
    assert project["runtime"] == {"name": "python", "options": {"toolchain": "pip", "virtualenv": ".venv"}}
    ours = (REPOSITORY / "requirements.in").read_text().splitlines()
    theirs = (REPOSITORY / "policy" / "requirements.in").read_text().splitlines()
    (pulumi,) = [line for line in theirs if line.startswith("pulumi==")]
    assert pulumi in ours


def test_where_secrets_are_not_known_no_value_is_reported() -> None:
    wrong = policies.violations("kubernetes:core/v1:Pod", "a", {"spec": {"hostPID": True, "hostIPC": True}})
    assert [str(one.field) for one in wrong][:2] == ["spec.hostPID", "spec.hostIPC"]
    assert all("true" not in one.without_value.split(";")[0] for one in wrong)
