"""A restore in place: a Restore has the server stopped, and later keeps the data from before it.

It says so in its Secret NAME-in-place, as a Backup says in NAME-archive that the server archives. With that
Secret, and so with the Restore, the server is free again.
"""

from __future__ import annotations

from typing import NamedTuple

from kindling.kinds.base import Observed
from kindling.kinds.metadata import INSTANCE_LABEL, KIND_LABEL
from kindling.kube.resources import SECRET, Object, Ref

RESTORE = "restore.database.technotuesday.io"
"""The kind whose resources make the Secret."""

STEP = "kindling.dev/in-place"
"""Annotation of the Secret: one of the steps below."""
RESTORING, UNDOING, KEPT, OVER = "restore", "undo", "keep", "over"
STOPS = (RESTORING, UNDOING)
"""The steps in which the server is stopped. In all but OVER the data from before the restore is kept."""

FIELD = "inPlaceRestore"
"""Of the status."""


class InPlace(NamedTuple):
    """The Restore by name and uid, and the step that it is at."""

    restore: str
    uid: str
    step: str


def secret_name(database: str) -> str:
    return f"{database}-in-place"


def find(cr: Object, observed: Observed) -> InPlace | None:
    """None for a Secret that no Restore owns: anybody may make one of that name."""
    meta = cr["metadata"]
    found = observed.watched.get(Ref(SECRET, meta["namespace"], secret_name(meta["name"])))
    if found is None or "deletionTimestamp" in found["metadata"]:
        return None
    owner = owner_of(found)
    return owner if owner is not None and owner.step in (*STOPS, KEPT) else None


def owner_of(secret: Object) -> InPlace | None:
    """Whose Secret it is, by its metadata, at whatever step."""
    meta = secret.get("metadata") or {}
    labels, step = meta.get("labels") or {}, (meta.get("annotations") or {}).get(STEP)
    owners = [owner for owner in meta.get("ownerReferences") or () if owner.get("kind") == "Restore"]
    if labels.get(KIND_LABEL) != RESTORE or not labels.get(INSTANCE_LABEL) or not owners:
        return None
    return InPlace(restore=labels[INSTANCE_LABEL], uid=str(owners[0].get("uid")), step=str(step))


def stops(cr: Object, observed: Observed) -> InPlace | None:
    """Who has the server stopped."""
    found = find(cr, observed)
    return found if found is not None and found.step in STOPS else None


def words(found: InPlace) -> str:
    what = "puts back the data from before it" if found.step == UNDOING else "restores its data in place"
    return (
        f"Restore {found.restore} {what}: the server is stopped, and starts again by itself; "
        f"`kubectl get restore {found.restore}` says how far it is."
    )


def status(cr: Object, observed: Observed, *, stopped: bool) -> Object:
    """`stoppedFor` is the step for which the server is stopped, and its Pod gone."""
    found = find(cr, observed)
    if found is None:
        return {}
    entry: Object = {"name": found.restore, "uid": found.uid}
    return {FIELD: entry | ({"stoppedFor": found.step} if stopped and found.step in STOPS else {})}
