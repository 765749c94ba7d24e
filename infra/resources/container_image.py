"""An image of ours in a kind cluster, as a Pulumi resource. The module's path is state format.

An adapter over `infra.drivers.images` and `infra.drivers.kind`: built once per content, put on every
node. The host's engine and its cache are means, so what `read` asks is the nodes.
"""

from __future__ import annotations

from typing import Any

import pulumi
from pulumi.dynamic import (
    CheckResult,
    CreateResult,
    DiffResult,
    ReadResult,
    Resource,
    ResourceProvider,
    UpdateResult,
)

from infra.drivers import images
from infra.paths import REPOSITORY
from infra.resources import host

INPUTS = ("name", "digest", "ref", "clusterName", "clusterId", "context", "containerfile", "buildArgs")

Props = dict[str, Any]


class ContainerImageProvider(ResourceProvider):
    """Other content is another image, made before the old one goes; another cluster is given the same."""

    serialize_as_secret_always = False

    def check(self, _olds: Props, news: Props) -> CheckResult:
        return CheckResult(news, host.outside_failures(news))

    def diff(self, _id: str, olds: Props, news: Props) -> DiffResult:
        # Looks at the nodes too, as the cluster does: the kubelet may collect an image nothing ran.
        changes = any(olds.get(key) != news.get(key) for key in INPUTS)
        if not changes and (kind := host.kind_readonly()) is not None:
            changes = not kind.has_image(olds["clusterName"], olds["ref"])
        replaces = ["ref"] if olds.get("ref") != news.get("ref") else []
        return DiffResult(changes=changes, replaces=replaces, delete_before_replace=False)

    def create(self, props: Props) -> CreateResult:
        _put_on_nodes(props)
        return CreateResult(props["ref"], _inputs(props))

    def read(self, id_: str, props: Props) -> ReadResult:
        if not host.kind().has_image(props["clusterName"], props["ref"]):
            return ReadResult("", {})
        return ReadResult(id_, props)

    def update(self, _id: str, _olds: Props, news: Props) -> UpdateResult:
        _put_on_nodes(news)
        return UpdateResult(_inputs(news))

    def delete(self, _id: str, props: Props) -> None:
        # The nodes' copies are the kubelet's to collect, or gone with the cluster.
        host.engine().remove_image(props["ref"])


class ContainerImage(Resource, module="containers", name="Image"):
    """An image built from a directory of this repository and loaded into a kind cluster.

    `digest` is the content's hash, computed by the program so that a preview knows the image without an
    engine. `ref`, `localhost/NAME:DIGEST`, is known before the image exists; whoever uses the output waits
    until the nodes have it. `context` and `containerfile` are relative to the repository. `cluster_id`
    changes with each incarnation, which has no images yet.
    """

    ref: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        *,
        image: str,
        context: str,
        containerfile: str,
        digest: str,
        cluster_name: pulumi.Input[str],
        cluster_id: pulumi.Input[str],
        build_args: dict[str, str] | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        props: Props = {
            "name": image,
            "digest": digest,
            "ref": f"localhost/{image}:{digest}",
            "clusterName": cluster_name,
            "clusterId": cluster_id,
            "context": context,
            "containerfile": containerfile,
            "buildArgs": build_args or {},
        }
        super().__init__(ContainerImageProvider(), name, props, opts)


def _put_on_nodes(props: Props) -> None:
    kind = host.kind()
    if kind.has_image(props["clusterName"], props["ref"]):
        return
    archive = images.build_archive(
        kind.engine,
        name=props["name"],
        tag=props["digest"],
        context=REPOSITORY / props["context"],
        containerfile=REPOSITORY / props["containerfile"],
        build_args=props["buildArgs"],
    )
    kind.load(props["clusterName"], archive)


def _inputs(props: Props) -> Props:
    return {key: props[key] for key in INPUTS}
