"""The operator's Pod: how its containers run and how they are kept from harm.

The operator has the token; the prober speaks to database servers, which may be anybody's, and has none.

Apart from the component because it is pure, and what one reads to know the process's surroundings.
Meets the restricted pod security standard, which the namespace demands.
"""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
from pulumi_kubernetes import core, meta

from infra.components import pod_security
from infra.settings import OperatorSettings

HTTP_PORT = 8080
# Any user but root will do: the image's files are for all to read. 65532 is what "nonroot" images use.
USER = 65532
SOCKETS = "/run/kindling"
PROBER_SOCKET = f"{SOCKETS}/prober.sock"
# Where every client in a Pod looks for its credentials.
CREDENTIALS = "/var/run/secrets/kubernetes.io/serviceaccount"


def template(
    *,
    labels: dict[str, str],
    service_account: pulumi.Input[str],
    image: pulumi.Input[str],
    variables: dict[str, pulumi.Input[str]],
    settings: OperatorSettings,
    pull_secrets: Sequence[str] = (),
) -> core.v1.PodTemplateSpecArgs:
    """The template of the Deployment; `variables` are more of the operator's environment.

    `pull_secrets` are for its image, unless the settings of the Pod name others.
    """
    pod = settings.pod
    secrets = pod.get("imagePullSecrets") or [{"name": name} for name in pull_secrets]
    return core.v1.PodTemplateSpecArgs(
        metadata=meta.v1.ObjectMetaArgs(
            # Ours last: by them the Deployment finds its Pods.
            labels={**pod.get("labels", {}), **labels},
            annotations=pod.get("annotations"),
        ),
        spec=core.v1.PodSpecArgs(
            service_account_name=service_account,
            # Longer than the operator takes to give its Lease back.
            termination_grace_period_seconds=30,
            security_context=pod_security.pod(USER),
            # Not into every container: the operator's own mounts it.
            automount_service_account_token=False,
            containers=[
                _container(image=image, variables=variables, settings=settings),
                _prober(image=image, settings=settings),
            ],
            node_selector=pod.get("nodeSelector"),
            affinity=pod.get("affinity"),
            tolerations=pod.get("tolerations"),
            priority_class_name=pod.get("priorityClassName"),
            image_pull_secrets=secrets or None,
            volumes=[
                core.v1.VolumeArgs(name="tmp", empty_dir=core.v1.EmptyDirVolumeSourceArgs(size_limit="16Mi")),
                core.v1.VolumeArgs(
                    name="sockets", empty_dir=core.v1.EmptyDirVolumeSourceArgs(size_limit="1Mi")
                ),
                _credentials(),
            ],
            topology_spread_constraints=[
                core.v1.TopologySpreadConstraintArgs(
                    max_skew=1,
                    topology_key="kubernetes.io/hostname",
                    when_unsatisfiable="ScheduleAnyway",
                    label_selector=meta.v1.LabelSelectorArgs(match_labels=labels),
                )
            ],
        ),
    )


def _container(
    *, image: pulumi.Input[str], variables: dict[str, pulumi.Input[str]], settings: OperatorSettings
) -> core.v1.ContainerArgs:
    return core.v1.ContainerArgs(
        name="operator",
        image=image,
        # It is on the nodes already, under a tag that means one content.
        image_pull_policy="IfNotPresent",
        env=_env_vars(variables=variables, settings=settings),
        ports=[core.v1.ContainerPortArgs(name="http", container_port=HTTP_PORT)],
        liveness_probe=_probe("/healthz", period=10, failures=3),
        readiness_probe=_probe("/readyz", period=2, failures=3),
        # A slow machine may take its time to start; a started process is judged by the other two.
        startup_probe=_probe("/healthz", period=1, failures=60),
        resources=_resources(
            settings,
            "operator",
            requests={"cpu": "50m", "memory": "96Mi"},
            limits={"cpu": "1", "memory": "256Mi"},
        ),
        security_context=pod_security.container(),
        volume_mounts=[
            core.v1.VolumeMountArgs(name="tmp", mount_path="/tmp"),
            core.v1.VolumeMountArgs(name="sockets", mount_path=SOCKETS),
            core.v1.VolumeMountArgs(name="credentials", mount_path=CREDENTIALS, read_only=True),
        ],
        # Pulumi prints it when the Deployment does not get ready.
        termination_message_policy="FallbackToLogsOnError",
    )


def _resources(
    settings: OperatorSettings, container: str, *, requests: dict[str, str], limits: dict[str, str]
) -> core.v1.ResourceRequirementsArgs:
    own = settings.pod.get("resources", {}).get(container, {})
    return core.v1.ResourceRequirementsArgs(
        requests=own.get("requests", requests), limits=own.get("limits", limits)
    )


def _prober(*, image: pulumi.Input[str], settings: OperatorSettings) -> core.v1.ContainerArgs:
    """Without a probe: the operator finds out whether it answers, and where it ends it is started again."""
    return core.v1.ContainerArgs(
        name="prober",
        image=image,
        image_pull_policy="IfNotPresent",
        command=["/opt/kindling/bin/python", "-m", "kindling.prober", PROBER_SOCKET],
        # Enough for as many workers as there may be, each with all that it may take.
        resources=_resources(
            settings,
            "prober",
            requests={"cpu": "20m", "memory": "64Mi"},
            limits={"cpu": "1", "memory": "512Mi"},
        ),
        security_context=pod_security.container(),
        volume_mounts=[core.v1.VolumeMountArgs(name="sockets", mount_path=SOCKETS)],
        termination_message_policy="FallbackToLogsOnError",
    )


def _credentials() -> core.v1.VolumeArgs:
    """What the kubelet would mount by itself: a token that is renewed by the hour, the CA, the namespace."""
    return core.v1.VolumeArgs(
        name="credentials",
        projected=core.v1.ProjectedVolumeSourceArgs(
            sources=[
                core.v1.VolumeProjectionArgs(
                    service_account_token=core.v1.ServiceAccountTokenProjectionArgs(
                        path="token", expiration_seconds=3607
                    )
                ),
                core.v1.VolumeProjectionArgs(
                    config_map=core.v1.ConfigMapProjectionArgs(
                        name="kube-root-ca.crt", items=[core.v1.KeyToPathArgs(key="ca.crt", path="ca.crt")]
                    )
                ),
                core.v1.VolumeProjectionArgs(
                    downward_api=core.v1.DownwardAPIProjectionArgs(
                        items=[
                            core.v1.DownwardAPIVolumeFileArgs(
                                path="namespace",
                                field_ref=core.v1.ObjectFieldSelectorArgs(field_path="metadata.namespace"),
                            )
                        ]
                    )
                ),
            ]
        ),
    )


def _env_vars(
    *, variables: dict[str, pulumi.Input[str]], settings: OperatorSettings
) -> list[core.v1.EnvVarArgs]:
    values: dict[str, pulumi.Input[str]] = {
        "KINDLING_LOG_LEVEL": settings.log_level.upper(),
        "KINDLING_WATCH_NAMESPACES": ",".join(settings.watch_namespaces),
        "KINDLING_KINDS": ",".join(settings.kinds),
        "KINDLING_PROBER": PROBER_SOCKET,
        **variables,
    }
    fields = {"KINDLING_NAMESPACE": "metadata.namespace", "KINDLING_POD": "metadata.name"}
    return [
        # One that says nothing is left out: Pulumi's provider drops an empty value where it knows all of the
        # Pod, and keeps it where it does not, so that no plan of a new stack could be carried out.
        *(core.v1.EnvVarArgs(name=name, value=value) for name, value in values.items() if value != ""),
        *(
            core.v1.EnvVarArgs(
                name=name,
                value_from=core.v1.EnvVarSourceArgs(
                    field_ref=core.v1.ObjectFieldSelectorArgs(field_path=path)
                ),
            )
            for name, path in fields.items()
        ),
        *settings.pod.get("env", ()),
    ]


def _probe(path: str, *, period: int, failures: int) -> core.v1.ProbeArgs:
    return core.v1.ProbeArgs(
        http_get=core.v1.HTTPGetActionArgs(path=path, port="http"),
        period_seconds=period,
        failure_threshold=failures,
        timeout_seconds=2,
    )
