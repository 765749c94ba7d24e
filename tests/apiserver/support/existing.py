"""A stack in an existing cluster as its users have it: a checkout with a small program, and their commands.

The program is a small one on the real settings and the real Cluster, because nothing runs Pods here; the
whole program in a whole cluster is tested in tests/cluster.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from infra import paths
from infra.bootstrap import virtualenv
from infra.bootstrap.toolchain import Toolchain
from infra.errors import KindlingError
from tests.apiserver.support.controlplane import ControlPlane
from tests.unit.infra.cli_machine import Machine, new_machine

PROGRAM = """\
import pulumi
from pulumi_kubernetes import core, meta

from infra import settings
from infra.components.cluster import Cluster, check_environment

# No garbage collector runs here, for which the provider would wait.
BACKGROUND = {"pulumi.com/deletionPropagationPolicy": "background"}
found = settings.load(pulumi.Config().get, stack=pulumi.get_stack())
check_environment(found.cluster)
cluster = Cluster("cluster", settings=found.cluster, protect=found.protect)
core.v1.ConfigMap(
    "rows",
    metadata=meta.v1.ObjectMetaArgs(name="rows", namespace="default", annotations=BACKGROUND),
    data={"replicas": str(found.operator.replicas)},
    opts=pulumi.ResourceOptions(provider=cluster.provider, protect=found.protect),
)
core.v1.ConfigMap(
    "settings",
    metadata=meta.v1.ObjectMetaArgs(name="settings", namespace="default", annotations=BACKGROUND),
    opts=pulumi.ResourceOptions(provider=cluster.provider),
)
pulumi.export("images", {"operator": "registry.example/k/kindling-operator@sha256:" + "a" * 64})
"""
ROWS = "/api/v1/namespaces/default/configmaps/rows"
SETTINGS = "/api/v1/namespaces/default/configmaps/settings"


def new_stack(folder: Path, plane: ControlPlane, *, host: str) -> Machine:
    """Stack `staging`, described and not brought up; `host` is its registry's."""
    try:
        for name in ("pulumi", "kubectl"):
            Toolchain().ensure(name)
    except KindlingError as error:
        pytest.fail(f"{error}; `python3 -m infra test` sets it up")
    assert virtualenv.present(), "missing: the Python environment; `python3 -m infra test` sets it up"
    machine = new_machine(folder, environment=False)
    machine.engine(containers={})
    machine.extra |= {
        "KINDLING_CACHE": str(paths.cache_dir()),
        "KINDLING_ENGINE": "podman",
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
    }
    (machine.checkout / "__main__.py").write_text(PROGRAM)
    shutil.copy(plane.kubeconfig, folder / "kubeconfig")
    configure(machine, host=host)
    return machine


def configure(
    machine: Machine, *, host: str, context: str = "test", more: str = "", protect: str = "false"
) -> None:
    (machine.checkout / "Pulumi.staging.yaml").write_text(
        "config:\n  pulumi:disable-default-providers:\n    - kubernetes\n"
        f"  kindling:cluster: existing\n  kindling:context: {context}\n"
        f"  kindling:kubeconfig: {machine.home / 'kubeconfig'}\n"
        f"  kindling:registry: {host}/kindling\n  kindling:insecureRegistry: true\n"
        f"  kindling:protect: {protect}\n{more}"
    )


def said(words: tuple[str, ...]) -> tuple[str, ...]:
    """As a pipeline says it, where nobody can be asked."""
    return (*words, "--yes") if words[0] in ("up", "destroy") else words


def ok(machine: Machine, *words: str) -> str:
    done = machine.cli(*said(words))
    assert done.returncode == 0, f"{words}: {done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def refused(machine: Machine, *words: str) -> str:
    """The one message that a run ends with; nothing of Pulumi's before it, as it was not started."""
    done = machine.cli(*said(words))
    assert done.returncode == 1, done.stdout
    assert "Traceback" not in done.stderr
    assert "pulumi:pulumi:Stack" not in done.stdout
    (message,) = re.findall(r"^error: ([\s\S]*)", done.stderr, re.MULTILINE)
    assert message.count("why:") == message.count("remedy:") == 1, message
    return str(message)


def rewrite(machine: Machine, **changed: str) -> None:
    file = machine.home / "kubeconfig"
    config = json.loads(file.read_text())
    config["users"][0]["user"]["token"] = changed.get("token", config["users"][0]["user"]["token"])
    config["clusters"][0]["cluster"]["server"] = changed.get(
        "server", config["clusters"][0]["cluster"]["server"]
    )
    # The certificate does not know each of its addresses.
    config["clusters"][0]["cluster"]["tls-server-name"] = "kubernetes"
    file.write_text(json.dumps(config))
