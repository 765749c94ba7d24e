"""What a plan says to users: each change, the fields of the spec that cause it, and what it disrupts.

Derived from the very actions that are carried out (`engine.plan`), so nothing is decided here again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from kindling.kube.resources import DEPLOYMENT, STATEFUL_SET, VOLUME_CLAIM, Object, Ref

Path: TypeAlias = tuple[str, ...]
"""The way to a field of an object; an element of a list by its key."""

CREATE, UPDATE, RESTORE, DELETE = "Create", "Update", "Restore", "Delete"
"""What is done to a child."""
CONFIGURE, REFUSE, COMPARE = "Configure", "Refuse", "Compare"
"""What is done in a server; that something is not done at all; that it is not known yet."""

MOST_ITEMS, MOST_FIELDS = 64, 32
LONGEST_FIELD, LONGEST_MESSAGE = 256, 1024
"""What the CRDs admit."""


class Disruption(StrEnum):
    """What a change costs those who use the resource, the least first."""

    NONE = "None"
    RELOAD = "Reload"
    UNKNOWN = "Unknown"
    RESTART = "Restart"
    STOP = "Stop"
    DATA_LOST = "DataLost"


_ORDER = list(Disruption)


def is_above(one: Disruption, other: Disruption) -> bool:
    """Whether `one` costs more."""
    return _ORDER.index(one) > _ORDER.index(other)


def worst(disruptions: Iterable[Disruption]) -> Disruption:
    return max(disruptions, key=_ORDER.index, default=Disruption.NONE)


@dataclass(frozen=True, kw_only=True)
class Change:
    """One action on a child. `paths` are its fields that differ, `left` those that leave it.

    `drift`: the spec says what it said before, and another writer has changed the child. `template`: Pods of
    it are to be made in another way; `held`: those that run stay as they are all the same.
    """

    action: str
    ref: Ref
    paths: Sequence[Path] = ()
    left: Sequence[Path] = ()
    drift: bool = False
    held: bool = False

    @property
    def fields(self) -> Sequence[Path]:
        return [*self.paths, *self.left]

    @property
    def template(self) -> bool:
        """Whether it changes what the workload makes its Pods from."""
        workload = self.ref.type in (DEPLOYMENT, STATEFUL_SET)
        return workload and any(path[:2] == ("spec", "template") for path in self.fields)


@dataclass(frozen=True, kw_only=True)
class Item:
    """A line of the plan. `object` is KIND/NAME of a child, or a member; `fields` are those of the spec.

    `seconds` is how long the last disruption of this kind took, if that is known.
    """

    action: str
    object: str = ""
    fields: Sequence[str] = ()
    disruption: Disruption = Disruption.NONE
    message: str
    seconds: int | None = None

    def written(self) -> Object:
        """As the status has it."""
        found: Object = {
            "action": self.action,
            "disruption": str(self.disruption),
            "message": self.message[:LONGEST_MESSAGE],
        }
        if self.object:
            found["object"] = self.object
        if self.fields:
            names = sorted({name[:LONGEST_FIELD] for name in self.fields})
            found["fields"] = names[:MOST_FIELDS]
        if self.seconds is not None:
            found["seconds"] = self.seconds
        return found


def written(items: Sequence[Item]) -> Object:
    """`status.plan`. What is beyond MOST_ITEMS is counted in its last item, with the worst of it."""
    shown, more = list(items), items[MOST_ITEMS - 1 :]
    if len(items) > MOST_ITEMS:
        rest = Item(
            action=UPDATE,
            disruption=worst(item.disruption for item in more),
            message=f"{len(more)} more, which do not fit into the status.",
        )
        shown = [*items[: MOST_ITEMS - 1], rest]
    return {
        "disruption": str(worst(item.disruption for item in items)),
        "items": [item.written() for item in shown],
    }


def named(ref: Ref) -> str:
    return f"{ref.type.kind}/{ref.name}"


def of_change(change: Change) -> Disruption:
    """What it disrupts by itself, whichever kind it is of."""
    if change.action == DELETE and change.ref.type == VOLUME_CLAIM:
        return Disruption.DATA_LOST
    if change.action == DELETE and change.ref.type in (DEPLOYMENT, STATEFUL_SET):
        return Disruption.STOP
    restarts = change.action == UPDATE and change.template and not change.held
    return Disruption.RESTART if restarts else Disruption.NONE
