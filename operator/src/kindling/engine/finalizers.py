"""The finalizer of a resource that must finish: added in time, removed when it has finished.

Pure: patches of the resource itself, each for the version that it was decided on.
"""

from __future__ import annotations

from kindling.kinds.base import Kind
from kindling.kube.resources import Object


def has_finalizer(kind: Kind, cr: Object) -> bool:
    return bool(kind.finalizer) and kind.finalizer in (cr["metadata"].get("finalizers") or ())


def is_deleted(cr: Object) -> bool:
    return "deletionTimestamp" in cr["metadata"]


def due_patch(kind: Kind, cr: Object) -> Object | None:
    """The patch that adds the finalizer to a resource that must finish, or removes it from one that need not.

    None for a deleted resource: the API server accepts no new finalizer on it.
    """
    if not kind.finalizer or is_deleted(cr) or kind.must_finish(cr) == has_finalizer(kind, cr):
        return None
    return _patch(kind, cr, present=kind.must_finish(cr))


def release_patch(kind: Kind, cr: Object) -> Object:
    """The patch that lets a deleted resource go."""
    return _patch(kind, cr, present=False)


def precondition(cr: Object) -> Object:
    """The metadata of a patch that fails with a conflict if the resource has changed."""
    meta = cr["metadata"]
    return {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}


def _patch(kind: Kind, cr: Object, *, present: bool) -> Object:
    """A merge patch replaces the list, so it is for this version of the resource alone."""
    others = [name for name in cr["metadata"].get("finalizers") or () if name != kind.finalizer]
    names = [*others, kind.finalizer] if present else others
    return {"metadata": {**precondition(cr), "finalizers": names}}
