"""The images that this repository builds, where the stack's cluster has or finds them.

One list of them, with what enters each: its hash is the image's tag, so that unchanged content is an
unchanged reference and nothing rolls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pulumi

from infra.components.cluster import Cluster
from infra.drivers import debian_lock
from infra.drivers.images import BROKER_FOLDER, BROKER_IMAGE, content_hash, left_behind
from infra.errors import KindlingError
from infra.paths import REPOSITORY
from infra.resources.container_image import ContainerImage
from infra.resources.pushed_image import PushedImage
from infra.settings import PROMOTED, Settings


@dataclass(frozen=True)
class Source:
    """What an image is built from, relative to the repository.

    The Containerfile stands in `context`. `tree` is the directory whose content counts, besides the
    files that lie in `context` itself; other directories there are none of the image's business.
    """

    image: str
    context: str
    tree: str

    @property
    def containerfile(self) -> str:
        return f"{self.context}/Containerfile"

    def digest(self) -> str:
        """12 hex digits over what enters the image, and the architecture it is built for; needs no engine.

        The base is part of it: the lock file has the versions of its packages too.
        """
        context, tree = REPOSITORY / self.context, REPOSITORY / self.tree
        files = [] if tree == context else sorted(path for path in context.iterdir() if path.is_file())
        counted = [path for path in files if not left_behind(path.name)]
        words = [word for path in counted for word in (path.name, _text(path))]
        return content_hash(tree, extra=[debian_lock.architecture(), *words])


def _text(file: Path) -> str:
    """Whatever stands in it, as text that tells it from any other."""
    return file.read_bytes().decode(errors="surrogateescape")


OPERATOR_PART = "operator"
OPERATOR = Source("kindling-operator", "operator", "operator/src")
OPERANDS = "operator/images"
# Not among the operands: the operator runs consumers of a broker, wherever that is.
BROKER_PART = "broker"
BROKER = Source(BROKER_IMAGE, BROKER_FOLDER, BROKER_FOLDER)


# A folder that no kind is said to run is built for every stack.
RUN_BY = {"memcached": "Memcached", "postgres": "Postgresql", "pulsar-consumer": "PulsarConsumer"}


def operands(kinds: Sequence[str] = ()) -> dict[str, Source]:
    """What the operator runs for these kinds, for all where none is named: each folder of operator/images
    that holds a Containerfile, by its name.
    """
    names = sorted(path.parent.name for path in (REPOSITORY / OPERANDS).glob("*/Containerfile"))
    if kinds:
        names = [name for name in names if RUN_BY.get(name) in (None, *kinds)]
    return {name: Source(f"kindling-{name}", f"{OPERANDS}/{name}", f"{OPERANDS}/{name}") for name in names}


def wanted(settings: Settings) -> dict[str, Source]:
    """What the stack runs, by the name that it has in settings and outputs."""
    broker = {BROKER_PART: BROKER} if settings.broker.enabled else {}
    return {OPERATOR_PART: OPERATOR, **operands(settings.operator.kinds), **broker}


def not_promoted(settings: Settings) -> KindlingError | None:
    """What a stack of promoted images has to say when it lacks one."""
    missing = [part for part in wanted(settings) if part not in settings.images.promoted]
    if settings.images.source != PROMOTED or not missing:
        return None
    return KindlingError(
        f"kindling:images of stack `{settings.stack}` lacks {', '.join(missing)}",
        why="kindling:imageSource is `promoted`: it runs what another stack runs, and builds nothing",
        remedy=f"python3 -m infra promote staging {settings.stack}",
    )


class Images(pulumi.ComponentResource):
    """References to our images by part; one that is built here is known once it can be pulled or is there.

    `broker` is None for a stack without one, which then need not have the image.
    """

    all: dict[str, pulumi.Output[str]]
    operator: pulumi.Output[str]
    operands: dict[str, pulumi.Output[str]]
    broker: pulumi.Output[str] | None

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
        references = {part: self._reference(part, source) for part, source in wanted(settings).items()}
        self.all = dict(references)
        self.broker = references.pop(BROKER_PART, None)
        self.operator = references.pop(OPERATOR_PART)
        self.operands = references
        self.register_outputs(self.all)

    def _reference(self, part: str, source: Source) -> pulumi.Output[str]:
        inside = pulumi.ResourceOptions(parent=self)
        images = self._settings.images
        if not self._settings.cluster.is_existing:
            return ContainerImage(
                f"{self._name}-{part}",
                image=source.image,
                context=source.context,
                containerfile=source.containerfile,
                digest=source.digest(),
                cluster_name=self._settings.cluster.name,
                cluster_id=self._cluster.incarnation,
                opts=inside,
            ).ref
        if images.source == PROMOTED:
            # A preview before the first promotion shows all but this; see `not_promoted`.
            return pulumi.Output.from_input(images.promoted.get(part, f"{source.image}:not-promoted-yet"))
        return PushedImage(
            f"{self._name}-{part}",
            image=source.image,
            context=source.context,
            containerfile=source.containerfile,
            digest=source.digest(),
            repository=f"{images.registry}/{source.image}",
            insecure=images.insecure,
            opts=inside,
        ).ref
