"""`dev` on a machine with no cluster, and what it takes from the Deployment. The rest needs an API server."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from infra.cli.arguments import Command, parse
from infra.cli.commands.dev import settings_of
from tests.unit.infra.cli_machine import Machine, new_machine


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return new_machine(tmp_path)


def test_arguments() -> None:
    assert parse(["dev"]) == Command("dev", stack="dev")
    assert parse(["dev", "test"]).again == "python3 -m infra dev test"


def test_settings_are_the_clusters_but_for_what_is_the_pods() -> None:
    field = {"fieldRef": {"fieldPath": "metadata.name"}}
    env = [
        {"name": "KINDLING_IMAGE_POSTGRES", "value": "postgres:1"},
        {"name": "KINDLING_WATCH_NAMESPACES"},
        {"name": "KINDLING_POD", "valueFrom": field},
        {"name": "PATH", "value": "/opt/bin"},
    ]
    deployment = {
        "spec": {"template": {"spec": {"containers": [{"name": "prober"}, {"name": "operator", "env": env}]}}}
    }
    assert settings_of(deployment) == {
        "KINDLING_IMAGE_POSTGRES": "postgres:1",
        "KINDLING_WATCH_NAMESPACES": "",
    }


def test_an_unknown_stack_is_named(machine: Machine) -> None:
    done = machine.cli("dev", "dve")
    assert done.returncode == 1
    assert "there is no stack `dve`" in done.stderr


def test_without_a_cluster_it_says_so_before_anything_is_installed(machine: Machine) -> None:
    kubectl = machine.home / "bin" / "kubectl"
    kubectl.write_text(
        f"#!{sys.executable}\nimport sys\n"
        'if "version" in sys.argv: print("Client Version: v1.34.4\\nKustomize Version: v5")\n'
        'else: sys.exit("error: context \\"kind-kindling-dev\\" does not exist")\n'
    )
    kubectl.chmod(0o755)
    done = machine.cli("dev")
    assert done.returncode == 1
    assert "stack `dev` has no operator whose place could be taken" in done.stderr
    assert 'why: error: context "kind-kindling-dev" does not exist' in done.stderr
    assert "remedy: python3 -m infra up dev" in done.stderr
    assert not (machine.home / "state").exists()
    assert not machine.made & {"tools", "stacks"}
