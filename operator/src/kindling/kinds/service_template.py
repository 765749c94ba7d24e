"""What users add to the Service of a resource, by `spec.serviceTemplate`: labels, annotations, its type.

One shape for the kinds whose clients use a Service, with the names of a Service's own fields. Whatever other
controllers write on the Service (ports of the nodes, finalizers, their annotations) is no part of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kindling.kinds.metadata import (
    INSTANCE_LABEL,
    MANAGED_BY_LABEL,
    NAME_LABEL,
    OWN_DOMAIN,
    unreserved,
)
from kindling.kube.resources import Object

RESERVED_LABELS = frozenset({MANAGED_BY_LABEL, NAME_LABEL, INSTANCE_LABEL})
"""The operator's own, beside all of its domain."""
RESERVED_PREFIXES = (OWN_DOMAIN, "kubectl.kubernetes.io/")
"""What no label may start with the first of, and no annotation with any: kubectl keeps what it applied."""
CLUSTER_IP, NODE_PORT, LOAD_BALANCER = "ClusterIP", "NodePort", "LoadBalancer"
_FIELDS: Mapping[str, tuple[str, ...]] = {
    NODE_PORT: ("externalTrafficPolicy",),
    LOAD_BALANCER: ("externalTrafficPolicy", "loadBalancerClass", "loadBalancerSourceRanges"),
}
"""The fields that belong to each type."""


def host_of(cr: Object) -> str:
    """The DNS name of the Service that bears the resource's name, as the whole cluster resolves it."""
    return f"{cr['metadata']['name']}.{cr['metadata']['namespace']}.svc"


def metadata(cr: Object, own: Object) -> Object:
    """A Service's metadata with the labels and annotations; the very one where there are none.

    What the operator sets wins over one of the same name.
    """
    given = _template(cr).get("metadata") or {}
    names = {
        "labels": unreserved(given.get("labels"), RESERVED_LABELS, (OWN_DOMAIN,)),
        "annotations": unreserved(given.get("annotations"), frozenset(), RESERVED_PREFIXES),
    }
    added = {field: {**more, **(own.get(field) or {})} for field, more in names.items() if more}
    return {**own, **added}


def spec(cr: Object) -> dict[str, Any]:
    """The type and what belongs to it; `ClusterIP` alone where nothing is said.

    A field of another type is left out. The CRD refuses it; this holds where its rules were taken away.
    """
    given = _template(cr).get("spec") or {}
    type = given.get("type") or CLUSTER_IP
    return {"type": type, **{name: given[name] for name in _FIELDS.get(type, ()) if given.get(name)}}


def _template(cr: Object) -> Mapping[str, Any]:
    found: Mapping[str, Any] = (cr.get("spec") or {}).get("serviceTemplate") or {}
    return found
