"""The settings of images: where they come from, what they are built on and for, how nodes get at them.

A part of `settings` that has rules of its own about which of its keys mean something together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from infra import release as releases
from infra.drivers.base_image import BASE_IMAGE
from infra.release import Release
from infra.settings import validators
from infra.settings.config_reader import ConfigReader

BUILD, PROMOTED = IMAGE_SOURCES = ("build", "promoted")
# What the locks of the images' packages are for.
PLATFORMS = ("linux/amd64", "linux/arm64")
# What the images are called, in settings and outputs.
NAMES = (
    "operator",
    "postgres",
    "postgres-init",
    "postgres-backup",
    "memcached",
    "exporters",
    "pulsar-consumer",
    "broker",
    "object-store",
)

# What means something for an existing cluster, or for images of one source, alone.
_OF_EXISTING = ("registry", "insecureRegistry", "imageSource", "platforms")
_OF_BUILD = ("registry", "insecureRegistry", "platforms", "baseImage", "images")


@dataclass(frozen=True)
class ImageSettings:
    """Where the images come from.

    Those of `given`, by name, are taken as they are: all of a `promoted` stack's, which has them of its
    `release`, and of another what is mirrored or built elsewhere. The rest is built here, on `base`: for
    the nodes of a kind cluster, or for `platforms` and pushed below `registry` (HOST[:PORT]/PREFIX).
    `insecure` is a registry without TLS. `pull_secrets` are Secrets by which nodes pull them, of the
    namespace that each Pod is in.
    """

    source: str = BUILD
    registry: str = ""
    insecure: bool = False
    given: Mapping[str, str] = field(default_factory=dict)
    platforms: tuple[str, ...] = PLATFORMS[:1]
    base: str = BASE_IMAGE
    pull_secrets: tuple[str, ...] = ()
    release: Release | None = None


def read(source: ConfigReader, *, stack: str, existing: bool) -> ImageSettings:
    """Raises KindlingError for the first that is wrong, or means nothing beside the others."""
    secrets = source.parsed("imagePullSecrets", validators.secrets, "a list as [{name: SECRET}], each once")
    if not existing:
        source.refuse(_OF_EXISTING, where="kindling:cluster is `kind`: its images are put on its nodes")
        return ImageSettings(given=_given(source), base=_base(source), pull_secrets=secrets)
    if source.one_of("imageSource", IMAGE_SOURCES) == PROMOTED:
        source.refuse(_OF_BUILD, where="kindling:imageSource is `promoted`: nothing is pushed from here")
        release = releases.read(stack)
        given = release.images if release is not None else {}
        return ImageSettings(PROMOTED, given=given, release=release, pull_secrets=secrets)
    return ImageSettings(
        BUILD,
        registry=source.parsed("registry", validators.registry, "HOST[:PORT]/PREFIX, in small letters"),
        insecure=source.enabled("insecureRegistry"),
        given=_given(source),
        platforms=source.parsed(
            "platforms",
            lambda text: validators.names(text, PLATFORMS) or None,
            f"a list of {' and '.join(PLATFORMS)}, at least one, each once",
        ),
        base=_base(source),
        pull_secrets=secrets,
    )


def _base(source: ConfigReader) -> str:
    return source.parsed(
        "baseImage", validators.reference, "an image of Debian trixie, with a tag or a digest"
    )


def _given(source: ConfigReader) -> Mapping[str, str]:
    allowed = f"images by name ({', '.join(NAMES)}), each with a tag other than latest, or a digest"
    return source.parsed("images", lambda text: validators.given(text, NAMES), allowed)
