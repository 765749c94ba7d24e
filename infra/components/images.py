"""The images that this repository builds, where the stack's cluster has or finds them.

One list of them, with what enters each: its hash is the image's tag, so that unchanged content is an
unchanged reference and nothing rolls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pulumi

from infra import image_references
from infra.components.cluster import Cluster
from infra.drivers import image_tools, images, platforms
from infra.drivers.base_image import BASE_IMAGE
from infra.drivers.images import (
    BROKER_FOLDER,
    BROKER_IMAGE,
    OBJECT_STORE_FOLDER,
    OBJECT_STORE_IMAGE,
    OBJECT_STORE_PART,
    OPERANDS,
    OPERATOR_IMAGE,
    content_hash,
)
from infra.errors import KindlingError
from infra.paths import REPOSITORY, left_behind
from infra.resources.container_image import ContainerImage
from infra.resources.pushed_image import PushedImage
from infra.settings import PROMOTED, Settings


@dataclass(frozen=True)
class ImageSource:
    """What an image is built from, relative to the repository.

    The Containerfile is in `context`. `tree` is the directory whose content counts, besides the
    files that lie in `context` itself; other directories there are none of the image's business.
    """

    image: str
    context: str
    tree: str

    @property
    def containerfile(self) -> str:
        return f"{self.context}/Containerfile"

    def digest(self, on: Sequence[str] = (), *, base: str = BASE_IMAGE) -> str:
        """12 hex digits over what enters the image, and the platforms it is built for; needs no engine.

        Without a platform it is for this machine's. The base is part of it: the lock file has the versions
        of its packages too, and another base than Kindling's own counts by its reference. A program of the
        toolchain counts by the name of its build.
        """
        context, tree = REPOSITORY / self.context, REPOSITORY / self.tree
        files = [] if tree == context else sorted(path for path in context.iterdir() if path.is_file())
        counted = [path for path in files if not left_behind(path.name)]
        names_and_texts = [word for path in counted for word in (path.name, _text(path))]
        tools = image_tools.counted(context)
        built_on = [] if base == BASE_IMAGE or tools else [base]
        counted_on = platforms.counted(on or [platforms.own()])
        return content_hash(tree, extra=[*counted_on, *built_on, *tools, *names_and_texts])


def _text(file: Path) -> str:
    """The whole content as text that differs from that of any other."""
    return file.read_bytes().decode(errors="surrogateescape")


OPERATOR_PART = "operator"
OPERATOR = ImageSource(OPERATOR_IMAGE, "operator", "operator/src")
# Not among the operands: the operator runs consumers of a broker, wherever that is.
BROKER_PART = "broker"
BROKER = ImageSource(BROKER_IMAGE, BROKER_FOLDER, BROKER_FOLDER)
OBJECT_STORE = ImageSource(OBJECT_STORE_IMAGE, OBJECT_STORE_FOLDER, OBJECT_STORE_FOLDER)


def operands(kinds: Sequence[str] = ()) -> dict[str, ImageSource]:
    """What the operator runs for these kinds, for all where none is named: each folder of operator/images
    that holds a Containerfile, by its name.
    """
    return {
        name: ImageSource(f"kindling-{name}", f"{OPERANDS}/{name}", f"{OPERANDS}/{name}")
        for name in images.operands()
        if image_references.is_run_by(name, kinds)
    }


def required_images(settings: Settings) -> dict[str, ImageSource]:
    """What the stack runs, by the name that it has in settings and outputs."""
    broker = {BROKER_PART: BROKER} if settings.broker.enabled else {}
    store = {OBJECT_STORE_PART: OBJECT_STORE} if settings.object_store.enabled else {}
    return {OPERATOR_PART: OPERATOR, **operands(settings.operator.kinds), **broker, **store}


def missing_promotions(settings: Settings) -> KindlingError | None:
    """What a stack of promoted images has to say when it lacks one."""
    missing = [part for part in required_images(settings) if part not in settings.images.given]
    if settings.images.source != PROMOTED or not missing:
        return None
    return KindlingError(
        f"the release of stack `{settings.stack}` lacks {', '.join(missing)}",
        why="kindling:imageSource is `promoted`: it runs what another stack runs, and builds nothing",
        remedy=f"python3 -m infra promote staging {settings.stack}",
    )


class Images(pulumi.ComponentResource):
    """References to our images by part; one that is built here is known once it can be pulled or is there.

    `broker` and `object_store` are None for a stack without one, which then need not have the image.
    """

    all: dict[str, pulumi.Output[str]]
    operator: pulumi.Output[str]
    operands: dict[str, pulumi.Output[str]]
    broker: pulumi.Output[str] | None
    object_store: pulumi.Output[str] | None

    def __init__(
        self,
        name: str,
        *,
        cluster: Cluster,
        settings: Settings,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("kindling:components:Images", name, {}, opts)
        self._name, self._cluster, self._settings = name, cluster, settings
        references = {
            part: self._reference(part, source) for part, source in required_images(settings).items()
        }
        self.all = dict(references)
        self.broker = references.pop(BROKER_PART, None)
        self.object_store = references.pop(OBJECT_STORE_PART, None)
        self.operator = references.pop(OPERATOR_PART)
        self.operands = references
        self.register_outputs(self.all)

    def _reference(self, part: str, source: ImageSource) -> pulumi.Output[str]:
        inside = pulumi.ResourceOptions(parent=self)
        images = self._settings.images
        if part in images.given:
            return pulumi.Output.from_input(images.given[part])
        # Kindling's own base is made where no registry has it; another is for the engine to find.
        build_args = {} if images.base == BASE_IMAGE else {"BASE": images.base}
        if not self._settings.cluster.is_existing:
            return ContainerImage(
                f"{self._name}-{part}",
                image=source.image,
                context=source.context,
                containerfile=source.containerfile,
                digest=source.digest(base=images.base),
                build_args=build_args,
                cluster_name=self._settings.cluster.name,
                cluster_id=self._cluster.incarnation,
                opts=inside,
            ).ref
        if images.source == PROMOTED:
            # A preview before the first promotion shows all but this; see `missing_promotions`.
            return pulumi.Output.from_input(f"{source.image}:not-promoted-yet")
        return PushedImage(
            f"{self._name}-{part}",
            image=source.image,
            context=source.context,
            containerfile=source.containerfile,
            digest=source.digest(images.platforms, base=images.base),
            platforms={each: source.digest([each], base=images.base) for each in images.platforms},
            build_args=build_args,
            repository=f"{images.registry}/{source.image}",
            insecure=images.insecure,
            opts=inside,
        ).ref
