"""The cluster of a stack and Pulumi's way into it.

Apart from what runs inside, because everything inside is made through this provider and, in a cluster
of our own, dies with it.
"""

from __future__ import annotations

import os
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from infra import paths
from infra.drivers import cluster_context, in_cluster
from infra.errors import KindlingError
from infra.project import FORCE
from infra.resources.existing_cluster import ExistingCluster
from infra.resources.kind_cluster import KindCluster
from infra.settings import ClusterSettings


class Cluster(pulumi.ComponentResource):
    """A kind cluster of the stack's own or an existing one, and the one Kubernetes provider of the program.

    `incarnation` is its id, new whenever the cluster is another. `deleted_with` is what everything
    inside goes with, None in an existing cluster, which outlives the stack; `kubeconfig` likewise.
    """

    provider: kubernetes.Provider
    incarnation: pulumi.Output[str]
    kubeconfig: pulumi.Output[str] | None
    deleted_with: pulumi.Resource | None

    def __init__(
        self,
        name: str,
        *,
        settings: ClusterSettings,
        protect: bool = False,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("kindling:components:Cluster", name, {}, opts)
        guarded = pulumi.ResourceOptions(parent=self, protect=protect)
        # On a bare machine the provider is an older one than the SDK, which asks for its own version.
        version = os.environ.get(paths.PROVIDER_VERSION) or None
        inside = pulumi.ResourceOptions(parent=self, version=version)
        # The provider reads it for itself; the SDK would write it into the state, another change each time.
        os.environ.pop(FORCE, None)
        # By the identifier the provider knows a changed kubeconfig from another cluster: only the
        # latter creates what is inside again.
        if settings.is_existing:
            existing = ExistingCluster(name, context=settings.context, opts=guarded)
            self.incarnation, self.kubeconfig, self.deleted_with = existing.id, None, None
            # Without a kubeconfig the provider looks where kubectl does. So neither credentials nor
            # paths enter the state, new ones change nothing, and a preview can do without any. It must
            # be empty: for none, Pulumi's SDK would write the variable KUBECONFIG into the state.
            inside_pod = settings.context == cluster_context.IN_CLUSTER
            self.provider = kubernetes.Provider(
                name,
                kubeconfig=in_cluster.kubeconfig() if inside_pod else "",
                context=settings.context,
                cluster_identifier=self.incarnation,
                opts=inside,
            )
        else:
            own = KindCluster(
                name,
                cluster_name=settings.name,
                node_image=settings.node_image,
                config=kind_config(settings),
                opts=guarded,
            )
            self.incarnation, self.kubeconfig, self.deleted_with = own.id, own.kubeconfig, own
            self.provider = kubernetes.Provider(
                name, kubeconfig=self.kubeconfig, cluster_identifier=self.incarnation, opts=inside
            )
        kubeconfig = {} if self.kubeconfig is None else {"kubeconfig": self.kubeconfig}
        self.register_outputs({"incarnation": self.incarnation, **kubeconfig})


def check_environment(settings: ClusterSettings) -> None:
    """Raise `KindlingError` unless KUBECONFIG is what the stack's setting says.

    The provider is a program of its own and reads the variable; the setting could not reach it from here.
    """
    for name, value in cluster_context.env_vars(settings.kubeconfig).items():
        if os.environ.get(name) != value:
            raise KindlingError(
                f"{name} is not the file that kindling:kubeconfig names",
                why=f"`{os.environ.get(name, '')}`, not `{value}`",
                remedy=f"`python3 -m infra` sets it; for Pulumi alone, set {name} to {value}.",
            )


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
