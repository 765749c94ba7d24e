"""The composition of a stack: cluster, images, and on them definitions, operator, broker, samples.

The one place that knows the order; the components know only what they are given.
"""

from __future__ import annotations

from dataclasses import asdict

import pulumi

from infra.components import broker
from infra.components.broker import Broker
from infra.components.cluster import Cluster
from infra.components.crds import Crds
from infra.components.images import Images
from infra.components.operator import NAMESPACE, Operator
from infra.components.samples import Samples
from infra.settings import Settings


class Platform(pulumi.ComponentResource):
    """Everything inside the cluster.

    One component, so that `deleted_with` is said once: with the cluster gone there is nothing to delete
    from it, and no finalizer to wait for.
    """

    operator: Operator
    broker: Broker | None
    samples: Samples | None

    def __init__(self, name: str, *, cluster: Cluster, images: Images, settings: Settings) -> None:
        opts = pulumi.ResourceOptions(
            parent=cluster, providers=[cluster.provider], deleted_with=cluster.resource
        )
        super().__init__("kindling:components:Platform", name, {}, opts)
        crds = Crds("crds", opts=pulumi.ResourceOptions(parent=self))
        self.operator = Operator(
            "operator",
            images=images,
            settings=settings.operator,
            local_broker=f"{broker.HOST}:{broker.PORT}" if settings.broker.enabled else "",
            opts=pulumi.ResourceOptions(parent=self, depends_on=[crds]),
        )
        self.broker = None
        if images.broker is not None:
            # Beside the operator, not after it: both take their time to start.
            self.broker = Broker("broker", image=images.broker, opts=pulumi.ResourceOptions(parent=self))
        self.samples = None
        if settings.samples.enabled:
            self.samples = Samples(
                "samples",
                broker=self.broker,
                opts=pulumi.ResourceOptions(parent=self, depends_on=[self.operator]),
            )
        self.register_outputs({})


def build(settings: Settings) -> None:
    """Declare the stack's resources and export what its users need."""
    cluster = Cluster("cluster", settings=settings.cluster)
    images = Images("images", cluster=cluster, settings=settings.cluster, with_broker=settings.broker.enabled)
    platform = Platform("platform", cluster=cluster, images=images, settings=settings)

    pulumi.export("clusterName", settings.cluster.name)
    pulumi.export("context", settings.cluster.context)
    pulumi.export("kubeconfig", pulumi.Output.secret(cluster.kubeconfig))
    pulumi.export("namespace", NAMESPACE)
    pulumi.export("operatorImage", platform.operator.image)
    if platform.broker is not None:
        pulumi.export("broker", platform.broker.address)
    connections = platform.samples.connections if platform.samples else []
    pulumi.export("samples", [asdict(connection) for connection in connections])
