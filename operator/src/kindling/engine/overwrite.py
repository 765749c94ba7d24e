"""Server-side apply, and what to do where it cannot set a child back: what others did stands in its way.

Apply never takes an element out of a list, or a field out of an element, that another manager put there.
A Service whose port was edited would thus get ours beside the other, under one name, and the server
refuses that. So for once what we desire is written over all of it, sidecars and other additions included.
"""

from __future__ import annotations

from typing import Protocol

from kindling.engine.plan import Apply
from kindling.kube.errors import Refused
from kindling.kube.resources import FIELD_MANAGER, Object, Ref, ResourceType

INVALID = 422


class Api(Protocol):
    async def apply(self, type: ResourceType, body: Object, *, new: bool = False) -> Object: ...
    async def merge(self, ref: Ref, patch: Object, *, subresource: str | None = None) -> Object: ...


async def apply(api: Api, action: Apply) -> Object:
    """:raises Refused: when the server will have it in neither way, in its words to the first."""
    try:
        return await api.apply(action.type, action.body, new=action.new)
    except Refused as error:
        if error.status != INVALID or action.new or "spec" not in action.body:
            raise
        meta = action.body["metadata"]
        ref = Ref(action.type, meta["namespace"], meta["name"])
        try:
            await api.merge(ref, {"spec": action.body["spec"]})
        except Refused:
            raise error from None
    applied = await api.apply(action.type, action.body)
    # The merge's own claim to the fields is given up: with it, an apply without one would not remove it.
    meta = applied["metadata"]
    kept = [entry for entry in meta.get("managedFields", ()) if not _merged(entry)]
    return await api.merge(
        ref, {"metadata": {"resourceVersion": meta["resourceVersion"], "managedFields": kept}}
    )


def _merged(entry: Object) -> bool:
    return (entry["manager"], entry["operation"]) == (FIELD_MANAGER, "Update")
