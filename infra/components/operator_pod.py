"""The operator's Pod: how its one container runs and how it is kept from harm.

Apart from the component because it is pure, and what one reads to know the process's surroundings.
Meets the restricted pod security standard, which the namespace demands.
"""

from __future__ import annotations

import pulumi
from pulumi_kubernetes import core, meta

from infra.components import restricted
from infra.settings import OperatorSettings

HTTP_PORT = 8080
# Any user but root will do: the image's files are for all to read. 65532 is what "nonroot" images use.
USER = 65532


def template(
    *,
    labels: dict[str, str],
    service_account: pulumi.Input[str],
    image: pulumi.Input[str],
    variables: dict[str, pulumi.Input[str]],
    settings: OperatorSettings,
) -> core.v1.PodTemplateSpecArgs:
    """The template of the Deployment; `variables` are what else the operator is told."""
    return core.v1.PodTemplateSpecArgs(
        metadata=meta.v1.ObjectMetaArgs(labels=labels),
        spec=core.v1.PodSpecArgs(
            service_account_name=service_account,
            # Longer than the operator takes to give its Lease back.
            termination_grace_period_seconds=30,
            security_context=restricted.pod(USER),
            containers=[_container(image=image, variables=variables, settings=settings)],
            volumes=[
                core.v1.VolumeArgs(name="tmp", empty_dir=core.v1.EmptyDirVolumeSourceArgs(size_limit="16Mi"))
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
        env=_environment(variables=variables, settings=settings),
        ports=[core.v1.ContainerPortArgs(name="http", container_port=HTTP_PORT)],
        liveness_probe=_probe("/healthz", period=10, failures=3),
        readiness_probe=_probe("/readyz", period=2, failures=3),
        # A slow machine may take its time to start; a started process is judged by the other two.
        startup_probe=_probe("/healthz", period=1, failures=60),
        resources=core.v1.ResourceRequirementsArgs(
            requests={"cpu": "50m", "memory": "96Mi"}, limits={"cpu": "1", "memory": "256Mi"}
        ),
        security_context=restricted.container(),
        volume_mounts=[core.v1.VolumeMountArgs(name="tmp", mount_path="/tmp")],
        # Pulumi prints it when the Deployment does not get ready.
        termination_message_policy="FallbackToLogsOnError",
    )


def _environment(
    *, variables: dict[str, pulumi.Input[str]], settings: OperatorSettings
) -> list[core.v1.EnvVarArgs]:
    values: dict[str, pulumi.Input[str]] = {
        "KINDLING_LOG_LEVEL": settings.log_level.upper(),
        "KINDLING_WATCH_NAMESPACES": ",".join(settings.watch_namespaces),
        **variables,
    }
    fields = {"KINDLING_NAMESPACE": "metadata.namespace", "KINDLING_POD": "metadata.name"}
    return [
        *(core.v1.EnvVarArgs(name=name, value=value) for name, value in values.items()),
        *(
            core.v1.EnvVarArgs(
                name=name,
                value_from=core.v1.EnvVarSourceArgs(
                    field_ref=core.v1.ObjectFieldSelectorArgs(field_path=path)
                ),
            )
            for name, path in fields.items()
        ),
    ]


def _probe(path: str, *, period: int, failures: int) -> core.v1.ProbeArgs:
    return core.v1.ProbeArgs(
        http_get=core.v1.HTTPGetActionArgs(path=path, port="http"),
        period_seconds=period,
        failure_threshold=failures,
        timeout_seconds=2,
    )
