"""A kind cluster as a Pulumi resource. The module's path is state format: see the package.

An adapter over `infra.drivers.kind`, which knows how; here is only what Pulumi asks and when.
"""

from __future__ import annotations

import re
import secrets
from typing import Any

import pulumi
from pulumi.dynamic import (
    CheckFailure,
    CheckResult,
    CreateResult,
    DiffResult,
    ReadResult,
    Resource,
    ResourceProvider,
    UpdateResult,
)

from infra.drivers import images
from infra.drivers.kind import KindCli
from infra.errors import KindlingError
from infra.resources import host
from infra.settings import AUTO

INPUTS = ("name", "nodeImage", "config")
CREATE_SECONDS = 600.0
# kind's own rule, less the dots; the node's name adds 14 characters and is a host name, at most 63.
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,47}[a-z0-9])?")

Props = dict[str, Any]


class KindClusterProvider(ResourceProvider):
    """Every changed input makes another cluster; `nodeImage: auto` is settled when one is created."""

    serialize_as_secret_always = False

    def check(self, _olds: Props, news: Props) -> CheckResult:
        failures = []
        name, image = news.get("name"), news.get("nodeImage")
        if host.is_known(name) and not _NAME.fullmatch(str(name)):
            reason = f"`{name}` cannot name a kind cluster: a-z, 0-9 and -, at most 49 characters"
            failures.append(CheckFailure("name", reason))
        if not image:
            failures.append(CheckFailure("nodeImage", f"is empty: name an image, or `{AUTO}`"))
        return CheckResult(news, failures)

    def diff(self, _id: str, olds: Props, news: Props) -> DiffResult:
        # Looks at the cluster too: a plain `up` reads nothing, and the objects of a cluster removed by
        # hand cannot be refreshed, so this is where its absence must show.
        replaces = [key for key in INPUTS if olds.get(key) != news.get(key)]
        if not replaces and (kind := host.kind_readonly()) is not None:
            replaces = [] if _stands(kind, olds) else ["incarnation"]
        # Never deleted first: the engine would then delete through the API, one by one, all that goes
        # with the cluster (`deleted_with` does not hold there). `create` takes the old one's place.
        return DiffResult(changes=bool(replaces), replaces=replaces, delete_before_replace=False)

    def create(self, props: Props) -> CreateResult:
        kind, name, image = host.kind(), props["name"], props["nodeImage"]
        config = host.whole_numbers(props["config"])
        if image == AUTO:
            workers = sum(node.get("role") == "worker" for node in config.get("nodes", ()))
            image = images.ensure_node_image(kind.engine, progress=host.progress(), workers=workers)
        incarnation = secrets.token_hex(4)
        kind.create(
            name=name, incarnation=incarnation, node_image=image, config=config, timeout=CREATE_SECONDS
        )
        computed = {
            "incarnation": incarnation,
            "resolvedNodeImage": image,
            "kubeconfig": kind.kubeconfig(name),
        }
        return CreateResult(f"{name}-{incarnation}", {**_inputs(props), **computed})

    def read(self, id_: str, props: Props) -> ReadResult:
        kind = host.kind()
        if not _stands(kind, props):
            return ReadResult("", {})
        return ReadResult(id_, {**props, "kubeconfig": kind.kubeconfig(props["name"])})

    def update(self, _id: str, olds: Props, news: Props) -> UpdateResult:
        # No input can be changed in place; what was computed must be carried on or the state loses it.
        return UpdateResult({**olds, **_inputs(news)})

    def delete(self, _id: str, props: Props) -> None:
        kind, name = host.kind(), props["name"]
        # Another incarnation is the replacement of this one, which is gone already.
        if kind.incarnation(name) == props["incarnation"]:
            kind.delete(name)


class KindCluster(Resource, module="kind", name="Cluster"):
    """A kind cluster and the way into it.

    `config` is kind's own configuration (kind.x-k8s.io/v1alpha4), `node_image` a reference or 'auto'.
    The id is `NAME-<8 hex digits>`, new for each incarnation: what depends on it is made again when the
    cluster is. `kubeconfig` is a secret.
    """

    cluster_name: pulumi.Output[str]
    incarnation: pulumi.Output[str]
    kubeconfig: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        *,
        cluster_name: str,
        node_image: str,
        config: dict[str, Any],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        props: Props = {
            "name": cluster_name,
            "nodeImage": node_image,
            "config": config,
            # Named so that they are known to be unknown before the cluster exists.
            "incarnation": None,
            "resolvedNodeImage": None,
            "kubeconfig": None,
        }
        secret = pulumi.ResourceOptions(additional_secret_outputs=["kubeconfig"])
        super().__init__(KindClusterProvider(), name, props, pulumi.ResourceOptions.merge(opts, secret))


def _inputs(props: Props) -> Props:
    return {key: props[key] for key in INPUTS}


def _stands(kind: KindCli, props: Props) -> bool:
    """Whether the cluster of this state is there; raises KindlingError where it is but does not run."""
    name = props["name"]
    if kind.incarnation(name) != props["incarnation"]:
        return False
    if not kind.running(name):
        raise KindlingError(
            f"the cluster `{name}` is stopped",
            why="its node containers exist but do not run, as after a restart of the machine",
            remedy=f"start the containers named `{name}-...` with your engine, or remove them.",
        )
    return True
