"""A program of ours beside a resource's workload: the Deployment NAME-COMPONENT, and who may reach it."""

from __future__ import annotations

from collections.abc import Sequence

from kindling.kinds import network, pod_template
from kindling.kinds.base import Child
from kindling.kinds.metadata import child_metadata, component_labels, component_selector
from kindling.kube.resources import DEPLOYMENT, Object, ResourceType


def name_of(cr: Object, component: str) -> str:
    """Of its Deployment and its NetworkPolicy."""
    return f"{cr['metadata']['name']}-{component}"


def deployment(type: ResourceType, cr: Object, component: str, *, pod: Object, replicas: int = 1) -> Child:
    """`pod` is the Pods' spec, to which the resource's `podTemplate` is applied."""
    template = {"metadata": {"labels": component_labels(type, cr, component)}, "spec": pod}
    return Child(
        type=DEPLOYMENT,
        body={
            "metadata": child_metadata(type, cr, name=name_of(cr, component)),
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": component_selector(type, cr, component)},
                "template": pod_template.applied(type, cr, template),
            },
        },
    )


def policy(
    type: ResourceType,
    cr: Object,
    component: str,
    *,
    port: str | int,
    operator_namespace: str,
    egress: Sequence[Object],
) -> Child:
    """Whoever may reach the workload may reach it. It reaches the cluster's DNS, and what `egress` admits."""
    return network.policy(
        type,
        cr,
        name=name_of(cr, component),
        port=port,
        operator_namespace=operator_namespace,
        pods=component_selector(type, cr, component),
        egress=[*egress, network.NAMES],
    )
