"""Writing a child: created where it is new, applied from then on, and what to do where that is not enough.

Creating costs the API server half of what an apply does, but what was created is ours by an `Update`, and no
apply takes such a field away. So before the first apply that may leave one out, what we created is declared
to have been applied, as client-go's csaupgrade does it for kubectl.

Nor does apply ever take an element out of a list, or a field out of an element, that another manager put
there. A Service whose port was edited would get ours beside the other, under one name, and the server
refuses that. So for once what we desire is written over all of it, sidecars and other additions included.
"""

from __future__ import annotations

import contextlib

from kindling.engine.compare import LAST_APPLIED_HASH, last_applied, satisfies
from kindling.engine.dependencies import Api
from kindling.engine.plan import Apply
from kindling.kube.errors import NotFound, Rejected
from kindling.kube.resources import FIELD_MANAGER, Object, Ref, ref_of

INVALID = 422


async def apply_child(api: Api, action: Apply) -> Object:
    """:raises Refused: when the server will have it in neither way, in its words to the first.
    :raises Conflict: when it is to be new, and an object of that name exists.
    """
    if action.new:
        return await api.create(action.type, action.body)
    ref = ref_of(action.type, action.body)
    if action.removes_fields:
        with contextlib.suppress(NotFound):
            live = await api.get(ref)
            if _is_applied(action.body, live):
                return live  # what removed the fields was older than our own last write
            await _upgrade_managed_fields(api, ref, live)
    try:
        return await api.apply(action.type, action.body)
    except Rejected as error:
        if error.status != INVALID or "spec" not in action.body:
            raise
        try:
            await api.merge(ref, {"spec": action.body["spec"]})
        except Rejected:
            raise error from None
    applied = await api.apply(action.type, action.body)
    # The merge's own claim to the fields is given up: with it, an apply without one would not remove it.
    kept = [entry for entry in _managers(applied) if not _is_ours(entry, "Update")]
    return await _patch_managed_fields(api, ref, applied, kept)


def _is_applied(body: Object, live: Object) -> bool:
    """Whether it was the last that we wrote there, and is there still."""
    hash_, _ = last_applied(body)
    if not hash_ or hash_ != last_applied(live)[0]:
        return False
    meta = body["metadata"]
    annotations = {name: text for name, text in meta["annotations"].items() if name != LAST_APPLIED_HASH}
    return satisfies({**body, "metadata": {**meta, "annotations": annotations}}, live)


async def _upgrade_managed_fields(api: Api, ref: Ref, live: Object) -> None:
    """From what we created, and what we applied since, one claim: the latter."""
    created = [entry for entry in _managers(live) if _is_ours(entry, "Update")]
    if not created:
        return
    fields: Object = {}
    ours = [*created, *(entry for entry in _managers(live) if _is_ours(entry, "Apply"))]
    for entry in ours:
        fields = _union(fields, entry["fieldsV1"])
    others = [entry for entry in _managers(live) if entry not in ours]
    await _patch_managed_fields(
        api, ref, live, [*others, {**ours[-1], "operation": "Apply", "fieldsV1": fields}]
    )


async def _patch_managed_fields(api: Api, ref: Ref, seen: Object, managers: list[Object]) -> Object:
    version = seen["metadata"]["resourceVersion"]
    return await api.merge(ref, {"metadata": {"resourceVersion": version, "managedFields": managers}})


def _managers(obj: Object) -> list[Object]:
    return list(obj["metadata"].get("managedFields") or ())


def _is_ours(entry: Object, operation: str) -> bool:
    return (entry["manager"], entry["operation"]) == (FIELD_MANAGER, operation) and "subresource" not in entry


def _union(left: Object, right: Object) -> Object:
    """Of two sets of fields, as managedFields writes them: objects in objects, {} at the leaves."""
    return {**left, **{name: _union(left.get(name, {}), inner) for name, inner in right.items()}}
