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
from functools import partial
from pathlib import Path

from infra import cache, locks, paths, processes
from infra.drivers import debian_lock, image_tools, manifest_list, maven, platforms, registry
from infra.drivers.base_image import BASE_IMAGE as BASE_IMAGE
from infra.drivers.base_image import BASE_SECONDS as BASE_SECONDS
from infra.drivers.base_image import BASE_STEP as BASE_STEP
from infra.drivers.base_image import OWN_BASE_IMAGE as OWN_BASE_IMAGE
from infra.drivers.base_image import check_base, ensure_base_image
from infra.drivers.engine import ContainerEngine
from infra.drivers.node_image import ensure_node_image
from infra.errors import KindlingError
from infra.paths import left_behind

__all__ = ["BASE_IMAGE", "build_archive", "content_hash", "ensure_base_image", "ensure_node_image", "push"]

OPERATOR_IMAGE = "kindling-operator"
OPERANDS = "operator/images"
BROKER_IMAGE = "kindling-pulsar"
BROKER_FOLDER = "infra/images/pulsar"
OBJECT_STORE_PART = "object-store"
OBJECT_STORE_IMAGE = "kindling-object-store"
OBJECT_STORE_FOLDER = "infra/images/object-store"


def content_hash(context: Path, *, extra: Sequence[str] = ()) -> str:
    """12 hex digits over every path, executable bit and byte under `context`, and the texts of `extra`.

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


def broker_download() -> maven.Artifact | None:
    """What must be downloaded before the broker's image can be built; None once it was, or was built."""
    folder = paths.REPOSITORY / BROKER_FOLDER
    artifact = maven.pinned(folder)
    if artifact is None or artifact.location.exists():
        return None
    tags = [content_hash(folder, extra=[each]) for each in debian_lock.ARCHITECTURES]
    built = any(_archive(BROKER_IMAGE, name).exists() for tag in tags for name in (tag, f"{tag}-newer"))
    return None if built else artifact


def object_store_tool() -> str | None:
    """The program that must be there before the object store's image can be built; None once that was."""
    folder = paths.REPOSITORY / OBJECT_STORE_FOLDER
    counted = [*platforms.counted([platforms.own()]), *image_tools.counted(folder)]
    archive = _archive(OBJECT_STORE_IMAGE, content_hash(folder, extra=counted))
    return None if archive.exists() else image_tools.named(folder)


def build_archive(
    engine: ContainerEngine,
    *,
    name: str,
    tag: str,
    context: Path,
    containerfile: Path,
    build_args: Mapping[str, str],
    exact: bool = False,
    platform: str = "",
) -> Path:
    """The image `localhost/NAME:TAG` as an archive in the cache, built unless it is there.

    `tag` must come from `content_hash`: the archive of a tag is never looked into again. BASE is added
    to the build arguments unless they name one, and where the context pins a Maven artifact, or names a
    program (then there is no BASE), that lies in it. Without a `platform` it is this machine's. Raises
    `KindlingError` with the engine's message.

    Debian's mirrors drop a version when a newer one comes. Unless it must be `exact`, an image whose locked
    versions are gone is built of the newest there are, and says so: its archive has another name.
    """
    archive, newer = _archive(name, tag), _archive(name, f"{tag}-newer")
    built = [archive] if exact else [archive, newer]
    for found in built:
        if found.exists():
            cache.used(found)
            return found
    with locks.exclusive(locks.lock_path(archive)):
        for found in built:
            if found.exists():
                return found
        ref = f"localhost/{name}:{tag}"
        based = {**build_args}
        if image_tools.named(context) is None:
            base = build_args.get("BASE") or ensure_base_image(engine, platform=platform)
            if platform and "BASE" in build_args:
                check_base(engine, base, platform)
            based["BASE"] = base
        build = partial(
            engine.build,
            containerfile=containerfile,
            tag=ref,
            build_args=based,
            platform=platform,
        )
        with _completed(context) as folder:
            try:
                build(context=folder)
            except processes.ProgramError as error:
                if platform and platforms.is_foreign(error.why):
                    raise platforms.not_for(platform, f"the image {name}", error.why) from None
                locked = (folder / debian_lock.FILE).exists()
                if exact or not locked:
                    raise _not_built(name, error, containerfile, locked=locked) from None
                try:
                    with _unlocked(folder) as loose:
                        build(context=loose)
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
    tags: Mapping[str, str],
    repository: str,
    insecure: bool,
) -> str:
    """Build the image unless it was built before, push it as REPOSITORY:TAG; returns its digest there.

    `tags` has the tag of the image of each platform, by platform: for a single one it is `tag`, several
    become one list of that name.
    """
    archives = {
        platform: build_archive(
            engine,
            name=name,
            tag=single,
            context=context,
            containerfile=containerfile,
            build_args=build_args,
            exact=True,
            platform=platform,
        )
        # In one order, so that a list has one digest.
        for platform, single in sorted(tags.items())
    }
    refs, host = {each: f"localhost/{name}:{tags[each]}" for each in archives}, repository.partition("/")[0]
    try:
        for platform, ref in refs.items():
            if not engine.has_image(ref):
                engine.load(archives[platform])
        if len(refs) == 1:
            [ref] = refs.values()
            digest = engine.push(ref, f"{repository}:{tag}", insecure=insecure)
        else:
            digest = manifest_list.push(engine, refs, f"{repository}:{tag}", insecure=insecure)
    except processes.ProgramError as error:
        why = error.why or error.what
        raise KindlingError(
            f"the image {name} could not be pushed to {host}",
            why=why,
            remedy=registry.refusal(host, why, repositories=repositories(repository)),
        ) from None
    if not digest:
        raise KindlingError(
            f"the image {name} was pushed to {host}, which said no digest",
            remedy="run the same command again: what was pushed is found there.",
        )
    return digest


def operands() -> list[str]:
    """What the operator runs: the names of the folders of operator/images that hold a Containerfile."""
    return sorted(path.parent.name for path in (paths.REPOSITORY / OPERANDS).glob("*/Containerfile"))


def repositories(one: str) -> list[str]:
    """Where all our images are, by the place of `one` of them, HOST/PREFIX/NAME: each without the host."""
    prefix = one.partition("/")[2].rpartition("/")[0]
    names = [OPERATOR_IMAGE, *(f"kindling-{name}" for name in operands()), BROKER_IMAGE]
    return [f"{prefix}/{name}" if prefix else name for name in names]


@contextmanager
def _completed(context: Path) -> Iterator[Path]:
    """What counts of the context, with the Maven artifact that it pins or the program that it names.

    A copy that lasts for the build.
    """
    artifact = maven.pinned(context)
    file = image_tools.program(context) if artifact is None else maven.fetch(artifact)
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
