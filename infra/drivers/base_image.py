"""The image that ours are built on: Debian's from a registry, or made here where none answers."""

from __future__ import annotations

from pathlib import Path

from infra import locks, paths
from infra.drivers import platforms
from infra.drivers.engine import ContainerEngine
from infra.errors import KindlingError
from infra.progress import Progress

BASE_IMAGE = "docker.io/library/debian:trixie-slim"
OWN_BASE_IMAGE = "localhost/kindling-base:trixie-1"
BASE_SECONDS = 60.0
BASE_STEP = "Make the Debian base image"


def ensure_base_image(
    engine: ContainerEngine, progress: Progress | None = None, *, platform: str = ""
) -> str:
    """The Debian image that ours build on: from a registry when one answers, else from Debian's packages.

    The answer stays the same on one machine: an own base, once made, is kept to. Raises `KindlingError`
    where the `platform` is not this machine's, no registry answers and this machine cannot run its programs.
    """
    if platform not in ("", platforms.own()):
        return _foreign_base(engine, platform, progress or Progress())
    if engine.has_image(OWN_BASE_IMAGE):
        return OWN_BASE_IMAGE
    if engine.has_image(BASE_IMAGE) or engine.pull(BASE_IMAGE):
        return BASE_IMAGE
    with (progress or Progress()).step(BASE_STEP):
        tar = paths.cache_dir() / "images" / "base-trixie.tar"
        _debootstrap(tar)
        engine.import_rootfs(tar, OWN_BASE_IMAGE)
    return OWN_BASE_IMAGE


def _foreign_base(engine: ContainerEngine, platform: str, progress: Progress) -> str:
    """Under a name of its own: what is pulled for another platform takes this one's name away."""
    architecture = platforms.architecture(platform)
    pulled, own = f"localhost/kindling-debian:trixie-slim-{architecture}", f"{OWN_BASE_IMAGE}-{architecture}"
    for ref in (own, pulled):
        if engine.has_image(ref):
            return ref
    tar = paths.cache_dir() / "images" / f"base-trixie-{architecture}.tar"
    with (
        progress.step(f"{BASE_STEP} of {platform}"),
        locks.exclusive(locks.lock_path(tar.with_suffix(".pull"))),
    ):
        there, kept = engine.has_image(BASE_IMAGE), "localhost/kindling-debian:trixie-slim"
        if there:
            engine.run("tag", BASE_IMAGE, kept)
        if engine.pull(BASE_IMAGE, platform=platform):
            engine.run("tag", BASE_IMAGE, pulled)
            if there:
                engine.run("tag", kept, BASE_IMAGE)
            else:
                engine.run("image", "rm", BASE_IMAGE)
            return pulled
        try:
            _debootstrap(tar, architecture=architecture)
        except KindlingError as error:
            if platforms.is_foreign(error.why):
                raise platforms.not_for(platform, "the Debian base image", error.why) from None
            raise
        engine.import_rootfs(tar, own, platform=platform)
    return own


def _debootstrap(tar: Path, *, architecture: str = "") -> None:
    # Imported where no registry answers: see `infra.bootstrap`.
    from infra import bootstrap

    bootstrap.debian_rootfs.debootstrap(
        suite="trixie", include=["ca-certificates"], tar=tar, architecture=architecture
    )


def check_base(engine: ContainerEngine, base: str, platform: str) -> None:
    """Raise `KindlingError` for a base of another platform.

    An engine takes it all the same where it finds no better one, and labels what it makes wrongly.
    """
    wanted = platforms.architecture(platform)
    if engine.architecture(base) != wanted:
        if engine.name == "docker" and "@" in base:
            # What Docker has by a digest it does not ask for again, whichever platform it has of it.
            engine.remove_image(base)
        engine.pull(base, platform=platform)
    # Where there is none, the build says why.
    if (found := engine.architecture(base)) not in ("", wanted):
        raise KindlingError(
            f"the base image {base} is for linux/{found}, not for {platform}",
            why="the registry that it is from has no other",
            remedy=f"set kindling:baseImage to an image that there is for {platform}, or "
            "kindling:platforms to those that this one is for.",
        )
