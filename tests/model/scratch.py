"""A fresh cluster with the same resources: the outcome of a history must not depend on the history.

Other writers' objects and the data are kept: volumes, and the Secrets that belong to them; and certificates,
which last for a time. Everything else that the operator created is created from nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from kindling.kinds.base import Kind
from kindling.kinds.conditions import find_condition
from kindling.kinds.metadata import KIND_LABEL, MANAGED_BY_LABEL, MANAGER, named_in
from kindling.kinds.postgresql.volume import USER_ANNOTATION
from kindling.kube.resources import SECRET, VOLUME_CLAIM, Object, Ref

from tests.differences import differences
from tests.model.world import KINDS_BY_NAME, World

# What a resource remembers by design, or is left to others: the rest must not depend on the past.
# Two hashes have the parameters in them that a Pod was started for; the rest of them is compared for itself.
HASHED = ("kindling.dev/asked", "kindling.dev/template")
TIMES = (
    "lastChangedTime",
    "since",
    "measuredAt",
    "growthSince",
    "lastScaleTime",
    "at",
    "nextRotation",
    "notAfter",
)
REMEMBERED = (
    "kindling.dev/parameters",
    *HASHED,
    "kindling.dev/last-applied-hash",
    "version",
    "somebody",
    *TIMES,
)
KEPT = ("namespace", "name", "labels")
CERTIFICATES = ("-server-ca", "-server-tls")
"""How the names of Secrets end whose content is of the moment at which it was made."""
AUTHORITIES = "-binding.data.ca.crt: "
"""A deleted authority's successor stands beside it until the server is seen to serve the new certificate, and
no server here says what it serves.
"""


def diff_from_fresh(past: World) -> Iterator[str]:
    """How the resources of a world in its steady state differ from the same ones in a fresh world.

    Of a resource that is refused, paused or in conflict with another only the verdict is compared: by design
    it keeps the children that it had, and one that waits for an approval its Pod. Nor is a resource compared
    that watches such an object.
    """
    fresh = _fresh(past)
    then, now = (world.api.state(remembered=REMEMBERED) for world in (past, fresh))
    for ref, obj in past.api.objects.items():
        if (
            ref.type.group_kind not in KINDS_BY_NAME
            or KINDS_BY_NAME[ref.type.group_kind].paused(obj)
            or _in_conflict(obj)
            or (obj.get("status") or {}).get("approvals")
        ):
            continue
        if _looks_at_what_one_has(past, fresh, obj, KINDS_BY_NAME[ref.type.group_kind]):
            continue
        verdict, other = (
            find_condition(world.api.objects[ref]["status"], "Ready") for world in (past, fresh)
        )
        if verdict["reason"] != other["reason"]:
            yield f"{ref}: {verdict} != {other}"
        elif verdict["status"] == "True":
            own = {
                child
                for world in (past, fresh)
                for child in world.api.objects
                # What a Job did is in the status; the Job may be gone.
                if owner(world, child) == ref and child.type.plural != "jobs" and not _is_kept(child, fresh)
            }
            for child in (ref, *own):
                left, right = then.get(child), now.get(child)
                if child == ref:
                    left, right = (_undated(s, w.api.objects[ref]) for s, w in ((left, past), (right, fresh)))
                found = differences(left, right, str(child))
                yield from (each for each in found if AUTHORITIES not in each)


def _undated(state: Any, obj: Object) -> Any:
    """Without the moment at which a broker set the subscription back, which the message says, too."""
    at = (obj["status"].get("replay") or {}).get("at")
    return json.loads(json.dumps(state).replace(at, "MOMENT")) if at else state


def _is_kept(child: Ref, fresh: World) -> bool:
    """The Secret of a role that has left the spec is kept, and that of a login or of TLS that was turned off:
    the operator deletes none. In a fresh world nobody made it, or it has no owner.
    """
    if child.type != SECRET:
        return False
    return not fresh.api.objects.get(child, {"metadata": {}})["metadata"].get("ownerReferences")


def owner(world: World, child: Ref) -> Ref | None:
    """Whose child it says it is."""
    labels = world.api.objects[child]["metadata"].get("labels") or {}
    kind = KINDS_BY_NAME.get(labels.get(KIND_LABEL, ""))
    return Ref(kind.type, child.namespace, named_in(labels) or "") if kind else None


def _children(world: World, ref: Ref) -> list[Ref]:
    return [child for child in world.api.objects if owner(world, child) == ref]


def _fresh(past: World) -> World:
    """A name in dispute goes to the resource that had it before."""
    fresh = World()
    for ref, obj in past.api.objects.items():
        labels = obj["metadata"].get("labels") or {}
        ours = ref.type.group_kind not in KINDS_BY_NAME and labels.get(MANAGED_BY_LABEL) == MANAGER
        if ref.type == VOLUME_CLAIM or not (ours or _in_conflict(obj)):
            fresh.api.put(ref.type, _bare(obj))
    for ref, obj in past.api.objects.items():
        if ref.type == SECRET and ref.name.endswith(CERTIFICATES) and ref not in fresh.api.objects:
            fresh.api.put(SECRET, _bare(obj))
        for keeper in obj["metadata"].get("ownerReferences") or ():
            if ref.type == SECRET and keeper["kind"] == VOLUME_CLAIM.kind:
                volume = fresh.api.objects[Ref(VOLUME_CLAIM, ref.namespace, keeper["name"])]
                secret = _bare(obj)
                secret["metadata"]["ownerReferences"] = [{**keeper, "uid": volume["metadata"]["uid"]}]
                fresh.api.put(SECRET, secret)
    fresh.restart()
    fresh.settle()
    for ref, obj in past.api.objects.items():
        if ref.type.group_kind in KINDS_BY_NAME and _in_conflict(obj):
            fresh.api.put(ref.type, _bare(obj))
    fresh.settle()
    fresh.wait_long()
    return fresh


def _bare(obj: Object) -> Object:
    meta = {name: obj["metadata"][name] for name in KEPT if name in obj["metadata"]}
    user = (obj["metadata"].get("annotations") or {}).get(USER_ANNOTATION)
    if user is not None:  # whose data a volume has is known of the data, not of the past
        meta["annotations"] = {USER_ANNOTATION: user}
    return {**{name: value for name, value in obj.items() if name != "status"}, "metadata": meta}


def _looks_at_what_one_has(past: World, fresh: World, obj: Object, kind: Kind) -> bool:
    """Whether it looks at a child of ours that one world has alone, whose owner is judged for itself."""
    only = past.api.objects.keys() ^ fresh.api.objects.keys()
    return any(
        (child.type, child.name) == (look.type, look.name)
        and look.namespace in (None, child.namespace)
        and owner(past if child in past.api.objects else fresh, child) is not None
        for look in kind.watched_objects(obj)
        for child in only
    )


def _in_conflict(obj: Object) -> bool:
    return find_condition(obj.get("status") or {}, "Ready").get("reason") == "NameConflict"
