"""An S3 server in the cluster, for the samples and trials of Backup and Restore.

No part of the operator, whose users have a store of their own: one process on one volume, which is lost with
the cluster. It serves over TLS alone, since pgBackRest speaks S3 in no other way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pulumi
from pulumi_kubernetes import apps, core, meta, networking

from infra.components import pod_security
from infra.resources.store_credentials import StoreCredentials

NAME = "object-store"
NAMESPACE = "object-store"
HOST = f"{NAME}.{NAMESPACE}.svc"
# The Service's too: a NetworkPolicy sees the port that the Pod listens on.
PORT = 7070
ENDPOINT = f"https://{HOST}:{PORT}"
BUCKET = "backups"
# What a client in the cluster may call it, and who forwards a port to it.
HOSTS = [HOST, f"{NAME}.{NAMESPACE}", f"{HOST}.cluster.local", "localhost"]
SELECTOR = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/component": "store"}
# The image's user.
USER = 65532
HEALTH = "/healthz"
# kind's default class does not hold a claim to it.
SIZE = "10Gi"
KEYS, AUTHORITY, TLS = "object-store-keys", "object-store-ca", "object-store-tls"
"""Secrets: the first two also where the samples are, the last with the server alone."""
CREDENTIALS = "kindling.dev/credentials"


class ObjectStore(pulumi.ComponentResource):
    """One server with one bucket, and in the namespace `users` the Secrets that open it."""

    endpoint: str
    bucket: str

    def __init__(
        self,
        name: str,
        *,
        image: pulumi.Input[str],
        users: str,
        pull_secrets: Sequence[str] = (),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("kindling:components:ObjectStore", name, {}, opts)
        self._name = name
        inside = pulumi.ResourceOptions(parent=self)
        made = StoreCredentials(f"{name}-credentials", hosts=HOSTS, opts=inside)
        namespace = core.v1.Namespace(
            f"{name}-namespace",
            metadata=meta.v1.ObjectMetaArgs(name=NAMESPACE, labels=pod_security.namespace_labels()),
            opts=inside,
        ).metadata.apply(lambda found: str(found.name))
        keys = {"accessKeyId": made.accessKeyId, "secretAccessKey": made.secretAccessKey}
        held = [
            self._secret("keys", KEYS, namespace, keys),
            self._secret(
                "tls",
                TLS,
                namespace,
                {"tls.crt": made.certificate, "tls.key": made.privateKey},
                type="kubernetes.io/tls",
            ),
        ]
        self._secret("user-keys", KEYS, users, keys)
        self._secret("user-ca", AUTHORITY, users, {"ca.crt": made.authority})
        claim = core.v1.PersistentVolumeClaim(
            f"{name}-data",
            # It is bound once there is a Pod, and waited for there.
            metadata=_metadata(namespace, skip_await=True),
            spec=core.v1.PersistentVolumeClaimSpecArgs(
                access_modes=["ReadWriteOnce"],
                resources=core.v1.VolumeResourceRequirementsArgs(requests={"storage": SIZE}),
            ),
            opts=inside,
        )
        selector = meta.v1.LabelSelectorArgs(match_labels=SELECTOR)
        apps.v1.Deployment(
            f"{name}-deployment",
            metadata=_metadata(namespace),
            spec=apps.v1.DeploymentSpecArgs(
                replicas=1,
                selector=selector,
                # Two at a time would write to one volume.
                strategy=apps.v1.DeploymentStrategyArgs(type="Recreate"),
                template=_template(image, made.id, pull_secrets),
            ),
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=[*held, claim],
                custom_timeouts=pulumi.CustomTimeouts(create="5m", update="5m"),
            ),
        )
        core.v1.Service(
            f"{name}-service",
            # Whether there are Pods behind it is the Deployment's affair, and waited for there.
            metadata=_metadata(namespace, skip_await=True),
            spec=core.v1.ServiceSpecArgs(
                selector=SELECTOR,
                ports=[core.v1.ServicePortArgs(name="https", port=PORT, target_port="https")],
            ),
            opts=inside,
        )
        networking.v1.NetworkPolicy(
            f"{name}-policy",
            metadata=_metadata(namespace),
            spec=networking.v1.NetworkPolicySpecArgs(
                pod_selector=selector,
                # Nothing outwards.
                policy_types=["Ingress", "Egress"],
                ingress=[
                    networking.v1.NetworkPolicyIngressRuleArgs(
                        from_=[
                            networking.v1.NetworkPolicyPeerArgs(
                                namespace_selector=meta.v1.LabelSelectorArgs()
                            )
                        ],
                        ports=[networking.v1.NetworkPolicyPortArgs(port=PORT, protocol="TCP")],
                    )
                ],
            ),
            opts=inside,
        )
        self.endpoint, self.bucket = ENDPOINT, BUCKET
        self.register_outputs({"endpoint": ENDPOINT, "bucket": BUCKET})

    def _secret(
        self,
        part: str,
        name: str,
        namespace: pulumi.Input[str],
        values: Mapping[str, pulumi.Input[str]],
        *,
        type: str = "Opaque",
    ) -> core.v1.Secret:
        return core.v1.Secret(
            f"{self._name}-{part}",
            metadata=meta.v1.ObjectMetaArgs(name=name, namespace=namespace, labels=SELECTOR),
            type=type,
            string_data=pulumi.Output.secret(dict(values)),
            opts=pulumi.ResourceOptions(parent=self),
        )


def _metadata(namespace: pulumi.Input[str], *, skip_await: bool = False) -> meta.v1.ObjectMetaArgs:
    annotations = {"pulumi.com/skipAwait": "true"} if skip_await else None
    return meta.v1.ObjectMetaArgs(name=NAME, namespace=namespace, labels=SELECTOR, annotations=annotations)


def _template(
    image: pulumi.Input[str], credentials: pulumi.Input[str], pull_secrets: Sequence[str]
) -> core.v1.PodTemplateSpecArgs:
    return core.v1.PodTemplateSpecArgs(
        # Neither keys nor certificate are read again while it runs.
        metadata=meta.v1.ObjectMetaArgs(labels=SELECTOR, annotations={CREDENTIALS: credentials}),
        spec=core.v1.PodSpecArgs(
            automount_service_account_token=False,
            enable_service_links=False,
            termination_grace_period_seconds=30,
            security_context=pod_security.pod(USER),
            containers=[_container(image)],
            image_pull_secrets=[core.v1.LocalObjectReferenceArgs(name=name) for name in pull_secrets] or None,
            volumes=[
                core.v1.VolumeArgs(
                    name="data",
                    persistent_volume_claim=core.v1.PersistentVolumeClaimVolumeSourceArgs(claim_name=NAME),
                ),
                core.v1.VolumeArgs(
                    name="tls", secret=core.v1.SecretVolumeSourceArgs(secret_name=TLS, default_mode=0o440)
                ),
            ],
        ),
    )


def _container(image: pulumi.Input[str]) -> core.v1.ContainerArgs:
    return core.v1.ContainerArgs(
        name="object-store",
        image=image,
        # It is on the nodes already, under a tag that means one content.
        image_pull_policy="IfNotPresent",
        args=[
            "--port", f":{PORT}", "--cert", "/tls/tls.crt", "--key", "/tls/tls.key",
            "--health", HEALTH, "--quiet",
            # Not every file system has the attributes that it would keep its marks in.
            "posix", "--sidecar", "/marks", "/data",
        ],
        env=[_key("ROOT_ACCESS_KEY_ID", "accessKeyId"), _key("ROOT_SECRET_ACCESS_KEY", "secretAccessKey")],
        ports=[core.v1.ContainerPortArgs(name="https", container_port=PORT)],
        startup_probe=_probe(period=1, failures=60),
        readiness_probe=_probe(period=5, failures=2),
        liveness_probe=_probe(period=10, failures=6),
        # Measured: 30 MiB at rest, 36 after objects of 24 MiB.
        resources=core.v1.ResourceRequirementsArgs(
            requests={"cpu": "50m", "memory": "64Mi"}, limits={"cpu": "1", "memory": "256Mi"}
        ),
        security_context=pod_security.container(),
        volume_mounts=[
            _folder("/data", "data"),
            # A folder is a bucket, and the kubelet makes the folder that a path inside a volume names.
            _folder(f"/data/{BUCKET}", f"data/{BUCKET}"),
            _folder("/marks", "marks"),
            core.v1.VolumeMountArgs(name="tls", mount_path="/tls", read_only=True),
        ],
        # Pulumi prints it when the Deployment does not get ready.
        termination_message_policy="FallbackToLogsOnError",
    )  # fmt: skip


def _folder(place: str, inside: str) -> core.v1.VolumeMountArgs:
    return core.v1.VolumeMountArgs(name="data", mount_path=place, sub_path=inside)


def _key(variable: str, key: str) -> core.v1.EnvVarArgs:
    source = core.v1.EnvVarSourceArgs(secret_key_ref=core.v1.SecretKeySelectorArgs(name=KEYS, key=key))
    return core.v1.EnvVarArgs(name=variable, value_from=source)


def _probe(*, period: int, failures: int) -> core.v1.ProbeArgs:
    return core.v1.ProbeArgs(
        http_get=core.v1.HTTPGetActionArgs(path=HEALTH, port="https", scheme="HTTPS"),
        period_seconds=period,
        failure_threshold=failures,
        timeout_seconds=5,
    )
