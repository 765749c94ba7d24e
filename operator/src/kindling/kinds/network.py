"""Who may reach a workload, and whom it may reach: the NetworkPolicy of every kind that runs one."""

from __future__ import annotations

from collections.abc import Sequence

from kindling.kinds.base import Child
from kindling.kinds.metadata import child_metadata, selector_of
from kindling.kube.resources import NETWORK_POLICY, Object, ResourceType

NAMESPACE_LABEL = "kubernetes.io/metadata.name"
"""The label with its own name that the API server puts on every namespace."""

OPERATOR_LABELS = {"app.kubernetes.io/name": "kindling", "app.kubernetes.io/component": "operator"}
"""The labels of the operator's Pods, as `infra/components/operator.py` sets them; a test compares the two."""


NAMES: Object = {"ports": [{"port": 53, "protocol": protocol} for protocol in ("UDP", "TCP")]}
"""The rule of egress that leads to the cluster's DNS."""


def to_pods(port: int, *labels: Object) -> Object:
    """The rule of egress that leads to that port of the namespace's Pods with any of these labels."""
    return {
        "to": [{"podSelector": {"matchLabels": each}} for each in labels],
        "ports": [{"port": port, "protocol": "TCP"}],
    }


def policy(
    type: ResourceType,
    cr: Object,
    *,
    name: str,
    port: str | int | None = None,
    operator_namespace: str = "",
    allow_egress: bool = False,
    pods: Object | None = None,
    egress: Sequence[Object] = (),
) -> Child:
    """The NetworkPolicy `name`. If `port` is None nothing may connect, else to that port alone: the Pods of
    the resource's namespace, the operator's Pods, and those that `spec.allowedFrom` selects. Egress is
    unrestricted if `allow_egress`, else what the rules `egress` admit. `pods` are the labels of those that
    it is about, if they are not the workload's.

    Empty rules are set too, so that a rule which somebody adds is taken away again.
    """
    peers = _peers(cr, operator_namespace=operator_namespace)
    return _policy(
        type, cr, name=name, port=port, peers=peers, allow_egress=allow_egress, pods=pods, egress=egress
    )


def from_operator(type: ResourceType, cr: Object, *, name: str, port: int, operator_namespace: str) -> Child:
    """The NetworkPolicy `name`: to that port, the operator's Pods alone may connect. Egress is
    unrestricted.
    """
    peers = [_operator(operator_namespace)]
    return _policy(type, cr, name=name, port=port, peers=peers, allow_egress=True)


def _policy(
    type: ResourceType,
    cr: Object,
    *,
    name: str,
    port: str | int | None,
    peers: Sequence[Object],
    allow_egress: bool,
    pods: Object | None = None,
    egress: Sequence[Object] = (),
) -> Child:
    ingress = [{"from": peers, "ports": [{"port": port, "protocol": "TCP"}]}]
    spec: Object = {
        "podSelector": {"matchLabels": selector_of(type, cr) if pods is None else pods},
        "policyTypes": ["Ingress"] if allow_egress else ["Ingress", "Egress"],
        "ingress": [] if port is None else ingress,
        "egress": [*egress],
    }
    return Child(type=NETWORK_POLICY, body={"metadata": child_metadata(type, cr, name=name), "spec": spec})


def _operator(namespace: str) -> Object:
    return {
        "namespaceSelector": {"matchLabels": {NAMESPACE_LABEL: namespace}},
        "podSelector": {"matchLabels": OPERATOR_LABELS},
    }


def _peers(cr: Object, *, operator_namespace: str) -> list[Object]:
    return [
        {"podSelector": {}},
        _operator(operator_namespace),
        *((cr.get("spec") or {}).get("allowedFrom") or ()),
    ]
