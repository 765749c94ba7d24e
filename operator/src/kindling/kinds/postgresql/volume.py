"""The PersistentVolumeClaim NAME-data.

Made by us, not by the StatefulSet's template: so it can grow, and its owner can vary with the
deletion policy. Retained, it has no owner; its labels alone say whose it is, and bring it back.
"""

from __future__ import annotations

from kindling.engine.quantity import quantity
from kindling.kinds.contract import Child, Observed, labels_of, owner_of
from kindling.kinds.postgresql.spec import Spec
from kindling.kube.resources import VOLUME_CLAIM, Object, Ref, ResourceType


def volume_name(cr: Object) -> str:
    return f"{cr['metadata']['name']}-data"


def volume_ref(cr: Object) -> Ref:
    return Ref(VOLUME_CLAIM, cr["metadata"]["namespace"], volume_name(cr))


def build(type: ResourceType, cr: Object, spec: Spec, observed: Observed) -> Child:
    """At least as large as it is: a volume taken up again may be larger than the new spec asks."""
    ref = volume_ref(cr)
    known = observed.children.get(ref, {}).get("spec", {})
    present = known.get("resources", {}).get("requests", {}).get("storage")
    size = present if present and quantity(present) > quantity(spec.size) else spec.size
    claim: Object = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    if spec.storage_class is not None:
        claim["storageClassName"] = spec.storage_class
    metadata: Object = {"namespace": ref.namespace, "name": ref.name, "labels": labels_of(type, cr)}
    if not spec.retain:
        metadata["ownerReferences"] = [owner_of(type, cr)]
    return Child(type=VOLUME_CLAIM, body={"metadata": metadata, "spec": claim})
