"""Secrets that were made and are not needed any more: the operator deletes none of them."""

from __future__ import annotations

from kindling.kinds.base import Child, Observed
from kindling.kinds.metadata import child_metadata, is_held
from kindling.kube.resources import SECRET, Object, Ref, ResourceType


def kept(type: ResourceType, cr: Object, observed: Observed, name: str) -> list[Child]:
    """The Secret of that name as it is, if the resource has it: it goes with the resource."""
    if not is_held(cr, observed.objects.get(Ref(SECRET, cr["metadata"]["namespace"], name)) or {}):
        return []
    return [Child(type=SECRET, create_only=True, body={"metadata": child_metadata(type, cr, name=name)})]
