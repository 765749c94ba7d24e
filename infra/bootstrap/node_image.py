"""A node image for kind, assembled from Debian's packages and our own tools where no registry answers.

It has the contract of kind's published one (entrypoint and units come from kind's own module), with
single-binary images for the control plane.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from infra import locks, paths, processes
from infra.bootstrap import debian_rootfs, image_archive
from infra.bootstrap.toolchain import Toolchain
from infra.bootstrap.toolchain import build as building
from infra.bootstrap.toolchain.golang import Go
from infra.bootstrap.toolchain.tools import KUBERNETES, NODE_TOOLS, TOOLS
from infra.progress import Progress, Step

NAME = "localhost/kindling-node"
FILES = Path(__file__).parent / "node"
STEP = "Assemble the Kubernetes node image"
SECONDS = 100.0
# systemd of a newer Debian refuses cgroup v1, which some machines still have.
SUITE = "bookworm"
PACKAGES = [
    "systemd",
    "systemd-sysv",
    "dbus",
    "containerd",
    "runc",
    "containernetworking-plugins",
    "conntrack",
    "iptables",
    "nftables",
    "iproute2",
    "ethtool",
    "util-linux",
    "mount",
    "kmod",
    "e2fsprogs",
    "jq",
    "procps",
    "socat",
    "ca-certificates",
    "catatonit",
]


# What a configured system's alternatives would be.
_IPTABLES = {
    f"/usr/sbin/{name}": "xtables-nft-multi"
    for six in ("", "6")
    for name in (f"ip{six}tables", f"ip{six}tables-save", f"ip{six}tables-restore")
}


class Engine(Protocol):
    """What is asked of the container engine (`infra.drivers.engine`)."""

    def has_image(self, ref: str) -> bool: ...

    def run(self, *arguments: str | Path) -> str: ...

    def import_rootfs(self, tar: Path, ref: str) -> None: ...

    def build(
        self, *, context: Path, containerfile: Path, tag: str, build_args: Mapping[str, str]
    ) -> None: ...


def own_ref() -> str:
    """The name of the assembled image, which follows everything that goes into it."""
    digest = hashlib.sha256(" ".join(PACKAGES).encode())
    for name in NODE_TOOLS:
        digest.update(building.location(TOOLS[name]).parent.name.encode())
    for file in sorted(FILES.rglob("*")):
        if file.is_file():
            digest.update(file.relative_to(FILES).as_posix().encode() + b"\0" + file.read_bytes())
    return f"{NAME}:v{KUBERNETES}-{digest.hexdigest()[:12]}"


def steps(toolchain: Toolchain) -> list[Step]:
    """What `assemble` would do."""
    return [*toolchain.plan(NODE_TOOLS), Step(STEP, SECONDS)]


def assemble(engine: Engine, progress: Progress | None = None) -> str:
    """Build the tools that go into the image, then the image; returns its name.

    Raises `KindlingError` for what can be neither built nor fetched.
    """
    ref = own_ref()
    progress = progress or Progress()
    toolchain = Toolchain(progress=progress)
    tools = toolchain.ensure_all(NODE_TOOLS)
    work = paths.cache_dir() / "images" / "node.partial"
    with progress.step(STEP) as detail, locks.exclusive(locks.lock_path(work), say=detail):
        if engine.has_image(ref):
            return ref
        shutil.rmtree(work, ignore_errors=True)
        try:
            _assemble(engine, ref, tools, work, detail)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return ref


def _assemble(
    engine: Engine, ref: str, tools: dict[str, Path], work: Path, say: Callable[[str], None]
) -> None:
    rootfs = paths.cache_dir() / "images" / f"node-rootfs-{_digest(PACKAGES)}.tar"
    say("Debian root file system")
    debian_rootfs.debootstrap(suite=SUITE, include=PACKAGES, tar=rootfs)
    rootfs_ref = f"localhost/kindling-node-rootfs:{_digest(PACKAGES)}"
    if not engine.has_image(rootfs_ref):
        engine.import_rootfs(rootfs, rootfs_ref)
    overlay = work / "overlay"
    go = Go.ensure()
    kind_files = (
        go.module_dir(folder=building.FOLDER / "kind", module="sigs.k8s.io/kind")
        / "images"
        / "base"
        / "files"
    )
    _copy(kind_files, overlay)
    _copy(FILES, overlay)
    (overlay / "Containerfile").rename(work / "Containerfile")
    for executable in [*(overlay / "usr/local/bin").iterdir(), *(overlay / "kind/bin").iterdir()]:
        executable.chmod(0o755)
    say("control plane images")
    images = _control_plane(tools, rootfs, work)
    image_archive.write(overlay / "kind" / "images.tar", images)
    config = overlay / "etc/containerd/config.toml"
    config.write_text(
        config.read_text().replace("@PAUSE@", next(i.ref for i in images if "/pause:" in i.ref))
    )
    spec = json.loads(engine.run("run", "--rm", "--entrypoint", "ctr", rootfs_ref, "oci", "spec"))
    del spec["process"]["rlimits"]  # Setting them needs CAP_SYS_RESOURCE.
    (overlay / "etc/containerd/cri-base.json").write_text(json.dumps(spec))
    (overlay / "kind/version").write_text(f"v{KUBERNETES}")
    (overlay / "usr/bin").mkdir(parents=True, exist_ok=True)
    for name in ("kubeadm", "kubelet", "kubectl"):
        shutil.copy2(tools[name], overlay / "usr/bin" / name)
    (overlay / "opt/cni").mkdir(parents=True)
    (overlay / "opt/cni/bin").symlink_to("/usr/lib/cni")
    (overlay / "etc/kubernetes/manifests").mkdir(parents=True)
    say("image")
    engine.build(
        context=work, containerfile=work / "Containerfile", tag=ref, build_args={"ROOTFS": rootfs_ref}
    )


def _control_plane(tools: dict[str, Path], rootfs: Path, work: Path) -> list[image_archive.SmallImage]:
    """Images under the names that kubeadm asks for, each one binary and what that needs."""
    names = processes.run(
        [tools["kubeadm"], "config", "images", "list", f"--kubernetes-version=v{KUBERNETES}"], timeout=60
    ).split()
    images = []
    for ref in names:
        name = ref.rsplit("/", 1)[1].split(":")[0]
        if name == "pause":
            pause = image_archive.extract_file(rootfs, "usr/bin/catatonit", work / "pause")
            images.append(image_archive.SmallImage(ref, {"/pause": pause}, entrypoint=("/pause", "-P")))
        elif name == "kube-proxy":
            images.append(_with_packages(ref, tools[name], ("iptables", "conntrack", "kmod"), _IPTABLES))
        elif name == "coredns":
            images.append(image_archive.SmallImage(ref, {"/coredns": tools[name]}, entrypoint=("/coredns",)))
        else:
            images.append(image_archive.SmallImage(ref, {f"/usr/local/bin/{name}": tools[name]}))
    network, storage = tools["node-network"], tools["node-storage"]
    images.append(_with_packages("localhost/node-network:node", network, ("nftables",)))
    images.append(
        image_archive.SmallImage("localhost/node-storage:node", {f"/usr/local/bin/{storage.name}": storage})
    )
    return images


def _with_packages(
    ref: str,
    binary: Path,
    packages: Sequence[str],
    links: Mapping[str, str] | None = None,
) -> image_archive.SmallImage:
    """A binary that calls other programs, so it gets a (tiny) root file system with these packages."""
    rootfs = paths.cache_dir() / "images" / f"{binary.name}-rootfs-{_digest(packages)}.tar"
    # Unpacked only: nothing in it is ever configured or run but these tools.
    debian_rootfs.debootstrap(suite=SUITE, include=packages, tar=rootfs, variant="extract")
    return image_archive.SmallImage(
        ref, {f"/usr/local/bin/{binary.name}": binary}, links=links or {}, rootfs=rootfs
    )


def _copy(source: Path, target: Path) -> None:
    shutil.copytree(source, target, dirs_exist_ok=True, copy_function=shutil.copyfile)
    for path in target.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)


def _digest(names: Sequence[str]) -> str:
    return hashlib.sha256(" ".join(names).encode()).hexdigest()[:12]
