"""A decision as a record has it: what it was taken from, and what it was. Pure.

`seen` writes down all of `Observed`, and `observed` reads it again. What a member answered counts only if it
was an answer to just this question, which an opaque cache key decides: written down is whether it was, each
time that the kind asked (`Asking`).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

from kindling.engine.changes import changes
from kindling.engine.compare import fingerprint, last_applied, with_mark
from kindling.engine.finalizers import is_deleted
from kindling.engine.plan import Plan, plan
from kindling.engine.redaction import Redactor, is_word, metadata, without
from kindling.kinds.base import (
    CachedResult,
    Child,
    ExternalAction,
    ExternalResult,
    Kind,
    Observed,
    Problem,
    RestartSlot,
    StatusReport,
    SyncResult,
    WarningEvent,
)
from kindling.kinds.metadata import MANAGED_BY_LABEL, MANAGER
from kindling.kinds.planned import Change, named
from kindling.kube.resources import CONFIG_MAP, SECRET, Object, Ref, ResourceType

CHILDREN, OUTSIDE, STATUS = "children", "outside", "status"
"""What was decided: writes of children, actions outside of the API server, the status."""


@dataclass(frozen=True, kw_only=True)
class Asking(Observed):
    """Notes of each question to a member whether its last answer was one to it."""

    answered: dict[str, list[bool]] = field(default_factory=dict)

    def result(self, member: str, cache_key: Hashable) -> ExternalResult | None:
        found = super().result(member, cache_key)
        if member in self.results:
            self.answered.setdefault(member, []).append(found is not None)
        return found


@dataclass(frozen=True, kw_only=True)
class Replayed(Observed):
    """Says for each question what was noted; for more of them than there were, what was noted last.

    `as_applied`: the children that were as the operator had applied them, or had been edited since. The hash
    that shows it is of what a record does not have.
    """

    answered: Mapping[str, Sequence[bool]] = field(default_factory=dict)
    as_applied: frozenset[str] = frozenset()
    _asked: dict[str, int] = field(default_factory=dict)

    def result(self, member: str, cache_key: Hashable) -> ExternalResult | None:
        known, noted = self.results.get(member), self.answered.get(member)
        if known is None or not noted:
            return None
        number = self._asked.get(member, 0)
        self._asked[member] = number + 1
        return known.result if noted[min(number, len(noted) - 1)] else None


def of_plan(found: Plan, observed: Mapping[Ref, Object]) -> Object:
    """A decision about children."""
    return {
        "problem": asdict(found.problem) if found.problem is not None else None,
        "changes": [said for each in changes(found, observed) if (said := _change(each))],
    }


def of_actions(actions: Sequence[ExternalAction]) -> Object:
    """A decision about what is outside of the API server."""
    return {"actions": [f"{action.name} {action.member}" for action in actions]}


def of_status(report: StatusReport) -> Object:
    return {"status": report.status}


def decided(kind: Kind, cr: Object, observed: Observed, what: str, *, sync: SyncResult | None) -> Object:
    """The decision, taken once more."""
    if what == STATUS:
        return of_status(kind.status(cr, observed, sync or SyncResult(in_sync=False)))
    if what == OUTSIDE and is_deleted(cr):
        return of_actions(kind.finish(cr, observed).actions)
    if what == OUTSIDE:
        return of_actions(kind.external_actions(cr, observed))
    wanted = [_with_words(child, observed) for child in _children(kind, cr, observed)]
    objects = dict(observed.objects)
    for child in wanted:
        if isinstance(observed, Replayed) and named(child.ref) in observed.as_applied:
            known = objects[child.ref]
            objects[child.ref] = with_mark(known, fingerprint(child.body), last_applied(known)[1])
    found = plan(type=kind.type, cr=cr, desired=wanted, observed=objects, prune=not is_deleted(cr))
    return of_plan(found, objects)


def _children(kind: Kind, cr: Object, observed: Observed) -> Sequence[Child]:
    return kind.finish(cr, observed).children if is_deleted(cr) else kind.desired(cr, observed)


def _rendered(kind: Kind, cr: Object, observed: Observed) -> list[Object]:
    """The children as they are to be now, but for Secrets; none of a resource that is refused."""
    if not is_deleted(cr) and kind.validate(cr, observed) is not None:
        return []
    return [child.body for child in _children(kind, cr, observed) if child.type != SECRET]


def _with_words(child: Child, observed: Observed) -> Child:
    """Of a Secret, the words that a record has in place of its values: what they were is not known."""
    known = (observed.objects.get(child.ref) or {}).get("data") or {}
    data = child.body.get("data")
    if child.type != SECRET or not isinstance(data, dict):
        return child
    words = {name: known[name] for name in data if name in known and is_word(known[name])}
    return replace(child, body={**child.body, "data": {**data, **words}}) if words else child


def _change(change: Change) -> Object | None:
    """None for the values of a Secret, which no record has; that one is made or deleted is one."""
    paths = [path for path in change.fields if change.ref.type != SECRET or path[0] != "data"]
    if change.ref.type == SECRET and not paths and change.action not in ("Create", "Delete"):
        return None
    found: Object = {"action": change.action, "object": named(change.ref)}
    if paths:
        found["fields"] = [".".join(path) for path in paths]
    if change.drift:
        found["drift"] = True
    return found


def seen(
    redactor: Redactor, kind: Kind, cr: Object, observed: Asking, decision: Object, sync: SyncResult | None
) -> Object:
    """What a decision was taken from, and the decision, without anything secret."""
    others = {Ref(CONFIG_MAP, cr["metadata"]["namespace"], name) for name in kind.config_maps(cr)}
    taken = redactor.taken(cr)
    rendered = _rendered(kind, cr, replace(observed, answered={})) if observed.objects else []
    kept = redactor.named(rendered)

    def written(objects: Mapping[Ref, Object]) -> list[Object]:
        items = [_object(redactor, ref, obj, others) for ref, obj in objects.items()]
        return [
            item if ref.type == SECRET else redactor.child(item, taken, kept)
            for ref, item in zip(objects, items, strict=True)
        ]

    found: Object = {
        "resource": metadata(cr),
        "now": observed.now.isoformat(),
        "objects": written(observed.objects),
        "watched": written(observed.watched),
        "results": {member: _cached(known) for member, known in observed.results.items()},
        "answered": observed.answered,
        "restartSlot": asdict(observed.restart_slot),
        "warnings": [{**_ref(ref), "event": event._asdict()} for ref, event in observed.warnings.items()],
    }
    if observed.unserved:
        found["unserved"] = [asdict(type) for type in observed.unserved]
    if sync is not None:
        found["sync"] = {
            "inSync": sync.in_sync,
            "problem": asdict(sync.problem) if sync.problem is not None else None,
            "paused": sync.paused,
            "changes": [_planned(change) for change in sync.changes],
            "results": {member: asdict(result) for member, result in sync.results.items()},
        }
    if taken and "changes" in decision:
        found["asApplied"] = _as_applied(observed.objects, decision["changes"])
    entry: Object = without({"seen": found, "decided": decision}, taken)
    return entry


def observed(found: Object) -> Replayed:
    """From what `seen` wrote down; it has no entropy, so what is random comes out otherwise."""
    return Replayed(
        objects={_read_ref(item): item["object"] for item in found["objects"]},
        now=datetime.fromisoformat(found["now"]),
        entropy=bytes(32),
        watched={_read_ref(item): item["object"] for item in found["watched"]},
        results={member: _read_cached(item) for member, item in found["results"].items()},
        restart_slot=RestartSlot(**found["restartSlot"]),
        warnings={_read_ref(item): WarningEvent(**item["event"]) for item in found["warnings"]},
        unserved=frozenset(ResourceType(**type) for type in found.get("unserved", ())),
        answered=found["answered"],
        as_applied=frozenset(found.get("asApplied", ())),
    )


def sync_of(found: Object) -> SyncResult | None:
    """What came of the writes, where a status was decided."""
    if (said := found.get("sync")) is None:
        return None
    return SyncResult(
        in_sync=said["inSync"],
        problem=Problem(**said["problem"]) if said["problem"] is not None else None,
        paused=said["paused"],
        changes=[_read_planned(item) for item in said["changes"]],
        results={member: ExternalResult(**result) for member, result in said["results"].items()},
    )


def _planned(change: Change) -> Object:
    return {**_ref(change.ref), "change": {**asdict(change), "ref": None}}


def _read_planned(item: Object) -> Change:
    said = item["change"]
    paths = {name: [tuple(path) for path in said[name]] for name in ("paths", "left")}
    return Change(**{**said, **paths, "ref": _read_ref(item)})


def _object(redactor: Redactor, ref: Ref, obj: Object, others: set[Ref]) -> Object:
    obj = metadata(obj)
    if ref.type == SECRET and obj.get("data"):
        obj = {**obj, "data": redactor.secret(obj["data"], ours=_is_ours(obj))}
    if ref in others:
        # A user's: it may be anything.
        obj = {**obj, "data": {name: redactor.word(text) for name, text in (obj.get("data") or {}).items()}}
        obj.pop("binaryData", None)
    return {**_ref(ref), "object": obj}


def _as_applied(objects: Mapping[Ref, Object], decided: Sequence[Object]) -> list[str]:
    applied = {each["object"] for each in decided if not each.get("drift")}
    return [
        name for ref, obj in objects.items() if last_applied(obj)[0] and (name := named(ref)) not in applied
    ]


def _is_ours(obj: Object) -> bool:
    return (obj["metadata"].get("labels") or {}).get(MANAGED_BY_LABEL) == MANAGER


def _ref(ref: Ref) -> Object:
    return {"type": asdict(ref.type), "namespace": ref.namespace, "name": ref.name}


def _read_ref(item: Object) -> Ref:
    return Ref(ResourceType(**item["type"]), item["namespace"], item["name"])


def _cached(known: CachedResult) -> Object:
    return {"key": _written(known.cache_key), "result": asdict(known.result), "at": known.at.isoformat()}


def _read_cached(item: Object) -> CachedResult:
    return CachedResult(
        cache_key=_read(item["key"]),
        result=ExternalResult(**item["result"]),
        at=datetime.fromisoformat(item["at"]),
    )


def _written(key: Hashable) -> Any:
    """A cache key as far as JSON has it: lists for tuples, and text for what only stands for something."""
    if isinstance(key, tuple):
        return [_written(item) for item in key]
    return key if key is None or isinstance(key, str | int | float) else type(key).__name__


def _read(key: Any) -> Hashable:
    return tuple(_read(item) for item in key) if isinstance(key, list) else key
