"""Who may reach a workload, and whom it may reach: the NetworkPolicy of every kind that runs one."""

from __future__ import annotations

from kindling.kinds.contract import Child, child_metadata, selector_of
from kindling.kube.resources import NETWORK_POLICY, Object, ResourceType


def policy(
    type: ResourceType, cr: Object, *, name: str, port: str | int | None = None, outwards: bool = False
) -> Child:
    """The port, if any, is open to every Pod of the cluster and nothing else is; out goes nothing, or all.

    Empty rules are said, so that a rule which somebody adds is taken away again.
    """
    ingress = [{"from": [{"namespaceSelector": {}}], "ports": [{"port": port, "protocol": "TCP"}]}]
    spec: Object = {
        "podSelector": {"matchLabels": selector_of(type, cr)},
        "policyTypes": ["Ingress"] if outwards else ["Ingress", "Egress"],
        "ingress": [] if port is None else ingress,
        "egress": [],
    }
    return Child(type=NETWORK_POLICY, body={"metadata": child_metadata(type, cr, name=name), "spec": spec})
