"""From desired and observed to actions. The one place that says what is ours and may be written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from kindling.engine.compare import ALL, APPLIED, fingerprint, holds, shape
from kindling.kinds.contract import KIND_LABEL, MANAGED_BY_LABEL, MANAGER, Child, Problem, named_in
from kindling.kube.resources import SECRET, Object, Ref, ResourceType


@dataclass(frozen=True)
class Apply:
    """Server-side apply; `new` when the object is not there yet, and is to be created.

    `drift` when it is, and what we desire is what we last applied: somebody else has edited it. `reshaped`
    when fields may have gone from what we desire that are ours by creation, which an apply leaves there.
    """

    type: ResourceType
    body: Object
    new: bool
    drift: bool = False
    reshaped: bool = False


@dataclass(frozen=True)
class Create:
    """Plain create of something whose content is never written again."""

    type: ResourceType
    body: Object


@dataclass(frozen=True)
class Delete:
    """Remove what is ours and no longer desired; the uid and version it had when that was decided."""

    ref: Ref
    uid: str
    resource_version: str


Action: TypeAlias = Apply | Create | Delete


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to write, in order; with a problem, nothing."""

    actions: Sequence[Action] = ()
    problem: Problem | None = None


def plan(*, type: ResourceType, cr: Object, desired: Sequence[Child], observed: Mapping[Ref, Object]) -> Plan:
    """Only what differs. One object of a child's name that is not ours, and nothing at all is written.

    A child that `observed` does not hold is to be created, and by no means laid over what is there.
    """
    ours = {cr["metadata"]["uid"]}
    for child in desired:
        known = observed.get(child.ref)
        if known is None:
            continue
        problem = None if child.held else _obstacle(type, cr, child.ref, known, ours=ours)
        if problem is not None:
            return Plan(problem=problem)
        ours.add(known["metadata"]["uid"])  # what it owns in turn is ours too
    actions: list[Action] = []
    for child in desired:
        if child.waits:
            break
        action = _action(child, observed.get(child.ref))
        if action is not None:
            actions.append(action)
    wanted = {child.ref for child in desired}
    uid = cr["metadata"]["uid"]
    for ref, obj in observed.items():
        meta = obj["metadata"]
        if ref not in wanted and _controller(obj).get("uid") == uid and "deletionTimestamp" not in meta:
            actions.append(Delete(ref, meta["uid"], meta["resourceVersion"]))
    return Plan(actions=actions)


def _action(child: Child, known: Object | None) -> Action | None:
    if child.held and known is not None:
        return None
    if child.once:
        if known is None:
            return Create(child.type, child.body)
        meta = child.body["metadata"]
        if holds(meta, known["metadata"]):
            return None
        # With the uid it had, so that this can never bring forth an empty object of that name.
        return Apply(child.type, {"metadata": {**meta, "uid": known["metadata"]["uid"]}}, new=False)
    mark = fingerprint(child.body)
    if known is None:
        return Apply(child.type, _marked(child.body, f"{mark}.{shape(child.body)}"), new=True)
    applied = str(known["metadata"].get("annotations", {}).get(APPLIED))
    last, _, form = applied.partition(".")
    if last == mark and holds(child.body, known):
        return None
    reshaped = form not in (ALL, shape(child.body))
    return Apply(
        child.type,
        _marked(child.body, f"{mark}.{ALL if reshaped else form}"),
        new=False,
        # The mark holds nothing of a Secret's values, so there it can not tell whose change it was.
        drift=last == mark and child.type != SECRET,
        reshaped=reshaped,
    )


def _marked(body: Object, mark: str) -> Object:
    meta = body["metadata"]
    return {**body, "metadata": {**meta, "annotations": {**meta.get("annotations", {}), APPLIED: mark}}}


def _obstacle(type: ResourceType, cr: Object, ref: Ref, known: Object, *, ours: set[str]) -> Problem | None:
    """Why an existing object of a child's name must not be written, if so."""
    meta, mine = known["metadata"], cr["metadata"]
    labels, controller = meta.get("labels") or {}, _controller(known)
    owned = any(owner["uid"] in ours for owner in meta.get("ownerReferences") or ())
    labelled = (
        labels.get(MANAGED_BY_LABEL) == MANAGER
        and labels.get(KIND_LABEL) == type.label
        and named_in(labels) == mine["name"]
    )
    earlier = (
        controller.get("uid") not in (None, mine["uid"])
        and controller.get("name") == mine["name"]
        and controller.get("kind") == type.kind
        and controller.get("apiVersion", "").split("/")[0] == type.group
    )
    if ((owned or labelled) and "deletionTimestamp" in meta) or earlier:
        return Problem(
            reason="Terminating",
            message=f"{ref} of an earlier {type.kind} is still being removed; it is made anew after that.",
            passing=True,
        )
    if owned or (labelled and not controller):
        return None
    whose = (
        f"belongs to {controller['kind']} {controller['name']}" if controller else "was not made by Kindling"
    )
    if labels.get(KIND_LABEL) and labels.get(KIND_LABEL) != type.label:
        whose = f"belongs to the {labels[KIND_LABEL]} of this name"
    # What has a controller would be made again by it: the owner is what has to go.
    other = f"{controller['kind']} {controller['name']}" if controller else ref.type.kind
    return Problem(
        reason="NameConflict",
        message=f"{ref}, which {type.kind} {mine['name']} needs, exists and {whose}; it was not touched. "
        f"Create this {type.kind} under another name, or delete that {other}.",
    )


def _controller(obj: Object) -> Object:
    found: Object
    for found in obj["metadata"].get("ownerReferences") or ():
        if found.get("controller"):
            return found
    return {}
