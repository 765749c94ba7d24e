"""A store that is a folder on a volume, by a PersistentVolumeClaim of the namespace: what keeps it from being
one, and how Pods get it.
"""

from __future__ import annotations

from typing import NamedTuple

from kindling.kinds import reasons
from kindling.kinds.backup.stores import CLAIM, Store
from kindling.kinds.base import Observed, Problem
from kindling.kinds.metadata import KIND_LABEL, named_in, selector_of
from kindling.kinds.postgresql import archiver
from kindling.kube.resources import VOLUME_CLAIM, Object, Ref

MANY, ONE_POD, READ_ONLY = "ReadWriteMany", "ReadWriteOncePod", "ReadOnlyMany"
HOST = "kubernetes.io/hostname"
UNUSABLE = frozenset({reasons.BUCKET_NOT_FOUND, reasons.STORE_UNREACHABLE, reasons.STORE_UNSUITABLE})
"""The reasons of `problem`."""


class Mount(NamedTuple):
    """How a run has the store: the claim, whether it may write there, and where its Pod is to be."""

    claim: str
    writes: bool
    affinity: Object | None

    @property
    def volume(self) -> Object:
        return {"name": "store", "persistentVolumeClaim": {"claimName": self.claim}}

    @property
    def place(self) -> Object:
        mount: Object = {"name": "store", "mountPath": archiver.STORE}
        return mount if self.writes else {**mount, "readOnly": True}


def ref(store: Store, *, namespace: str) -> Ref | None:
    """None where the store is no claim."""
    return Ref(VOLUME_CLAIM, namespace, store.bucket) if store.scheme == CLAIM and store.bucket else None


def mount(
    store: Store, observed: Observed, *, namespace: str, writes: bool, beside: Ref | None
) -> Mount | None:
    """None where the store is no claim.

    A volume that one node has at a time is where the server has it, so the Pod is to be `beside` that: a run
    that writes needs the server anyway, and one that reads does without, should it be down.
    """
    where = ref(store, namespace=namespace)
    if where is None:
        return None
    shared = MANY in _modes(observed.watched.get(where) or {})
    affinity = None if shared or beside is None else _beside(beside, required=writes)
    return Mount(claim=where.name, writes=writes, affinity=affinity)


def _beside(database: Ref, *, required: bool) -> Object:
    resource = {"metadata": {"namespace": database.namespace, "name": database.name}}
    term = {
        "labelSelector": {"matchLabels": selector_of(database.type, resource)},
        "topologyKey": HOST,
    }
    if required:
        return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    preferred = [{"weight": 100, "podAffinityTerm": term}]
    return {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}


def problem(store: Store, observed: Observed, *, namespace: str, field: str, writes: bool) -> Problem | None:
    """Why the claim cannot be the store. A server that mounted such a claim would not start."""
    where = ref(store, namespace=namespace)
    if where is None:
        return None
    about = f"{field}.targetURL {store.url!r}"
    claim = observed.watched.get(where)
    if claim is None:
        return Problem(
            reason=reasons.BUCKET_NOT_FOUND,
            message=f"{about}: there is no PersistentVolumeClaim {where.name!r} in namespace {namespace}; "
            "create it, or name another one.",
        )
    if "deletionTimestamp" in claim["metadata"]:
        return Problem(
            reason=reasons.STORE_UNREACHABLE,
            message=f"{about}: that claim is being deleted, and no new Pod gets it; copy what it has, and "
            "name another one.",
        )
    if (claim.get("status") or {}).get("phase") == "Lost":
        return Problem(
            reason=reasons.STORE_UNREACHABLE,
            message=f"{about}: that claim has lost its volume (phase Lost); bring the volume back, or name "
            f"another claim (`kubectl describe pvc {where.name} -n {namespace}`).",
        )
    if unsuitable := _unsuitable(claim, writes=writes):
        return Problem(reason=reasons.STORE_UNSUITABLE, message=f"{about}: that claim {unsuitable}")
    return None


def _unsuitable(claim: Object, *, writes: bool) -> str | None:
    """How the message goes on."""
    labels, modes = claim["metadata"].get("labels") or {}, _modes(claim)
    if str(labels.get(KIND_LABEL) or "").startswith("postgresql."):
        return f"has the data of Postgresql {named_in(labels)!r}; name one for backups alone."
    if (claim.get("spec") or {}).get("volumeMode") == "Block":
        return "has volumeMode 'Block', in which there are no files; name one with volumeMode Filesystem."
    if ONE_POD in modes:
        return (
            f"has access mode {ONE_POD!r}, and the server and its runs share it; name one with "
            "ReadWriteMany, or with ReadWriteOnce for Pods on one node."
        )
    if writes and modes and set(modes) == {READ_ONLY}:
        return f"has access mode {READ_ONLY!r} alone, and backups are written; name one with ReadWriteMany."
    return None


def _modes(claim: Object) -> list[str]:
    found: list[str] = (claim.get("spec") or {}).get("accessModes") or []
    return found


def versions(store: Store, observed: Observed, *, namespace: str) -> list[tuple[str, str, str]]:
    """What of the claim differs once it was fixed: a volume that has grown, say."""
    where = ref(store, namespace=namespace)
    if where is None:
        return []
    claim = observed.watched.get(where) or {}
    status = claim.get("status") or {}
    size = str((status.get("capacity") or {}).get("storage"))
    return [(where.name, str((claim.get("metadata") or {}).get("uid")), size)]
