"""The PersistentVolumeClaim NAME-data, or the Pod's own empty directory where the data is ephemeral.

Made by us, not by the StatefulSet's template: so it can grow, and its owner can vary with the
deletion policy. Retained, it has no owner; its labels alone say whose it is, and bring it back.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kindling.engine.quantity import quantity
from kindling.kinds import reasons
from kindling.kinds.base import Child, Observed, Problem
from kindling.kinds.metadata import labels_without_owner, owner_of
from kindling.kinds.postgresql.spec import Spec, access_mode_of, is_ephemeral, size_of, user_of
from kindling.kube.resources import VOLUME_CLAIM, Object, Ref, ResourceType

VERSION_LABEL = "kindling.dev/postgresql-version"
USER_ANNOTATION = "kindling.dev/default-user"
"""On the claim, the default user of its data. Not a label: a user's name need not be a label's value."""
IDENTIFIER_ANNOTATION = "kindling.dev/system-identifier"
PROTECTION_LABEL = "kindling.dev/deletion-protection"
"""On the claim of a protected resource: the API server does not delete it (`infra.deletion_protection`)."""
# A claim that has no owner looks like something left over: Argo CD is neither to delete it nor to complain.
ANNOTATIONS = {
    "argocd.argoproj.io/compare-options": "IgnoreExtraneous",
    "argocd.argoproj.io/sync-options": "Prune=false",
}
GROWING = ("FileSystemResizePending", "Resizing")
NOT_GROWING = ("ControllerResizeError", "NodeResizeError")
LONGEST_SAID = 300
"""Characters of what the storage says."""


def volume_name(cr: Object) -> str:
    return f"{cr['metadata']['name']}-data"


def volume_ref(cr: Object) -> Ref:
    return Ref(VOLUME_CLAIM, cr["metadata"]["namespace"], volume_name(cr))


def claim_of(cr: Object, observed: Observed) -> Object | None:
    """The claim of its data. Not the one that an earlier resource of this name owns, which goes with that:
    what it records is of another's data.
    """
    claim = observed.objects.get(volume_ref(cr))
    owners = [owner["uid"] for owner in (claim or {}).get("metadata", {}).get("ownerReferences") or ()]
    return None if owners and cr["metadata"].get("uid") not in owners else claim


def empty_since(cr: Object, pod: Object | None) -> str:
    """A sentence, with a space before it, on ephemeral data: a Pod that was evicted took it along, and of
    that nothing else is left to see.
    """
    meta = (pod or {}).get("metadata") or {}
    if not is_ephemeral(cr) or "creationTimestamp" not in meta:
        return ""
    return f" Its data is ephemeral, and began empty with Pod {meta['name']} at {meta['creationTimestamp']}."


def build(
    type: ResourceType,
    cr: Object,
    spec: Spec,
    observed: Observed,
    *,
    version: str | None,
    identifier: str | None,
    size: str | None = None,
    notes: Mapping[str, str] | None = None,
) -> Child:
    """At least as large as it is: a volume that is used again may be larger than the new spec requests.

    `identifier` is that of its data, once it is known. `size` is what it is to ask for, where that is more
    than the spec and itself say, and `notes` are further annotations (`growth`).
    """
    ref, size = volume_ref(cr), size or size_to_ask(cr, observed)
    claim: Object = {"accessModes": _access_modes(cr, observed), "resources": {"requests": {"storage": size}}}
    if spec.storage_class is not None:
        claim["storageClassName"] = spec.storage_class
    labels = {**labels_without_owner(type, cr), **({VERSION_LABEL: version} if version else {})}
    if spec.protected:
        labels[PROTECTION_LABEL] = "true"
    annotations = {
        **ANNOTATIONS,
        IDENTIFIER_ANNOTATION: identifier or "",
        USER_ANNOTATION: user_of_data(cr, observed) or spec.user,
        **(notes or {}),
    }
    metadata: Object = {
        "namespace": ref.namespace,
        "name": ref.name,
        "labels": labels,
        "annotations": annotations,
    }
    if not spec.retain:
        metadata["ownerReferences"] = [owner_of(type, cr)]
    return Child(type=VOLUME_CLAIM, body={"metadata": metadata, "spec": claim})


def size_to_ask(cr: Object, observed: Observed) -> str:
    """What the claim is to ask for: the spec's size, unless it asks for more already and has that."""
    (requested, has), size = sizes(cr, observed), size_of(cr)
    if requested is not None and not _may_become(size, requested=requested, has=has):
        return requested
    return size


def _access_modes(cr: Object, observed: Observed) -> list[str]:
    """A claim that is there keeps its own, which cannot change."""
    claim = claim_of(cr, observed) or {}
    present: list[str] = (claim.get("spec") or {}).get("accessModes") or []
    return present or [access_mode_of(cr)]


def user_of_data(cr: Object, observed: Observed) -> str | None:
    """The default user that the claim records; None without a claim, or one from before this was recorded."""
    return annotations_of(cr, observed).get(USER_ANNOTATION) or None


def annotations_of(cr: Object, observed: Observed) -> Mapping[str, str]:
    """The claim's."""
    claim = claim_of(cr, observed) or {}
    return (claim.get("metadata") or {}).get("annotations") or {}


def validate(cr: Object, observed: Observed) -> Problem | None:
    """A volume whose data is another user's: that user would keep its login beside the new one's."""
    there, user = user_of_data(cr, observed), user_of(cr)
    if is_ephemeral(cr) or there is None or there == user:
        return None
    name = volume_name(cr)
    return Problem(
        reason=reasons.USER_CONFLICT,
        message=f"spec.defaultUser {user!r}, but volume {name} holds the role and database of {there!r}, "
        f"which would stay: create this resource with defaultUser {there!r} to use the data, or under "
        f"another name; to start empty, delete the claim "
        f"(`kubectl delete pvc {name} -n {cr['metadata']['namespace']}`).",
    )


def source(cr: Object, spec: Spec) -> Object:
    """Where the Pod has its data from."""
    if spec.ephemeral:
        return {"emptyDir": {"sizeLimit": spec.size}}
    return {"persistentVolumeClaim": {"claimName": volume_name(cr)}}


def capacity(cr: Object, observed: Observed) -> str | None:
    """What the volume has, as its claim says; None before it is there, and where the data needs none."""
    return None if is_ephemeral(cr) else sizes(cr, observed)[1]


def resize_message(cr: Object, observed: Observed) -> str | None:
    """How far the volume's growing has come, in words, while it lasts."""
    item = _condition(cr, observed, GROWING)
    if item is None:
        return None
    requested, has = sizes(cr, observed)
    return (
        f"Volume {volume_name(cr)} is growing from {has or 'its size'} to {requested} "
        f"({item['type']}): wait, or see `kubectl describe pvc {volume_name(cr)}`."
    )


def resize_failure(cr: Object, observed: Observed) -> str | None:
    """That the storage could not make it larger, in words; None while nothing more is asked of it."""
    item = _condition(cr, observed, NOT_GROWING)
    requested, has = sizes(cr, observed)
    if item is None or is_ephemeral(cr) or requested is None or has is None:
        return None
    if quantity(has) >= quantity(requested):
        return None
    said = " ".join(str(item.get("message") or item["type"]).split()).rstrip(".")[:LONGEST_SAID]
    return (
        f"Volume {volume_name(cr)} has {has}, and its storage could not make it {requested} "
        f"({said}). This is retried; to ask for less, set spec.storage.size to more than {has!r}."
    )


def _condition(cr: Object, observed: Observed, types: Collection[str]) -> Object | None:
    """The first of these conditions of the claim that is true."""
    items = ((claim_of(cr, observed) or {}).get("status") or {}).get("conditions") or ()
    return next((item for item in items if item.get("type") in types and item.get("status") == "True"), None)


def larger(cr: Object, observed: Observed) -> str | None:
    """That the volume stays larger than the spec says, in words; None where the spec says no size."""
    (requested, has), size = sizes(cr, observed), size_of(cr)
    storage = (cr.get("spec") or {}).get("storage") or {}
    if is_ephemeral(cr) or not storage.get("size") or storage.get("autoGrow"):
        return None  # one that grows by itself is to be larger than the spec says
    if requested is None or _may_become(size, requested=requested, has=has):
        return None
    if has is not None and quantity(has) < quantity(requested):
        return (
            f"spec.storage.size {size!r} is no more than volume {volume_name(cr)} has ({has}), which is "
            f"to grow to {requested}. Kubernetes takes that back only to more than {has}: set a larger size."
        )
    return (
        f"spec.storage.size {size!r} is less than volume {volume_name(cr)} has ({requested}), and a volume "
        f"cannot shrink: it stays as it is. Set it to at least {requested!r}, or dump the data (pg_dump) and "
        "restore it into a new resource."
    )


def size_to_restore(cr: Object, observed: Observed) -> str | None:
    """To which size to return where the API server refuses what is asked, in words; None if to none."""
    (requested, has), size = sizes(cr, observed), size_of(cr)
    if is_ephemeral(cr) or requested is None or quantity(requested) == quantity(size):
        return None
    if not _may_become(size, requested=requested, has=has):
        return None  # nothing is asked of it
    grows = quantity(requested) < quantity(size)
    what = "the volume cannot grow" if grows else "this cluster does not take a volume's growth back"
    return (
        f"spec.storage.size is {size!r}, volume {volume_name(cr)} asks for {requested}: if {what}, set "
        f"spec.storage.size to {requested!r}."
    )


def sizes(cr: Object, observed: Observed) -> tuple[str | None, str | None]:
    """What the claim asks for, and what it has: less while it grows, unknown before it is bound."""
    claim = claim_of(cr, observed) or {}
    requested = (((claim.get("spec") or {}).get("resources") or {}).get("requests") or {}).get("storage")
    has = ((claim.get("status") or {}).get("capacity") or {}).get("storage")
    return requested, has


def _may_become(size: str, *, requested: str, has: str | None) -> bool:
    """Whether a claim may ask for that: more than it does, or less of what it was not given yet."""
    return quantity(size) >= quantity(requested) or (has is not None and quantity(has) < quantity(size))
