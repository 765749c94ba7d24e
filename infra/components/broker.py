"""A Pulsar broker in the cluster, for the samples and tests of PulsarConsumer.

No part of the operator, whose users have a broker of their own: one process, no authentication, and data
that lives as long as that process.
"""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
from pulumi_kubernetes import apps, core, meta, networking

from infra.components import pod_security

NAME = "pulsar"
NAMESPACE = "pulsar"
HOST = f"{NAME}.{NAMESPACE}.svc"
PORT = 6650
ADMIN_PORT = 8080
ADDRESS = f"pulsar://{HOST}:{PORT}"
SELECTOR = {"app.kubernetes.io/name": "pulsar", "app.kubernetes.io/component": "broker"}
# The image's user, which is that of Pulsar's own image.
USER = 10000
PORTS = {"pulsar": PORT, "http": ADMIN_PORT}
# A message sent to itself and received again; the other asks only whether the start is over.
HEALTH = "/admin/v2/brokers/health"
READY = "/admin/v2/brokers/ready"


class Broker(pulumi.ComponentResource):
    """One standalone broker; whoever depends on it starts when a message has gone through it."""

    address: str

    def __init__(
        self,
        name: str,
        *,
        image: pulumi.Input[str],
        pull_secrets: Sequence[str] = (),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("kindling:components:Broker", name, {}, opts)
        inside = pulumi.ResourceOptions(parent=self)
        namespace = core.v1.Namespace(
            f"{name}-namespace",
            metadata=meta.v1.ObjectMetaArgs(name=NAMESPACE, labels=pod_security.namespace_labels()),
            opts=inside,
        ).metadata.apply(lambda found: str(found.name))
        selector = meta.v1.LabelSelectorArgs(match_labels=SELECTOR)
        apps.v1.Deployment(
            f"{name}-deployment",
            metadata=meta.v1.ObjectMetaArgs(name=NAME, namespace=namespace, labels=SELECTOR),
            spec=apps.v1.DeploymentSpecArgs(
                replicas=1,
                selector=selector,
                # Two at a time would be two brokers that know nothing of each other, behind one name.
                strategy=apps.v1.DeploymentStrategyArgs(type="Recreate"),
                template=_template(image, pull_secrets),
            ),
            opts=pulumi.ResourceOptions(
                parent=self, custom_timeouts=pulumi.CustomTimeouts(create="5m", update="5m")
            ),
        )
        core.v1.Service(
            f"{name}-service",
            # Whether there are Pods behind it is the Deployment's affair, and waited for there.
            metadata=meta.v1.ObjectMetaArgs(
                name=NAME,
                namespace=namespace,
                labels=SELECTOR,
                annotations={"pulumi.com/skipAwait": "true"},
            ),
            spec=core.v1.ServiceSpecArgs(
                selector=SELECTOR,
                ports=[
                    core.v1.ServicePortArgs(name=port, port=number, target_port=port)
                    for port, number in PORTS.items()
                ],
            ),
            opts=inside,
        )
        networking.v1.NetworkPolicy(
            f"{name}-policy",
            metadata=meta.v1.ObjectMetaArgs(name=NAME, namespace=namespace, labels=SELECTOR),
            spec=networking.v1.NetworkPolicySpecArgs(
                pod_selector=selector,
                # Nothing outwards: its parts find each other inside the Pod.
                policy_types=["Ingress", "Egress"],
                ingress=[
                    networking.v1.NetworkPolicyIngressRuleArgs(
                        from_=[
                            networking.v1.NetworkPolicyPeerArgs(
                                namespace_selector=meta.v1.LabelSelectorArgs()
                            )
                        ],
                        ports=[
                            networking.v1.NetworkPolicyPortArgs(port=number, protocol="TCP")
                            for number in PORTS.values()
                        ],
                    )
                ],
            ),
            opts=inside,
        )
        self.address = ADDRESS
        self.register_outputs({"address": ADDRESS})


def _template(image: pulumi.Input[str], pull_secrets: Sequence[str]) -> core.v1.PodTemplateSpecArgs:
    return core.v1.PodTemplateSpecArgs(
        metadata=meta.v1.ObjectMetaArgs(labels=SELECTOR),
        spec=core.v1.PodSpecArgs(
            automount_service_account_token=False,
            enable_service_links=False,
            # It stops within 10 s, busy or not.
            termination_grace_period_seconds=30,
            # It calls itself by the name that it gives clients, and before the Service leads to it.
            host_aliases=[core.v1.HostAliasArgs(ip="127.0.0.1", hostnames=[HOST])],
            security_context=pod_security.pod(USER),
            containers=[_container(image)],
            image_pull_secrets=[core.v1.LocalObjectReferenceArgs(name=name) for name in pull_secrets] or None,
            volumes=[_scratch("data", "4Gi"), _scratch("tmp", "512Mi")],
        ),
    )


def _container(image: pulumi.Input[str]) -> core.v1.ContainerArgs:
    return core.v1.ContainerArgs(
        name="pulsar",
        image=image,
        # It is on the nodes already, under a tag that means one content.
        image_pull_policy="IfNotPresent",
        args=[f"--advertised-address={HOST}"],
        ports=[core.v1.ContainerPortArgs(name=port, container_port=number) for port, number in PORTS.items()],
        # Asked often while somebody waits, then seldom: each answer costs the broker a message.
        startup_probe=_probe(HEALTH, period=1, failures=180),
        readiness_probe=_probe(READY, period=5, failures=2),
        liveness_probe=_probe(HEALTH, period=30, failures=3),
        # Measured: 0.3 GiB at rest, 0.45 with 200,000 messages of 1 kB in 4 s.
        resources=core.v1.ResourceRequirementsArgs(
            requests={"cpu": "100m", "memory": "384Mi"}, limits={"cpu": "2", "memory": "768Mi"}
        ),
        security_context=pod_security.container(),
        volume_mounts=[
            core.v1.VolumeMountArgs(name="data", mount_path="/pulsar"),
            # Where Java unpacks its native libraries.
            core.v1.VolumeMountArgs(name="tmp", mount_path="/tmp"),
        ],
        # Pulumi prints it when the Deployment does not get ready.
        termination_message_policy="FallbackToLogsOnError",
    )


def _scratch(name: str, limit: str) -> core.v1.VolumeArgs:
    return core.v1.VolumeArgs(name=name, empty_dir=core.v1.EmptyDirVolumeSourceArgs(size_limit=limit))


def _probe(path: str, *, period: int, failures: int) -> core.v1.ProbeArgs:
    return core.v1.ProbeArgs(
        http_get=core.v1.HTTPGetActionArgs(path=path, port="http"),
        period_seconds=period,
        failure_threshold=failures,
        timeout_seconds=10,
    )
