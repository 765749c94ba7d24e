"""From desired and observed to actions. The one place that says what is ours and may be written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from kindling.engine.compare import (
    ALL,
    field_set_hash,
    fingerprint,
    last_applied,
    satisfies,
    with_mark,
)
from kindling.kinds import reasons
from kindling.kinds.base import Child, Problem
from kindling.kinds.metadata import KIND_LABEL, MADE_BY, MANAGED_BY_LABEL, MANAGER, named_in
from kindling.kube.resources import SECRET, Object, Ref, ResourceType


@dataclass(frozen=True)
class Apply:
    """Server-side apply; `new` when the object is not there yet, and is to be created.

    `drift` when it exists, and what we desire is what we last applied: another writer has edited it.
    `removes_fields` when fields that we own by creation may have left the desired state: an apply keeps
    those.
    """

    type: ResourceType
    body: Object
    new: bool
    drift: bool = False
    removes_fields: bool = False


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


@dataclass(frozen=True)
class RestoreData:
    """Write the data of a `create_only` child once more, unless it has changed since this was decided.

    No apply: what is applied belongs to that apply, and goes with the next one that does not have it.
    """

    ref: Ref
    patch: Object


@dataclass(frozen=True)
class Update:
    """Merge these fields into a `create_only` child, unless it has changed since this was decided."""

    ref: Ref
    patch: Object


Action: TypeAlias = Apply | Create | RestoreData | Update | Delete


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to write, in order; with a problem, nothing.

    `later` is what comes once `actions` are done: children that need the uid of one that is made now.
    """

    actions: Sequence[Action] = ()
    later: Sequence[Action] = ()
    problem: Problem | None = None


def plan(
    *,
    type: ResourceType,
    cr: Object,
    desired: Sequence[Child],
    observed: Mapping[Ref, Object],
    prune: bool = True,
) -> Plan:
    """Only what differs. One object of a child's name that is not ours, and nothing at all is written.

    A child that `observed` does not hold is to be created, and by no means laid over what is there. With
    `prune`, what is ours and not desired is deleted.
    """
    ours = {cr["metadata"]["uid"]}
    gone = {child.ref for child in desired if child.ended and child.ref not in observed}
    for child in desired:
        known = observed.get(child.ref)
        if known is None:
            continue
        if child.handed_over:
            problem = _origin_problem(type, cr, child.ref, known)
        else:
            problem = None if child.frozen else _ownership_problem(type, cr, child.ref, known, ours=ours)
        if problem is not None and child.ended:
            gone.add(child.ref)  # another object may have the name of a child that is not needed any more
            continue
        if problem is not None:
            return Plan(problem=problem)
        if not child.handed_over:
            ours.add(known["metadata"]["uid"])  # what it owns in turn is ours too
    actions: list[Action] = []
    later: list[Action] = []
    blocked = False
    for child in desired:
        if child.ref in gone:
            continue
        blocked = blocked or child.blocked
        action = _action(child, observed.get(child.ref))
        if action is not None:
            (later if blocked else actions).append(action)
    if not prune:
        return Plan(actions=actions, later=later)
    wanted = {child.ref for child in desired}
    uid = cr["metadata"]["uid"]
    for ref, obj in observed.items():
        meta = obj["metadata"]
        if ref not in wanted and _controller(obj).get("uid") == uid and "deletionTimestamp" not in meta:
            actions.append(Delete(ref, meta["uid"], meta["resourceVersion"]))
    return Plan(actions=actions, later=later)


def _action(child: Child, known: Object | None) -> Action | None:
    if (child.frozen or child.handed_over) and known is not None:
        return None
    if child.create_only:
        if known is None:
            return Create(child.type, child.body)
        meta = child.body["metadata"]
        if child.update is not None and not satisfies(child.update, known):
            return Update(child.ref, _for_this_version(known, child.update))
        if child.restore_data:
            return RestoreData(child.ref, _for_this_version(known, {"data": child.body["data"]}))
        if satisfies(meta, known["metadata"]):
            return None
        # With the uid it had, so that this can never bring forth an empty object of that name.
        return Apply(child.type, {"metadata": {**meta, "uid": known["metadata"]["uid"]}}, new=False)
    hash_ = fingerprint(child.body)
    if known is None:
        return Apply(child.type, with_mark(child.body, hash_, field_set_hash(child.body)), new=True)
    last, form = last_applied(known)
    if last == hash_ and satisfies(child.body, known):
        return None
    removes_fields = form not in (ALL, field_set_hash(child.body))
    return Apply(
        child.type,
        with_mark(child.body, hash_, ALL if removes_fields else form),
        new=False,
        # The hash has nothing of a Secret's values, so it does not show who changed them.
        drift=last == hash_ and child.type != SECRET,
        removes_fields=removes_fields,
    )


def _for_this_version(known: Object, patch: Object) -> Object:
    return {"metadata": {"resourceVersion": known["metadata"]["resourceVersion"]}, **patch}


def _ownership_problem(
    type: ResourceType, cr: Object, ref: Ref, known: Object, *, ours: set[str]
) -> Problem | None:
    """Why an existing object of a child's name must not be written, if so."""
    meta, mine = known["metadata"], cr["metadata"]
    labels, controller = meta.get("labels") or {}, _controller(known)
    owned = any(owner["uid"] in ours for owner in meta.get("ownerReferences") or ())
    labelled = (
        labels.get(MANAGED_BY_LABEL) == MANAGER
        and labels.get(KIND_LABEL) == type.group_kind
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
            reason=reasons.TERMINATING,
            message=f"{ref} of an earlier {type.kind} is still being deleted; it is created again later.",
            transient=True,
        )
    if owned or (labelled and not controller):
        return None
    whose = (
        f"belongs to {controller['kind']} {controller['name']}"
        if controller
        else "was not created by Kindling"
    )
    if labels.get(KIND_LABEL) and labels.get(KIND_LABEL) != type.group_kind:
        whose = f"belongs to the {labels[KIND_LABEL]} of this name"
    # What has a controller would be made again by it: the owner is what has to go.
    other = f"{controller['kind']} {controller['name']}" if controller else ref.type.kind
    return Problem(
        reason=reasons.NAME_CONFLICT,
        message=f"{ref}, which {type.kind} {mine['name']} needs, exists and {whose}; it was not changed. "
        f"Create this {type.kind} under another name, or delete that {other}.",
    )


def _origin_problem(type: ResourceType, cr: Object, ref: Ref, known: Object) -> Problem | None:
    """Why an object that is to be handed over was not made by this resource, if so."""
    if (known["metadata"].get("annotations") or {}).get(MADE_BY) == cr["metadata"]["uid"]:
        return None
    return Problem(
        reason=reasons.NAME_CONFLICT,
        message=f"{ref}, which {type.kind} {cr['metadata']['name']} is to make, exists already; it was not "
        f"changed. Use another name, or delete that {ref.type.kind}.",
    )


def _controller(obj: Object) -> Object:
    found: Object
    for found in obj["metadata"].get("ownerReferences") or ():
        if found.get("controller"):
            return found
    return {}
