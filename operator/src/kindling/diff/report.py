"""The differences of all resources as one sentence, as a table, and as JSON. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from kindling.diff.effects import AT_ONCE, IN_TURN, Effect, Field, ResourceDiff
from kindling.kinds import reasons
from kindling.kinds.planned import CREATE, DELETE
from kindling.kube.resources import ResourceType

NOT_COVERED = "Not covered: rules of new definitions that refuse a resource, and what is done in servers."
_WHEN = {
    AT_ONCE: "at once",
    IN_TURN: "in its turn, one database after another",
    reasons.AWAITING_WINDOW: "in its maintenance window",
    reasons.QUEUED: "in its turn, one database after another",
    reasons.RESTARTS_HALTED: "once the restart queue is no longer halted",
}
_MOST_NAMED = 5


@dataclass(frozen=True, kw_only=True)
class Differences:
    """`resources` has every resource, `not_served` the kinds whose definition the cluster does not have."""

    resources: Sequence[ResourceDiff]
    not_served: Sequence[ResourceType] = ()

    @property
    def effects(self) -> Sequence[Effect]:
        return [effect for resource in self.resources for effect in resource.effects]

    @property
    def changed(self) -> Sequence[ResourceDiff]:
        return [resource for resource in self.resources if resource.changes]

    @property
    def not_asked(self) -> Sequence[ResourceDiff]:
        return [resource for resource in self.resources if resource.unknown]


def summary(found: Differences) -> str:
    """Which Pods roll, what becomes invalid, which data is touched; then what is not known."""
    said = ", ".join(_parts(found) if found.changed else ["nothing changes", _stay(len(found.resources))])
    unknown = len(found.not_asked)
    return said + (f"; not known of {_counted(unknown, 'resource')}: what servers say" if unknown else "")


def _stay(total: int) -> str:
    return f"{_verb(total, 'resource', 'stays as it is', 'stay as they are')}"


def _parts(found: Differences) -> Iterator[str]:
    rolls = sum(len(effect.rolls) for effect in found.effects)
    stays = sum(len(effect.stays) for effect in found.effects)
    stops = sum(effect.stops for effect in found.effects)
    yield _verb(rolls, "Pod", "rolls", "roll") if rolls else "no Pods roll"
    if stays:
        yield f"{_verb(stays, 'Pod', 'stays', 'stay')} of the earlier template until restarted"
    if stops:
        yield _verb(stops, "Pod", "stops", "stop")
    totals = Counter(resource.kind for resource in found.resources)
    invalid = Counter(resource.kind for resource in found.resources if resource.becomes_invalid)
    for kind, number in sorted(invalid.items()):
        yield f"{number} of {totals[kind]} {kind} {'becomes' if number == 1 else 'become'} invalid"
    if not invalid:
        yield "no resource becomes invalid"
    deleted = sum(effect.action == DELETE for effect in found.effects)
    if deleted:
        yield f"{_verb(deleted, 'object', 'is', 'are')} deleted"
    touched = sum(any(effect.data for effect in resource.effects) for resource in found.resources)
    yield f"the data of {_counted(touched, 'resource')} is touched" if touched else "no data is touched"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _verb(number: int, noun: str, one: str, many: str) -> str:
    return f"{_counted(number, noun)} {one if number == 1 else many}"


def text(found: Differences) -> str:
    """For a terminal: the sentence, then a row for each change of a resource."""
    lines = [summary(found)]
    rows = [(_called(each), object, what) for each in found.changed for object, what, _ in rows_of(each)]
    if rows:
        rows = [("RESOURCE", "OBJECT", "EFFECT"), *rows]
        first, second = (max(len(row[column]) for row in rows) for column in (0, 1))
        lines += ["", *(f"{row[0]:{first}}  {row[1]:{second}}  {row[2]}".rstrip() for row in rows)]
    for each in found.changed:
        for effect in each.effects:
            if effect.fields:
                lines += ["", f"{_called(each)} {effect.object}:", *map(_line, effect.fields)]
    lines += [
        "",
        *(f"The cluster has no definition of {type.plural}.{type.group} yet." for type in found.not_served),
        NOT_COVERED,
    ]
    return "\n".join(lines) + "\n"


def rows_of(resource: ResourceDiff) -> Iterator[tuple[str, str, Sequence[Field]]]:
    """Object, effect and fields of each change."""
    if resource.becomes_invalid:
        yield "", f"becomes invalid: {resource.reason}: {resource.message}", ()
    for effect in resource.effects:
        yield effect.object, _what(effect), effect.fields
    for name in resource.decisions:
        yield name, "is written", ()
    if resource.changes:
        for unknown in resource.unknown:
            yield "", f"not known: {unknown}", ()


def _what(effect: Effect) -> str:
    done = {CREATE: "is created", DELETE: "is deleted"}.get(effect.action, "is updated")
    parts = [done]
    if effect.rolls:
        parts.append(f"{_pods(effect.rolls)} {_rolls(effect.rolls)}, {_WHEN.get(effect.when, effect.when)}")
    if effect.stays:
        stay = "stays" if len(effect.stays) == 1 else "stay"
        parts.append(f"{_pods(effect.stays)} {stay} until restarted ({effect.when})")
    if effect.stops:
        parts.append(_verb(effect.stops, "Pod", "stops", "stop"))
    if effect.data:
        parts.append(f"data: {effect.data}")
    if not parts[1:] and effect.action not in (CREATE, DELETE):
        parts.append("no Pod is replaced")
    return "; ".join(parts)


def _pods(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"{'Pod' if len(names) == 1 else 'Pods'} {', '.join(names[:_MOST_NAMED])}{more}"


def _rolls(names: Sequence[str]) -> str:
    return "rolls" if len(names) == 1 else "roll"


def _called(resource: ResourceDiff) -> str:
    return f"{resource.kind} {resource.namespace}/{resource.name}"


def _line(field: Field) -> str:
    return f"  {field.path}: {field.old} → {field.new}"


def written(found: Differences) -> dict[str, Any]:
    """As JSON: the resources that change, or of which something is not known, each with the table's rows."""
    shown = [resource for resource in found.resources if resource.changes or resource.unknown]
    return {
        "summary": summary(found),
        "changes": bool(found.changed),
        "total": len(found.resources),
        "resources": [
            {
                **asdict(resource),
                "changes": resource.changes,
                "rows": [
                    {"object": object, "effect": what, "fields": [asdict(field) for field in fields]}
                    for object, what, fields in rows_of(resource)
                ],
            }
            for resource in shown
        ],
        "notServed": [f"{type.plural}.{type.group}" for type in found.not_served],
        "notCovered": NOT_COVERED,
    }
