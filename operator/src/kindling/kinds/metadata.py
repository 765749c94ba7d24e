"""Names, labels and owner references of children: by these they are watched, found and collected."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from kindling.kube.resources import Object, ResourceType

MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
NAME_LABEL = "app.kubernetes.io/name"
INSTANCE_LABEL = "app.kubernetes.io/instance"
COMPONENT_LABEL = "app.kubernetes.io/component"
KIND_LABEL = "kindling.dev/kind"
RESOURCE_LABEL = "kindling.dev/name"
"""The resource's name on what may have no owner: by INSTANCE_LABEL, Argo CD would take that for its own."""
OWN_DOMAIN = "kindling.dev/"
"""Of the names of labels and annotations that users cannot set."""
MADE_BY = "kindling.dev/made-by"
"""Annotation of what was made for another resource to have: the uid of the one that made it."""
MANAGER = "kindling"
SELECTOR = f"{MANAGED_BY_LABEL}={MANAGER}"
"""What all children are selected by."""


LONGEST_REQUEST = 256
"""Characters of such an annotation's value that count."""


def asked_by(cr: Object, annotation: str) -> str:
    """The value of an annotation each new value of which asks for something; empty without one."""
    return str((cr["metadata"].get("annotations") or {}).get(annotation) or "")[:LONGEST_REQUEST]


def child_metadata(type: ResourceType, cr: Object, *, name: str) -> Object:
    """The metadata of a child of that name: in the resource's namespace, labelled and owned by it."""
    return {
        "namespace": cr["metadata"]["namespace"],
        "name": name,
        "labels": labels_of(type, cr),
        "ownerReferences": [owner_of(type, cr)],
    }


def labels_of(type: ResourceType, cr: Object) -> dict[str, str]:
    """The labels of every child: they bring it into our watch and name its owner."""
    return {
        MANAGED_BY_LABEL: MANAGER,
        NAME_LABEL: type.kind.lower(),
        INSTANCE_LABEL: cr["metadata"]["name"],
        KIND_LABEL: type.group_kind,
    }


def labels_without_owner(type: ResourceType, cr: Object) -> dict[str, str]:
    """The labels of a child that may outlive its resource: they bring it back, no other tool reads them."""
    shared = {name: value for name, value in labels_of(type, cr).items() if name != INSTANCE_LABEL}
    return {**shared, RESOURCE_LABEL: cr["metadata"]["name"]}


def component_selector(type: ResourceType, cr: Object, component: str) -> dict[str, str]:
    """What selects the Pods of a program beside the resource's workload, which `selector_of` does not."""
    return {RESOURCE_LABEL: cr["metadata"]["name"], KIND_LABEL: type.group_kind, COMPONENT_LABEL: component}


def component_labels(type: ResourceType, cr: Object, component: str) -> dict[str, str]:
    """The labels of those Pods."""
    return {**labels_without_owner(type, cr), COMPONENT_LABEL: component}


def secret_data(values: Mapping[str, str]) -> dict[str, str]:
    """These values as the data of a Secret; `Observed.secret` reads them back."""
    return {name: base64.b64encode(value.encode()).decode() for name, value in values.items()}


def named_in(labels: Mapping[str, str]) -> str | None:
    """The name of the resource whose child bears these labels, which of the two kinds they be."""
    return labels.get(RESOURCE_LABEL) or labels.get(INSTANCE_LABEL)


def selector_of(type: ResourceType, cr: Object) -> dict[str, str]:
    """What selects the Pods of this resource and of no other, in this group and no other."""
    return {INSTANCE_LABEL: cr["metadata"]["name"], KIND_LABEL: type.group_kind}


def selector_text(type: ResourceType, cr: Object, *, component: str = "") -> str:
    """What selects the Pods of the workload, or of a component, as text, as the scale subresource gives it to
    autoscalers and kubectl takes it.
    """
    found = component_selector(type, cr, component) if component else selector_of(type, cr)
    return ",".join(f"{key}={value}" for key, value in sorted(found.items()))


def owner_of(type: ResourceType, cr: Object) -> Object:
    """The owner reference to a resource, for the garbage collector.

    Without blockOwnerDeletion, which would need the right to set finalizers on the owner.
    """
    meta = cr["metadata"]
    return {
        "apiVersion": type.api_version,
        "kind": type.kind,
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
    }


def unreserved(
    given: Mapping[str, str] | None, names: frozenset[str], prefixes: tuple[str, ...]
) -> dict[str, str]:
    """A user's labels or annotations but for those of these names, or whose names start so.

    The CRDs refuse these; this holds where their rules were taken away.
    """
    return {
        name: value
        for name, value in (given or {}).items()
        if name not in names and not name.startswith(prefixes)
    }


def is_held(cr: Object, obj: Object) -> bool:
    """Whether the resource owns the object, and nobody is deleting it."""
    meta = obj.get("metadata") or {}
    owned = any(owner.get("uid") == cr["metadata"]["uid"] for owner in meta.get("ownerReferences") or ())
    return owned and "deletionTimestamp" not in meta
