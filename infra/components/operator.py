"""The operator in its namespace: who it is, what it may do, how it runs.

The names are fixed, because users, tests and documents name them; so nothing here is auto-named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import pulumi
from pulumi_kubernetes import apps, core, meta, networking, policy

from infra.components import operator_pod, permissions, pod_security
from infra.project import OPERATOR as NAME
from infra.project import OPERATOR_NAMESPACE as NAMESPACE
from infra.settings import OperatorSettings

SELECTOR = {"app.kubernetes.io/name": "kindling", "app.kubernetes.io/component": "operator"}


class References(Protocol):
    """The images that it runs, by reference: its own, and each operand's by the folder of operator/images."""

    @property
    def operator(self) -> pulumi.Output[str]: ...

    @property
    def operands(self) -> Mapping[str, pulumi.Output[str]]: ...


class Operator(pulumi.ComponentResource):
    """Namespace, identity, permissions, Deployment and what surrounds it; `image` is what runs.

    `local_broker`, HOST:PORT, is the Pulsar broker of consumers that look for theirs at localhost. By
    `pull_secrets` nodes pull the images, each of the namespace where the Pod is.
    """

    namespace: pulumi.Output[str]
    image: pulumi.Output[str]
    deployment: apps.v1.Deployment

    def __init__(
        self,
        name: str,
        *,
        images: References,
        settings: OperatorSettings,
        local_broker: str = "",
        pull_secrets: Sequence[str] = (),
        protect: bool = False,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("kindling:components:Operator", name, {}, opts)
        self._name = name
        self._inside = pulumi.ResourceOptions(parent=self)
        namespace = core.v1.Namespace(
            f"{name}-namespace",
            metadata=meta.v1.ObjectMetaArgs(name=NAMESPACE, labels=pod_security.namespace_labels()),
            opts=pulumi.ResourceOptions(parent=self, protect=protect),
        )
        self.namespace = namespace.metadata.apply(_name_of)
        account = core.v1.ServiceAccount(f"{name}-account", metadata=self._metadata(), opts=self._inside)
        granted = permissions.grant(
            name,
            called=NAME,
            labels=SELECTOR,
            namespace=self.namespace,
            account=account.metadata.apply(_name_of),
            settings=settings,
            opts=self._inside,
        )
        self._supporting_objects()
        self.image = images.operator
        self.deployment = apps.v1.Deployment(
            f"{name}-deployment",
            metadata=self._metadata(),
            spec=apps.v1.DeploymentSpecArgs(
                replicas=settings.replicas,
                selector=meta.v1.LabelSelectorArgs(match_labels=SELECTOR),
                # All new Pods at once, no old one before a new one is ready: a change is live within
                # one start, and the Lease sees to it that one works at a time.
                strategy=apps.v1.DeploymentStrategyArgs(
                    type="RollingUpdate",
                    rolling_update=apps.v1.RollingUpdateDeploymentArgs(max_surge="100%", max_unavailable=0),
                ),
                template=operator_pod.template(
                    labels=SELECTOR,
                    service_account=account.metadata.apply(_name_of),
                    image=images.operator,
                    variables={
                        **{_variable(part): ref for part, ref in images.operands.items()},
                        **({"KINDLING_LOCAL_BROKER": local_broker} if local_broker else {}),
                        **({"KINDLING_PULL_SECRETS": ",".join(pull_secrets)} if pull_secrets else {}),
                    },
                    settings=settings,
                    pull_secrets=pull_secrets,
                ),
            ),
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=granted,
                custom_timeouts=pulumi.CustomTimeouts(create="5m", update="5m"),
            ),
        )
        # No `register_outputs`: what a component that comes after others registers is an error of a
        # `refresh --run-program`, as of Pulumi 3.259, once one of the others' resources is gone by hand.

    def _metadata(self) -> meta.v1.ObjectMetaArgs:
        return meta.v1.ObjectMetaArgs(name=NAME, namespace=self.namespace, labels=SELECTOR)

    def _supporting_objects(self) -> None:
        """Where its metrics are, who may reach it, and how many may go at once."""
        core.v1.Service(
            f"{self._name}-service",
            # Whether there are Pods behind it is the Deployment's affair, and waited for there.
            metadata=meta.v1.ObjectMetaArgs(
                name=NAME,
                namespace=self.namespace,
                labels=SELECTOR,
                annotations={"pulumi.com/skipAwait": "true"},
            ),
            spec=core.v1.ServiceSpecArgs(
                selector=SELECTOR,
                ports=[core.v1.ServicePortArgs(name="http", port=operator_pod.HTTP_PORT, target_port="http")],
            ),
            opts=self._inside,
        )
        policy.v1.PodDisruptionBudget(
            f"{self._name}-budget",
            metadata=self._metadata(),
            spec=policy.v1.PodDisruptionBudgetSpecArgs(
                selector=meta.v1.LabelSelectorArgs(match_labels=SELECTOR), max_unavailable=1
            ),
            opts=self._inside,
        )
        networking.v1.NetworkPolicy(
            f"{self._name}-policy",
            metadata=self._metadata(),
            spec=networking.v1.NetworkPolicySpecArgs(
                pod_selector=meta.v1.LabelSelectorArgs(match_labels=SELECTOR),
                # Metrics and probes from anywhere in the cluster, nothing else. Outwards it must reach
                # the API server and every operand, wherever those are.
                policy_types=["Ingress"],
                ingress=[
                    networking.v1.NetworkPolicyIngressRuleArgs(
                        ports=[
                            networking.v1.NetworkPolicyPortArgs(port=operator_pod.HTTP_PORT, protocol="TCP")
                        ]
                    )
                ],
            ),
            opts=self._inside,
        )


def _variable(part: str) -> str:
    """The name by which the operator asks for the image of a folder under operator/images."""
    return f"KINDLING_IMAGE_{part.upper().replace('-', '_')}"


def _name_of(metadata: meta.v1.outputs.ObjectMeta) -> str:
    return str(metadata.name)
