"""A Pod that runs the Pulumi program of a checkout: its image, and the Job with guides/in-a-pod.md's account.

The image stands for one of Pulumi's own, with Pulumi, Python, the locked packages and the checkout, and with
neither kubectl nor a container engine.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from infra.bootstrap.toolchain import TOOLS, Toolchain, build, sdk_version
from infra.drivers.base_image import ensure_base_image
from infra.drivers.engine import ContainerEngine
from infra.paths import REPOSITORY
from tests import guides, pulumi_hosts

GUIDE = (REPOSITORY / "docs/guides/in-a-pod.md").read_text()
BLOCKS = {name: body for _, name, body in guides.blocks(GUIDE) if name}
RIGHTS = BLOCKS["pulumi/rights.yaml"]
CONTEXT = "kindling:context: in-cluster"
"""The guide's setting."""
ACCOUNT, NAMESPACE = "kindling", "pulumi"
PROGRAM, HOME = PurePosixPath("/opt/program"), PurePosixPath("/opt/pulumi")
USER = 65532
STATE = "/state"
CONTAINERFILE = f"""\
ARG BASE
FROM ${{BASE}}
RUN ["apt-get", "-q", "install", "--update", "--yes", "--no-install-recommends", \
"ca-certificates", "python3", "python3-venv"]
COPY program/requirements.txt {PROGRAM}/requirements.txt
RUN ["python3", "-m", "venv", "{PROGRAM}/.venv"]
RUN --mount=type=secret,id=ca-bundle,target=/etc/ssl/certs/ca-certificates.crt \
["{PROGRAM}/.venv/bin/pip", "install", "--no-cache-dir", "--require-hashes", "--only-binary=:all:", \
"--requirement={PROGRAM}/requirements.txt"]
COPY pulumi {HOME}
COPY program {PROGRAM}
COPY commands.py /opt/commands.py
RUN ["chown", "-R", "{USER}:{USER}", "{PROGRAM}", "{HOME}"]
ENV PATH={HOME}/bin:/usr/bin:/bin PULUMI_HOME={HOME}/home PULUMI_SKIP_UPDATE_CHECK=true USER=pulumi
USER {USER}:{USER}
WORKDIR {PROGRAM}
ENTRYPOINT ["{PROGRAM}/.venv/bin/python", "/opt/commands.py"]
"""
COMMANDS = """\
import json, os, shutil, subprocess, sys

found = [name for name in ("kubectl", "docker", "podman", "kind", "git") if shutil.which(name)]
assert not found, found
for words in json.loads(os.environ["COMMANDS"]):
    print("$ pulumi", *words, flush=True)
    done = subprocess.run(["pulumi", *words, "--non-interactive"], stdin=subprocess.DEVNULL, timeout=600)
    if done.returncode:
        sys.exit(f"exit status {done.returncode}")
"""


def build_image(engine: ContainerEngine, checkout: Path, *, stack: str, tag: str, folder: Path) -> None:
    """The image of a checkout, whose stack there is set to the cluster that the Pod runs in."""
    context = folder / "program-image"
    ignored = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache")
    shutil.copytree(checkout, context / "program", ignore=ignored)
    file = context / "program" / f"Pulumi.{stack}.yaml"
    lines = [line for line in file.read_text().splitlines() if "kindling:context:" not in line]
    file.write_text("\n".join([*lines, f"  {CONTEXT}", ""]))
    _add_pulumi(context / "pulumi")
    (context / "commands.py").write_text(COMMANDS)
    (context / "Containerfile").write_text(CONTAINERFILE)
    engine.build(
        context=context,
        containerfile=context / "Containerfile",
        tag=tag,
        build_args={"BASE": ensure_base_image(engine)},
    )


def _add_pulumi(folder: Path) -> None:
    pulumi, built = Toolchain().ensure("pulumi"), Toolchain().builds_provider()
    (folder / "bin").mkdir(parents=True)
    for program in pulumi.parent.glob("pulumi*"):
        shutil.copy(program, folder / "bin")
    version = sdk_version()
    name = "pulumi-resource-kubernetes"
    plugin = PurePosixPath("plugins") / f"resource-kubernetes-v{version}"
    source = build.location(TOOLS[name]) if built else Path.home() / ".pulumi" / plugin / name
    (folder / "home" / plugin).mkdir(parents=True)
    shutil.copy(source, folder / "home" / plugin / name)
    if built:
        (folder / "host").mkdir()
        for part in ("pulumi-language-python", "pulumi-language-python-exec"):
            os.replace(folder / "bin" / part, folder / "host" / part)
        host, python = HOME / "host/pulumi-language-python", PurePosixPath("/usr/bin/python3")
        for name, text in pulumi_hosts.programs(host=host, project=PROGRAM, python=python).items():
            (folder / "bin" / name).write_text(text)
            (folder / "bin" / name).chmod(0o755)


def prepared() -> str:
    """The guide's rights, with a volume for the state of a backend of files and the passphrase's Secret."""
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "state", "namespace": NAMESPACE},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "100Mi"}}},
    }
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "pulumi", "namespace": NAMESPACE},
        "stringData": {"passphrase": "canary"},
    }
    return "---\n".join([RIGHTS, *(json.dumps(item) + "\n" for item in (volume, secret))])


def job(name: str, *, image: str, commands: Sequence[Sequence[str]]) -> str:
    """A Job that runs these commands of Pulumi in turn, once."""
    passphrase = {"secretKeyRef": {"name": "pulumi", "key": "passphrase"}}
    container: dict[str, Any] = {
        "name": "pulumi",
        "image": image,
        "env": [
            {"name": "COMMANDS", "value": json.dumps(commands)},
            {"name": "PULUMI_BACKEND_URL", "value": f"file://{STATE}"},
            {"name": "HOME", "value": STATE},
            {"name": "PULUMI_CONFIG_PASSPHRASE", "valueFrom": passphrase},
        ],
        "volumeMounts": [{"name": "state", "mountPath": STATE}],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    pod = {
        "serviceAccountName": ACCOUNT,
        "restartPolicy": "Never",
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
        "volumes": [{"name": "state", "persistentVolumeClaim": {"claimName": "state"}}],
    }
    return yaml.safe_dump(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"backoffLimit": 0, "template": {"spec": pod}},
        }
    )
