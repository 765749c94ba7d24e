"""The Pulumi package as a plugin, and a workspace whose programs use it on an API server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
import pulumi
from pulumi import automation
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc

from infra import image_references
from infra.bootstrap.toolchain import TOOLS, Toolchain, build, sdk_version
from infra.paths import REPOSITORY
from tests.apiserver.support.controlplane import ControlPlane

FOLDER = REPOSITORY / "infra/package"
IMAGES = {
    name: f"registry.example/kindling/{name}@sha256:{'a' * 64}"
    for name in ("operator", *image_references.RUN_BY)
}
PLUGIN = "pulumi-resource-kindling"
ENTRY = """\
#!{python}
import os, sys
os.execv({python!r}, [{python!r}, {folder!r}, *sys.argv[1:]])
"""


def install(folder: Path, *, source: Path, version: str) -> None:
    """Lay the plugin at `source` where Pulumi, whose home is `folder`, has what it installed.

    Pulumi's host for Python starts a plugin by its PulumiPlugin.yaml. The host of a Pulumi that is built here
    is an older one, which does not understand how it is asked, so a program stands in for it.
    """
    place = folder / "plugins" / f"resource-kindling-v{version}"
    place.mkdir(parents=True)
    entry = place / PLUGIN
    entry.write_text(ENTRY.format(python=sys.executable, folder=str(source)))
    entry.chmod(0o755)
    if Toolchain().builds_provider():
        provider = build.location(TOOLS["pulumi-resource-kubernetes"])
        kubernetes = folder / "plugins" / f"resource-kubernetes-v{sdk_version()}"
        kubernetes.mkdir(parents=True)
        (kubernetes / provider.name).symlink_to(provider)
        # A file in the place of the folder: Pulumi then writes no logs of its own.
        (folder / "logs").touch()


def env_vars(folder: Path, plane: ControlPlane) -> dict[str, str]:
    """What Pulumi and its programs are started with; the state is below `folder` too."""
    (folder / "backend").mkdir(parents=True, exist_ok=True)
    kubeconfig = folder / "kubeconfig"
    shutil.copy(plane.kubeconfig, kubeconfig)
    pulumi = Toolchain().ensure("pulumi")
    found = {
        "PATH": f"{pulumi.parent}:{os.environ['PATH']}",
        "KUBECONFIG": str(kubeconfig),
        "PULUMI_HOME": str(folder),
        "PULUMI_BACKEND_URL": f"file://{folder / 'backend'}",
        "PULUMI_CONFIG_PASSPHRASE": "canary",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
    }
    if Toolchain().builds_provider():  # else Pulumi fetches it
        found["PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION"] = "true"
    return found


@contextmanager
def process(
    folder: Path, *, python: str = sys.executable
) -> Iterator[provider_pb2_grpc.ResourceProviderStub]:
    """The plugin as Pulumi starts it, until leaving."""
    words = [python, str(folder), "127.0.0.1:1"]
    env = {"PATH": os.environ["PATH"]}
    with subprocess.Popen(words, stdout=subprocess.PIPE, cwd=folder.parent, env=env) as running:
        try:
            assert running.stdout is not None
            port = int(running.stdout.readline())
            with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
                yield provider_pb2_grpc.ResourceProviderStub(channel)
        finally:
            running.terminate()


def schema_of(stub: provider_pb2_grpc.ResourceProviderStub) -> Any:
    answer = stub.GetSchema(provider_pb2.GetSchemaRequest(version=0), timeout=60)
    return json.loads(answer.schema)


class Component(pulumi.ComponentResource):
    """What a generated SDK has for each component, without its types."""

    def __init__(
        self,
        kind: str,
        name: str,
        inputs: dict[str, Any],
        outputs: tuple[str, ...] = (),
        depends_on: pulumi.Resource | None = None,
    ) -> None:
        props = {**dict.fromkeys(outputs), **inputs}
        opts = pulumi.ResourceOptions(version="0.0.0", depends_on=depends_on)
        super().__init__(f"kindling:index:{kind}", name, props, opts, remote=True)


class Workspace:
    """Programs of this process, each a stack of its own; `state` is the folder of what Pulumi keeps."""

    def __init__(self, folder: Path, plane: ControlPlane) -> None:
        install(folder / "home", source=FOLDER, version="0.0.0")
        self._env = env_vars(folder / "home", plane)
        self._folder = folder
        self.plane = plane
        self.state = folder / "home/backend"
        # Where the Automation API looks for the program below a folder that it is given.
        (folder / "bin").mkdir()
        (folder / "bin/pulumi").symlink_to(Toolchain().ensure("pulumi"))
        self._command = automation.PulumiCommand(root=str(folder))

    def stack(self, name: str, program: Callable[[], None]) -> automation.Stack:
        """A stack that runs the program; one of this name that is there goes on with it."""
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        return automation.create_or_select_stack(
            stack_name=name,
            project_name="package",
            program=program,
            opts=automation.LocalWorkspaceOptions(
                work_dir=str(folder), env_vars=self._env, pulumi_command=self._command
            ),
        )
