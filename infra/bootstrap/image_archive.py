"""Writing image archives without an engine: an image of one static binary is a tar of a tar.

The format is docker-archive (`docker save`'s), which every engine and containerd read.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class SmallImage:
    """An image of one layer.

    `files` maps a path in the image to a file on the host, `links` a path to what it points at;
    `rootfs` is a tar to start from.
    """

    ref: str
    files: Mapping[str, Path]
    links: Mapping[str, str] = field(default_factory=dict)
    entrypoint: Sequence[str] = ()
    rootfs: Path | None = None


def write(archive: Path, images: Sequence[SmallImage]) -> None:
    """Write all images into one archive, complete or not at all."""
    partial = archive.with_suffix(".partial")
    manifest: list[dict[str, Any]] = []
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(partial, "w") as tar:
        for image in images:
            layer = archive.with_suffix(".layer")
            _write_layer(layer, image)
            digest = _sha256(layer)
            tar.add(layer, f"{digest}.tar", filter=_anonymous)
            layer.unlink()
            config = json.dumps(
                {
                    "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
                    "os": "linux",
                    "config": {
                        "Entrypoint": list(image.entrypoint) or None,
                        "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
                    },
                    "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
                }
            ).encode()
            name = f"{hashlib.sha256(config).hexdigest()}.json"
            _add_bytes(tar, name, config)
            manifest.append({"Config": name, "RepoTags": [image.ref], "Layers": [f"{digest}.tar"]})
        _add_bytes(tar, "manifest.json", json.dumps(manifest).encode())
    os.replace(partial, archive)


def extract_file(tar: Path, member: str, target: Path) -> Path:
    """Copy one regular file out of a root file system tar, keeping it executable."""
    with tarfile.open(tar) as source:
        for name in (member, f"./{member}"):
            try:
                content = source.extractfile(name)
            except KeyError:
                continue
            assert content is not None
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content.read())
            target.chmod(0o755)
            return target
    raise FileNotFoundError(f"{member} is not in {tar}")


def _write_layer(layer: Path, image: SmallImage) -> None:
    with tarfile.open(layer, "w") as tar:
        if image.rootfs is not None:
            with tarfile.open(image.rootfs) as source:
                for member in source:
                    if member.isdev():
                        continue
                    tar.addfile(member, source.extractfile(member) if member.isreg() else None)
        else:
            tmp = tarfile.TarInfo("tmp")
            tmp.type, tmp.mode = tarfile.DIRTYPE, 0o1777
            tar.addfile(tmp)
        for path, file in image.files.items():
            tar.add(file, path.lstrip("/"), filter=_anonymous)
        for path, points_at in image.links.items():
            link = tarfile.TarInfo(path.lstrip("/"))
            link.type, link.linkname = tarfile.SYMTYPE, points_at
            tar.addfile(link)


def _anonymous(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = info.mtime = 0
    info.uname = info.gname = ""
    return info


def _add_bytes(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    tar.addfile(info, io.BytesIO(content))


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
