"""The composition of a stack: cluster, images, and on them definitions, operator, broker, samples.

The one place that knows the order; the components know only what they are given.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pulumi

from infra import policy_enforcement, release
from infra.components import broker, samples
from infra.components.broker import Broker
from infra.components.cluster import Cluster, check_environment
from infra.components.images import Images, missing_promotions
from infra.components.installation import install
from infra.components.object_store import ObjectStore
from infra.components.operator import Operator
from infra.components.samples import Samples
from infra.ignore_changes import IgnoreChanges
from infra.project import OPERATOR_NAMESPACE
from infra.settings import Settings


class Platform(pulumi.ComponentResource):
    """Everything inside the cluster.

    One component, so that `deleted_with` is said once: with a cluster of our own gone there is nothing to
    delete from it, and no finalizer to wait for.
    """

    operator: Operator
    broker: Broker | None
    object_store: ObjectStore | None
    samples: Samples | None

    def __init__(self, name: str, *, cluster: Cluster, images: Images, settings: Settings) -> None:
        opts = pulumi.ResourceOptions(
            parent=cluster, providers=[cluster.provider], deleted_with=cluster.deleted_with
        )
        super().__init__("kindling:components:Platform", name, {}, opts)
        # What holds data, or takes it along when it goes; the children inherit it.
        protect = settings.protect
        self.operator = install(
            parent=self,
            images=images,
            settings=settings.operator,
            local_broker=f"{broker.HOST}:{broker.PORT}" if settings.broker.enabled else "",
            pull_secrets=settings.images.pull_secrets,
            protect=protect,
            policy=protect,
        )
        self.broker = None
        if images.broker is not None:
            # Beside the operator, not after it: both take their time to start.
            self.broker = Broker(
                "broker",
                image=images.broker,
                pull_secrets=settings.images.pull_secrets,
                opts=pulumi.ResourceOptions(parent=self),
            )
        self.object_store = None
        if images.object_store is not None:
            self.object_store = ObjectStore(
                "object-store",
                image=images.object_store,
                users=samples.NAMESPACE,
                pull_secrets=settings.images.pull_secrets,
                opts=pulumi.ResourceOptions(parent=self, protect=protect),
            )
        self.samples = None
        if settings.samples.enabled:
            self.samples = Samples(
                "samples",
                kinds=settings.operator.kinds,
                broker=self.broker,
                opts=pulumi.ResourceOptions(parent=self, depends_on=[self.operator], protect=protect),
            )
        self.register_outputs({})


def build(settings: Settings) -> None:
    """Declare the stack's resources and export what its users need."""
    policy_enforcement.enforce()
    # Before anything is declared, by `pulumi` alone too: a release's images get the definitions and rights of
    # their own commit.
    release.check(settings.stack, settings.images.release)
    with IgnoreChanges(settings.ignore_changes, stack=settings.stack).in_force():
        _declare(settings)


def _declare(settings: Settings) -> None:
    if (missing := missing_promotions(settings)) is not None:
        if not pulumi.runtime.is_dry_run():
            raise missing
        pulumi.log.warn(str(missing))
    if not pulumi.runtime.is_dry_run():
        check_environment(settings.cluster)
    cluster = Cluster("cluster", settings=settings.cluster, protect=settings.protect)
    images = Images("images", cluster=cluster, settings=settings)
    platform = Platform("platform", cluster=cluster, images=images, settings=settings)

    if cluster.kubeconfig is not None:
        pulumi.export("clusterName", settings.cluster.name)
        pulumi.export("kubeconfig", pulumi.Output.secret(cluster.kubeconfig))
    pulumi.export("context", settings.cluster.context)
    pulumi.export("namespace", OPERATOR_NAMESPACE)
    pulumi.export("operatorImage", platform.operator.image)
    pulumi.export("images", images.all)
    if settings.cluster.is_existing:
        pulumi.export("release", _release(settings))
    if platform.broker is not None:
        pulumi.export("broker", platform.broker.address)
    if platform.object_store is not None:
        store = platform.object_store
        pulumi.export("objectStore", {"endpointURL": store.endpoint, "bucket": store.bucket})
    connections = platform.samples.connections if platform.samples else []
    pulumi.export("samples", [asdict(connection) for connection in connections])


def _release(settings: Settings) -> dict[str, Any]:
    """What the stack was deployed from, as `release.of_outputs` reads it."""
    held = settings.images.release
    deployed = release.Deployed(held.commit, held.contents) if held is not None else release.deployed()
    return {**asdict(deployed), "uncommitted": list(deployed.uncommitted)}
