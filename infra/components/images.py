"""The images that this repository builds, in the stack's cluster.

One list of them, with what enters each: its hash is the image's tag, so that unchanged content is an
unchanged reference and nothing rolls.
"""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from infra.components.cluster import Cluster
from infra.drivers.images import BROKER_FOLDER, BROKER_IMAGE, content_hash
from infra.paths import REPOSITORY
from infra.resources.container_image import ContainerImage
from infra.settings import ClusterSettings


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
        """12 hex digits over what enters the image; needs no engine."""
        context, tree = REPOSITORY / self.context, REPOSITORY / self.tree
        files = [] if tree == context else sorted(path for path in context.iterdir() if path.is_file())
        words = [word for path in files for word in (path.name, path.read_text(encoding="utf-8"))]
        return content_hash(tree, extra=words)


OPERATOR = Source("kindling-operator", "operator", "operator/src")
OPERANDS = "operator/images"
# Not among the operands: the operator runs consumers of a broker, wherever that is.
BROKER = Source(BROKER_IMAGE, BROKER_FOLDER, BROKER_FOLDER)


def operands() -> dict[str, Source]:
    """What the operator runs: each folder of operator/images that holds a Containerfile, by its name."""
    names = sorted(path.parent.name for path in (REPOSITORY / OPERANDS).glob("*/Containerfile"))
    return {name: Source(f"kindling-{name}", f"{OPERANDS}/{name}", f"{OPERANDS}/{name}") for name in names}


class Images(pulumi.ComponentResource):
    """References to our images, each usable once every node has it; `operands` by folder.

    `broker` is None for a stack without one, which then need not have the image.
    """

    operator: pulumi.Output[str]
    operands: dict[str, pulumi.Output[str]]
    broker: pulumi.Output[str] | None

    def __init__(
        self,
        name: str,
        *,
        cluster: Cluster,
        settings: ClusterSettings,
        with_broker: bool,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("kindling:components:Images", name, {}, opts)

        def reference(part: str, source: Source) -> pulumi.Output[str]:
            return ContainerImage(
                f"{name}-{part}",
                image=source.image,
                context=source.context,
                containerfile=source.containerfile,
                digest=source.digest(),
                cluster_name=settings.name,
                cluster_id=cluster.incarnation,
                opts=pulumi.ResourceOptions(parent=self),
            ).ref

        self.operator = reference("operator", OPERATOR)
        self.operands = {part: reference(part, source) for part, source in operands().items()}
        self.broker = reference("broker", BROKER) if with_broker else None
        self.register_outputs({"operator": self.operator, **self.operands})
