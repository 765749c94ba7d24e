"""The PersistentVolumeClaim NAME-data, or the Pod's own empty directory where the data is ephemeral.

Made by us, not by the StatefulSet's template: so it can grow, and its owner can vary with the
deletion policy. Retained, it has no owner; its labels alone say whose it is, and bring it back.
"""

from __future__ import annotations

from kindling.engine.quantity import quantity
from kindling.kinds.contract import Child, Observed, labels_of, owner_of
from kindling.kinds.postgresql.spec import Spec
from kindling.kube.resources import VOLUME_CLAIM, Object, Ref, ResourceType

VERSION_LABEL = "kindling.dev/postgresql-version"
GROWING = ("FileSystemResizePending", "Resizing")


def volume_name(cr: Object) -> str:
    return f"{cr['metadata']['name']}-data"


def volume_ref(cr: Object) -> Ref:
    return Ref(VOLUME_CLAIM, cr["metadata"]["namespace"], volume_name(cr))


def build(type: ResourceType, cr: Object, spec: Spec, observed: Observed, *, version: str | None) -> Child:
    """At least as large as it is: a volume taken up again may be larger than the new spec asks."""
    ref = volume_ref(cr)
    known = observed.children.get(ref, {}).get("spec", {})
    present = known.get("resources", {}).get("requests", {}).get("storage")
    size = present if present and quantity(present) > quantity(spec.size) else spec.size
    claim: Object = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    if spec.storage_class is not None:
        claim["storageClassName"] = spec.storage_class
    labels = {**labels_of(type, cr), **({VERSION_LABEL: version} if version else {})}
    metadata: Object = {"namespace": ref.namespace, "name": ref.name, "labels": labels}
    if not spec.retain:
        metadata["ownerReferences"] = [owner_of(type, cr)]
    return Child(type=VOLUME_CLAIM, body={"metadata": metadata, "spec": claim})


def source(cr: Object, spec: Spec) -> Object:
    """Where the Pod has its data from."""
    if spec.ephemeral:
        return {"emptyDir": {"sizeLimit": spec.size}}
    return {"persistentVolumeClaim": {"claimName": volume_name(cr)}}


def growing(cr: Object, observed: Observed) -> str | None:
    """How far the volume's growing has come, in words, while it lasts."""
    claim = observed.children.get(volume_ref(cr)) or {}
    status = claim.get("status") or {}
    for item in status.get("conditions") or ():
        if item.get("type") in GROWING and item.get("status") == "True":
            asked = ((claim.get("spec") or {}).get("resources") or {}).get("requests") or {}
            has = (status.get("capacity") or {}).get("storage", "its size")
            return (
                f"Volume {volume_name(cr)} is growing from {has} to {asked.get('storage')} ({item['type']}): "
                f"wait, or see `kubectl describe pvc {volume_name(cr)}`."
            )
    return None
