"""The Pulumi package as a plugin, and a workspace whose programs use it on an API server."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from infra.bootstrap.toolchain import TOOLS, Toolchain, build, sdk_version
from tests.apiserver.support.controlplane import ControlPlane

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
    return {
        "PATH": f"{pulumi.parent}:{os.environ['PATH']}",
        "KUBECONFIG": str(kubeconfig),
        "PULUMI_HOME": str(folder),
        "PULUMI_BACKEND_URL": f"file://{folder / 'backend'}",
        "PULUMI_CONFIG_PASSPHRASE": "canary",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
    }
