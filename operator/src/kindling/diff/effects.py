"""What a decision does to Pods and to data, by resource. Pure, and without what is in any Secret."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import orjson

from kindling.diff.decision import Decided
from kindling.engine.changes import value_at
from kindling.engine.plan import Action, Apply, Create, Delete
from kindling.kinds import reasons
from kindling.kinds.base import Kind
from kindling.kinds.conditions import find_condition, status_of
from kindling.kinds.planned import DELETE, UPDATE, Change, Disruption, named
from kindling.kube.resources import DEPLOYMENT, POD, SECRET, STATEFUL_SET, VOLUME_CLAIM, Object, Ref

AT_ONCE, IN_TURN = "AtOnce", "InTurn"
"""When Pods are replaced; else it is a reason of the condition RestartPending."""
STAY = frozenset({reasons.NEXT_RESTART, reasons.MANUAL})
"""Of these reasons: for those the operator restarts nothing."""
RESTARTS = (Disruption.RESTART, Disruption.DATA_LOST)
HIDDEN, ABSENT = "[secret]", "(none)"
LONGEST_VALUE = 120
MOST_FIELDS = 32
_SECRET_NAME = re.compile(r"passw|token|secret|credential|privatekey", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Field:
    """A field of a child before and after, as it may be shown."""

    path: str
    old: str
    new: str


@dataclass(frozen=True, kw_only=True)
class Effect:
    """One action on a child, KIND/NAME.

    `rolls` are the Pods that are replaced, and `when`; `stays` those that run on as they are until somebody
    restarts them; `stops` is how many end without another in their place. `data`: what happens to it.
    """

    action: str
    object: str
    disruption: str = str(Disruption.NONE)
    when: str = ""
    rolls: Sequence[str] = ()
    stays: Sequence[str] = ()
    stops: int = 0
    data: str = ""
    fields: Sequence[Field] = ()


@dataclass(frozen=True, kw_only=True)
class ResourceDiff:
    """What becomes of one resource.

    `reason` and `message` are those of its problem; `becomes_invalid` where its status does not have that
    yet. `unknown` says what follows from answers that nobody was asked for.
    """

    kind: str
    group: str
    namespace: str
    name: str
    reason: str = ""
    message: str = ""
    becomes_invalid: bool = False
    effects: Sequence[Effect] = ()
    decisions: Sequence[str] = ()
    unknown: Sequence[str] = ()

    @property
    def changes(self) -> bool:
        """Whether it does not stay as it is, as far as that is known."""
        return bool(self.becomes_invalid or self.effects or self.decisions)


def effects(kind: Kind, decided: Decided) -> ResourceDiff:
    """:param decided: what was decided for a resource of this kind."""
    meta, problem = decided.cr["metadata"], decided.problem
    ready = find_condition(status_of(decided.cr), "Ready")
    later = {change.ref: disruption for _, change, disruption in decided.in_turn}
    found = [_effect(decided, *each, later.pop(each[1].ref, None)) for each in decided.changes]
    found += [
        _effect(decided, action, change, Disruption.NONE, disruption)
        for action, change, disruption in decided.in_turn
        if change.ref in later  # Nothing is written for it before its turn.
    ]
    decisions = [f"status.{name}" for name in decided.decisions]
    unknown = [f"what is done in member {name}, which was not asked" for name in decided.members]
    if problem is not None and problem.transient:
        unknown.append(f"what is done once this has ended: {problem.message}")
    return ResourceDiff(
        kind=kind.type.kind,
        group=kind.type.group,
        namespace=meta["namespace"],
        name=meta["name"],
        reason=problem.reason if problem is not None else "",
        message=problem.message if problem is not None else "",
        becomes_invalid=problem is not None
        and not (problem.transient or decided.paused or ready.get("reason") == problem.reason),
        effects=found,
        decisions=[*decisions, *(["metadata.finalizers"] if decided.finalizer else [])],
        unknown=unknown,
    )


def _effect(
    decided: Decided, action: Action, change: Change, disruption: Disruption, later: Disruption | None
) -> Effect:
    known = decided.objects.get(change.ref)
    pods = sorted(_pods(known, decided.objects))
    rolls, when = disruption in RESTARTS, AT_ONCE
    if not rolls and later in RESTARTS:
        rolls, when, disruption = True, IN_TURN, later
    stays = not rolls and change.template and change.held and change.action == UPDATE
    if stays and pods:
        when = str((decided.pending or {}).get("reason") or reasons.NEXT_RESTART)
        rolls = when not in STAY
        disruption = decided.restarted.get(change.ref, disruption) if rolls else disruption
    return Effect(
        action=change.action,
        object=named(change.ref),
        disruption=str(disruption),
        when=when if pods and (rolls or stays) else "",
        rolls=pods if rolls else (),
        stays=pods if stays and not rolls else (),
        stops=_stopped(action, change, known, pods),
        data=_data(action, change, disruption, known),
        fields=list(_fields(action, change, known)),
    )


def _pods(workload: Object | None, objects: Mapping[Ref, Object]) -> Iterator[str]:
    """The Pods of a workload that have not ended, by its selector."""
    spec = (workload or {}).get("spec") or {}
    selector = (spec.get("selector") or {}).get("matchLabels") or {}
    if not selector or "template" not in spec:
        return
    for ref, pod in objects.items():
        labels = pod["metadata"].get("labels") or {}
        ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        going = ended or "deletionTimestamp" in pod["metadata"]
        if ref.type == POD and selector.items() <= labels.items() and not going:
            yield ref.name


def _stopped(action: Action, change: Change, known: Object | None, pods: Sequence[str]) -> int:
    if change.ref.type not in (DEPLOYMENT, STATEFUL_SET):
        return 0
    if isinstance(action, Delete):
        return len(pods)
    if not isinstance(action, Apply) or action.new:
        return 0
    before, after = ((each or {}).get("spec", {}).get("replicas") for each in (known, action.body))
    if before is None or after is None:
        return 0
    return min(len(pods), max(0, int(before) - int(after)))


def _data(action: Action, change: Change, disruption: Disruption, known: Object | None) -> str:
    if disruption == Disruption.DATA_LOST:
        return "is lost"
    if change.ref.type != VOLUME_CLAIM or change.action == DELETE or not isinstance(action, Apply):
        return ""
    if action.new or not any(path[:2] == ("spec", "resources") for path in change.paths):
        return ""
    size = ("spec", "resources", "requests", "storage")
    return f"the volume is resized: {_shown(value_at(known, size))} → {_shown(value_at(action.body, size))}"


def _fields(action: Action, change: Change, known: Object | None) -> Iterator[Field]:
    if isinstance(action, Delete | Create):
        return
    body = action.body if isinstance(action, Apply) else action.patch
    for path in [*change.paths, *change.left][:MOST_FIELDS]:
        secret = change.ref.type == SECRET or any(_SECRET_NAME.search(part) for part in path)
        old, new = value_at(known, path), None if path in change.left else value_at(body, path)
        sides = (HIDDEN, HIDDEN) if secret else (_shown(old), _shown(new))
        yield Field(path=".".join(path), old=sides[0], new=sides[1])


def _shown(value: object) -> str:
    if value is None:
        return ABSENT
    text = value if isinstance(value, str) else orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    if "\n" in text or len(text) > LONGEST_VALUE:
        return f"({len(text)} characters)"
    return text
