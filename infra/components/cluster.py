"""The cluster of a stack and Pulumi's way into it.

Apart from what runs inside, because everything inside is made through this provider and dies with it.
"""

from __future__ import annotations

from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from infra.resources.kind_cluster import KindCluster
from infra.settings import ClusterSettings


class Cluster(pulumi.ComponentResource):
    """A kind cluster of the stack's own, and the one Kubernetes provider of the program.

    `resource` is what everything inside is deleted with; `incarnation` is its id, new whenever the
    cluster is made again.
    """

    resource: KindCluster
    provider: kubernetes.Provider
    incarnation: pulumi.Output[str]
    kubeconfig: pulumi.Output[str]

    def __init__(
        self, name: str, *, settings: ClusterSettings, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("kindling:components:Cluster", name, {}, opts)
        inside = pulumi.ResourceOptions(parent=self)
        self.resource = KindCluster(
            name,
            cluster_name=settings.name,
            node_image=settings.node_image,
            config=kind_config(settings),
            opts=inside,
        )
        self.incarnation = self.resource.id
        self.kubeconfig = self.resource.kubeconfig
        # By the identifier the provider knows a changed kubeconfig from another cluster: only the
        # latter makes what is inside anew.
        self.provider = kubernetes.Provider(
            name, kubeconfig=self.kubeconfig, cluster_identifier=self.incarnation, opts=inside
        )
        self.register_outputs({"incarnation": self.incarnation, "kubeconfig": self.kubeconfig})


def kind_config(settings: ClusterSettings) -> dict[str, Any]:
    """kind's own configuration (kind.x-k8s.io/v1alpha4) for these settings."""
    networking: dict[str, Any] = {"apiServerAddress": "127.0.0.1"}
    if settings.api_server_port:
        networking["apiServerPort"] = settings.api_server_port
    return {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "networking": networking,
        "nodes": [{"role": "control-plane"}, *({"role": "worker"} for _ in range(settings.workers))],
    }
