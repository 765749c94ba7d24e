"""Platforms that images are built for, as engines and registries call them: `linux/amd64`."""

from __future__ import annotations

from collections.abc import Sequence

from infra.drivers import debian_lock
from infra.errors import KindlingError

# By Debian's names of architectures, the emulator's.
_EMULATORS = {"amd64": "qemu-x86_64", "arm64": "qemu-aarch64"}


def own() -> str:
    """This machine's platform, which is also that of the nodes of a kind cluster."""
    return f"linux/{debian_lock.architecture()}"


def architecture(platform: str) -> str:
    """`amd64` of `linux/amd64`."""
    return platform.partition("/")[2]


def counted(platforms: Sequence[str]) -> list[str]:
    """What of them enters the tag of an image, in one order whichever they are named in."""
    return sorted(map(architecture, platforms))


def is_foreign(message: str) -> bool:
    """Whether an engine said that it cannot run a program of another architecture."""
    message = message.lower()
    return "exec format error" in message or "can neither be executed natively nor via qemu" in message


def not_for(platform: str, what: str, why: str) -> KindlingError:
    """What is said where this machine cannot run a platform's programs, which a build must."""
    emulator = _EMULATORS.get(architecture(platform), "qemu-user")
    return KindlingError(
        f"{what} cannot be built for {platform} on this machine",
        why=why,
        remedy=f"let this machine run programs of {platform} by {emulator}: on Debian and Ubuntu install the "
        "packages qemu-user-static and binfmt-support (a virtual machine of Docker Desktop or Podman has "
        "it). Or build on a machine of that platform, or leave it out of kindling:platforms.",
    )
