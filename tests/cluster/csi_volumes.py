"""Volumes that have a size and grow: a CSI driver of the tests', with the upstream provisioner and resizer.

kind's own volumes are folders of the node's disk: they are never full, and no larger for a larger claim.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kindling.engine.quantity import quantity

from infra.bootstrap.toolchain import Toolchain, build
from infra.bootstrap.toolchain.golang import Go
from infra.bootstrap.toolchain.tools import Tool
from infra.drivers import images
from infra.drivers.engine import ContainerEngine
from infra.drivers.kind import KindCli
from infra.settings import cluster_name
from tests.cluster.stack import STACK, Environment, within

FOLDER = Path(__file__).parent / "csi_driver"
MANIFESTS = FOLDER / "manifests.yaml"
NAMESPACE, DEPLOYMENT = "csi-driver-tests", "csi-driver"
GROWING, FIXED = "growing", "fixed"
"""The storage classes: one that expands volumes, and one that does not."""
DATA = "/var/lib/postgresql/data"
PROGRAMS = {
    "csi-driver": ".",
    "csi-provisioner": "github.com/kubernetes-csi/external-provisioner/v6/cmd/csi-provisioner",
    "csi-resizer": "github.com/kubernetes-csi/external-resizer/v2/cmd/csi-resizer",
}
DRIVER = "csi.tests.kindling.dev"
REGISTERED_SECONDS, DELETED_SECONDS = 60.0, 120.0


def _image(engine: ContainerEngine) -> tuple[str, Path]:
    """The image's name, and where it is: built of programs that are built once, minutes long."""
    tag = images.content_hash(FOLDER)
    with tempfile.TemporaryDirectory(prefix="csi-driver-") as folder:
        for name, package in PROGRAMS.items():
            tool = Tool(name=name, version="1", folder=str(FOLDER), package=package, seconds=200)
            shutil.copy2(build.build(tool, Go.ensure()), folder)
        shutil.copy2(FOLDER / "Containerfile", folder)
        archive = images.build_archive(
            engine,
            name="kindling-csi-driver",
            tag=tag,
            context=Path(folder),
            containerfile=Path(folder, "Containerfile"),
            build_args={"BASE": "scratch"},
        )
    return f"localhost/kindling-csi-driver:{tag}", archive


@contextmanager
def installed(environment: Environment) -> Iterator[None]:
    """The driver with both classes; at the end it goes, when the last volume of its classes has gone."""
    engine = ContainerEngine.detect()
    image, archive = _image(engine)
    cluster = KindCli(Toolchain().ensure("kind"), engine)
    if not cluster.has_image(cluster_name(STACK), image):
        cluster.load(cluster_name(STACK), archive)
    text = MANIFESTS.read_text(encoding="utf-8").replace("IMAGE", image)
    try:
        environment.kubectl("apply", "-f", "-", stdin=text)
        environment.kubectl(
            "rollout", "status", f"deployment/{DEPLOYMENT}", "-n", NAMESPACE, "--timeout=120s"
        )
        within(REGISTERED_SECONDS, lambda: _registered(environment))
        yield
        within(DELETED_SECONDS, lambda: not volumes(environment))
    finally:
        environment.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=text)


def _registered(environment: Environment) -> bool:
    """Whether the kubelet knows the driver."""
    [node] = environment.get("csinodes")["items"]
    return DRIVER in [one["name"] for one in node["spec"].get("drivers") or ()]


def volumes(environment: Environment) -> list[str]:
    """The names of the PersistentVolumes of its classes."""
    found = environment.get("persistentvolumes")["items"]
    return [
        one["metadata"]["name"] for one in found if one["spec"].get("storageClassName") in (GROWING, FIXED)
    ]


@dataclass(frozen=True)
class Space:
    """Of a file system, in bytes."""

    total: int
    free: int

    @property
    def used(self) -> int:
        return self.total - self.free


def claim(environment: Environment, name: str) -> dict[str, Any]:
    """The claim of this Postgresql's data."""
    return environment.get("persistentvolumeclaim", f"{name}-data")


def capacity(environment: Environment, name: str) -> int:
    """What the claim has."""
    return int(quantity(claim(environment, name)["status"]["capacity"]["storage"]))


def seen(environment: Environment, name: str) -> Space:
    """What statvfs says in the server's container."""
    words = ("exec", f"{name}-0", "-c", "postgres", "--", "stat", "-f", "-c", "%S %b %a", DATA)
    block, total, free = map(int, environment.kubectl(*words).split())
    return Space(total=block * total, free=block * free)
