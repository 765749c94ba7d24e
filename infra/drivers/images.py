"""Images: what they are named, where their base comes from, and building each one once.

The node image has a module of its own (`node_image`), being a small distribution rather than a build.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path

from infra import cache, locks, paths, processes
from infra.drivers import debian, debian_lock, maven, registry
from infra.drivers.engine import ContainerEngine
from infra.drivers.node_image import ensure_node_image
from infra.errors import KindlingError
from infra.progress import Progress

__all__ = ["BASE_IMAGE", "build_archive", "content_hash", "ensure_base_image", "ensure_node_image", "push"]

BASE_IMAGE = "docker.io/library/debian:trixie-slim"
OWN_BASE_IMAGE = "localhost/kindling-base:trixie-1"
BASE_SECONDS = 60.0
BASE_STEP = "Make the Debian base image"
BROKER_IMAGE = "kindling-pulsar"
BROKER_FOLDER = "infra/images/pulsar"
# What desktops, editors and tools leave in a folder; what begins with a dot is theirs too.
_LEFT = ("__pycache__", "*.pyc", "*~", "*.swp", "*.orig", "*.rej", "Thumbs.db", "desktop.ini")


def content_hash(context: Path, *, extra: Sequence[str] = ()) -> str:
    """12 hex digits over every path, executable bit and byte under `context`, and the words of `extra`.

    Times, owners and what tools leave there do not count: a fresh clone has the same hash.
    """
    digest = hashlib.sha256()
    for word in extra:
        digest.update(word.encode(errors="surrogateescape") + b"\0")
    for file in sorted(context.rglob("*")):
        relative = file.relative_to(context)
        if not file.is_file() or any(map(left_behind, relative.parts)):
            continue
        executable = bool(file.stat().st_mode & 0o100)
        content = file.read_bytes()
        digest.update(f"{relative.as_posix()}\0{executable}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:12]


def left_behind(name: str) -> bool:
    """Whether a file or folder of this name is a tool's, and enters no image and no hash."""
    return name.startswith(".") or any(fnmatch(name, pattern) for pattern in _LEFT)


def ensure_base_image(engine: ContainerEngine, progress: Progress | None = None) -> str:
    """The Debian image that ours build on: from a registry when one answers, else from Debian's packages.

    The answer stays the same on one machine: an own base, once made, is kept to.
    """
    if engine.has_image(OWN_BASE_IMAGE):
        return OWN_BASE_IMAGE
    if engine.has_image(BASE_IMAGE) or engine.pull(BASE_IMAGE):
        return BASE_IMAGE
    with (progress or Progress()).step(BASE_STEP):
        tar = paths.cache_dir() / "images" / "base-trixie.tar"
        debian.debootstrap(suite="trixie", include=["ca-certificates"], tar=tar)
        engine.import_rootfs(tar, OWN_BASE_IMAGE)
    return OWN_BASE_IMAGE


def broker_download() -> maven.Artifact | None:
    """What must be downloaded before the broker's image can be built; None once it was, or was built."""
    folder = paths.REPOSITORY / BROKER_FOLDER
    artifact = maven.pinned(folder)
    if artifact is None or artifact.location.exists():
        return None
    tag = content_hash(folder, extra=[debian_lock.architecture()])
    built = any(_archive(BROKER_IMAGE, name).exists() for name in (tag, f"{tag}-newer"))
    return None if built else artifact


def build_archive(
    engine: ContainerEngine,
    *,
    name: str,
    tag: str,
    context: Path,
    containerfile: Path,
    build_args: Mapping[str, str],
    exact: bool = False,
) -> Path:
    """The image `localhost/NAME:TAG` as an archive in the cache, built unless it is there.

    `tag` must come from `content_hash`: the archive of a tag is never looked into again. BASE is added
    to the build arguments, and where the context pins a Maven artifact, that lies in it.

    Debian's mirrors drop a version when a newer one comes. Unless it must be `exact`, an image whose locked
    versions are gone is built of the newest there are, and says so: its archive has another name.
    """
    archive, newer = _archive(name, tag), _archive(name, f"{tag}-newer")
    built = [archive] if exact else [archive, newer]
    for found in built:
        if found.exists():
            cache.used(found)
            return found
    with locks.alone(locks.beside(archive)):
        for found in built:
            if found.exists():
                return found
        ref = f"localhost/{name}:{tag}"
        arguments = {"BASE": ensure_base_image(engine), **build_args}
        with _completed(context) as folder:
            try:
                engine.build(context=folder, containerfile=containerfile, tag=ref, build_args=arguments)
            except processes.ProgramError as error:
                locked = (folder / debian_lock.FILE).exists()
                if exact or not locked:
                    raise _not_built(name, error, containerfile, locked=locked) from None
                try:
                    with _unlocked(folder) as loose:
                        engine.build(
                            context=loose, containerfile=containerfile, tag=ref, build_args=arguments
                        )
                except processes.ProgramError as again:
                    raise _not_built(name, again, containerfile, locked=False) from None
                archive = newer
                print(
                    f"{name}: Debian has the versions of {debian_lock.FILE} no more, so it is built of "
                    f"newer ones; `{debian_lock.RENEW}` writes down which",
                    file=sys.stderr,
                )
        engine.save(ref, archive)
    return archive


def _not_built(
    name: str, error: processes.ProgramError, containerfile: Path, *, locked: bool
) -> KindlingError:
    remedy = f"see {containerfile.name}"
    if locked:
        remedy += f"; where a version of {debian_lock.FILE} has no candidate any more: `{debian_lock.RENEW}`"
    return KindlingError(f"the image {name} could not be built", why=error.why or error.what, remedy=remedy)


@contextmanager
def _unlocked(context: Path) -> Iterator[Path]:
    """The context with its versions preferred, no longer required: as a copy that lasts for the build."""
    with tempfile.TemporaryDirectory(prefix="context-") as folder:
        shutil.copytree(context, folder, dirs_exist_ok=True, copy_function=_link_or_copy)
        file = Path(folder, debian_lock.FILE)
        loose = debian_lock.unlocked(file.read_text())
        file.unlink()
        file.write_text(loose)
        yield Path(folder)


def _link_or_copy(source: str, target: str) -> None:
    """Downloads are large, and never written to."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def push(
    engine: ContainerEngine,
    *,
    name: str,
    tag: str,
    context: Path,
    containerfile: Path,
    build_args: Mapping[str, str],
    repository: str,
    insecure: bool,
) -> str:
    """Build the image unless it was built before, push it as REPOSITORY:TAG; returns its digest there."""
    archive = build_archive(
        engine,
        name=name,
        tag=tag,
        context=context,
        containerfile=containerfile,
        build_args=build_args,
        exact=True,
    )
    ref, host = f"localhost/{name}:{tag}", repository.partition("/")[0]
    try:
        if not engine.has_image(ref):
            engine.load(archive)
        digest = engine.push(ref, f"{repository}:{tag}", insecure=insecure)
    except processes.ProgramError as error:
        why = error.why or error.what
        raise KindlingError(
            f"the image {name} could not be pushed to {host}",
            why=why,
            remedy=registry.refusal(host, why),
        ) from None
    if not digest:
        raise KindlingError(
            f"the image {name} was pushed to {host}, which said no digest",
            remedy="run the same command again: what was pushed is found there.",
        )
    return digest


@contextmanager
def _completed(context: Path) -> Iterator[Path]:
    """What counts of the context, with the Maven artifact that it pins; a copy that lasts for the build."""
    artifact = maven.pinned(context)
    file = None if artifact is None else maven.fetch(artifact)
    # Beside the file, so that it need not be copied.
    beside = None if file is None else file.parent
    with tempfile.TemporaryDirectory(prefix="context-", dir=beside) as folder:
        shutil.copytree(context, folder, dirs_exist_ok=True, ignore=_left_behind)
        if file is not None:
            os.link(file, Path(folder, file.name))
        yield Path(folder)


def _left_behind(_folder: str, names: list[str]) -> list[str]:
    return [name for name in names if left_behind(name)]


def _archive(name: str, tag: str) -> Path:
    return paths.cache_dir() / "images" / f"{name}-{tag}.tar"
