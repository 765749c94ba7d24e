"""The volume and the Postgresql that a Restore makes: created, and never changed afterwards."""

from __future__ import annotations

from datetime import UTC, datetime

from kindling.kinds.base import Child, Observed
from kindling.kinds.metadata import MADE_BY
from kindling.kinds.postgresql import spec as databases
from kindling.kinds.postgresql import version, volume
from kindling.kinds.restore import situation
from kindling.kinds.restore.spec import Spec
from kindling.kube.resources import VOLUME_CLAIM, Object

_EPOCH = datetime.fromtimestamp(0, UTC)
"""No moment is a matter here."""


def claim(cr: Object, read: Spec) -> Child:
    """The volume as the Postgresql has it. With the data's identifier, nothing else is begun there."""
    made = _postgresql(cr, read)
    source = (cr.get("status") or {}).get("source") or {}
    built = volume.build(
        read.database_type,
        made,
        databases.read(made, default_image=""),
        Observed(objects={}, now=_EPOCH, entropy=b""),
        version=version.BUNDLED,
        identifier=str(source.get("systemIdentifier") or "") or None,
    ).body
    metadata = built["metadata"]
    annotations = {**metadata["annotations"], MADE_BY: cr["metadata"]["uid"]}
    body = {**built, "metadata": {**metadata, "annotations": annotations}}
    body["metadata"].pop("ownerReferences", None)
    return Child(type=VOLUME_CLAIM, body=body, create_only=True, handed_over=True)


def database(cr: Object, read: Spec) -> Child:
    return Child(type=read.database_type, body=_postgresql(cr, read), create_only=True, handed_over=True)


def _postgresql(cr: Object, read: Spec) -> Object:
    """The Postgresql: what is given, with the user of the data, and at least as much storage."""
    source = (cr.get("status") or {}).get("source") or {}
    given = {name: value for name, value in read.postgresql.items() if value is not None}
    storage = {"size": str(source.get("size") or databases.DEFAULT_SIZE), **(given.get("storage") or {})}
    return {
        "metadata": {
            "namespace": cr["metadata"]["namespace"],
            "name": read.database,
            "annotations": {MADE_BY: cr["metadata"]["uid"]},
        },
        "spec": {**given, "defaultUser": situation.default_user(source), "storage": storage},
    }
