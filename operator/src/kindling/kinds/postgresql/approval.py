"""Acts that wait for an approval: whose disruption is above `spec.approval.above`.

Each act has a name of its own, a hash of all that it does. Whoever approves it writes that name into the
annotation APPROVED of the resource; another spec or another template has another name, so what was approved
is what is done. An open maintenance window approves a restart, and nothing that loses data.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from kindling.kinds.base import Observed
from kindling.kinds.planned import Disruption, is_above
from kindling.kinds.postgresql import maintenance_window
from kindling.kube.resources import Object, ResourceType

APPROVED = "kindling.dev/approved"
"""Annotation of the resource: the names of the approved acts, separated by commas."""
AWAITED = "kindling.dev/awaits-approval"
"""Annotation of the StatefulSet: the name of the restart that waits, with its disruption: `NAME Restart`."""
FIELD = "spec.approval"
PATH = ("metadata", "annotations", AWAITED)
"""Where the StatefulSet has it, as the path of a change."""

LONGEST_APPROVED = 1024
"""So many characters of the annotation are read: two names take 21."""


@dataclass(frozen=True, kw_only=True)
class Act:
    """One that waits. `message` says what it does, as the status has it."""

    name: str
    disruption: Disruption
    message: str = ""

    def written(self) -> Object:
        """As the status has it."""
        return {"name": self.name, "disruption": str(self.disruption), "message": self.message}


def is_required(cr: Object, disruption: Disruption) -> bool:
    """Whether the spec has an act of this disruption wait."""
    above = ((cr.get("spec") or {}).get("approval") or {}).get("above")
    return above is not None and is_above(disruption, Disruption(above))


def awaited(cr: Object, observed: Observed, disruption: Disruption, *does: str) -> Act | None:
    """The act of this disruption that does `does`, while it may not be carried out yet.

    With something in `does` that is never the same again, what was approved once is not approved for ever.
    """
    if not is_required(cr, disruption):
        return None
    name = _name(cr, does)
    by_window = disruption == Disruption.RESTART and maintenance_window.is_open(cr, observed.now)
    if name in _approved(cr) or by_window:
        return None
    return Act(name=name, disruption=disruption)


def opens(cr: Object, act: Act, now: datetime) -> datetime | None:
    """When the window opens that approves it; None without one."""
    by_window = act.disruption == Disruption.RESTART and maintenance_window.is_given(cr)
    return maintenance_window.opens(cr, now) if by_window else None


def note(act: Act) -> str:
    """The value of AWAITED."""
    return f"{act.name} {act.disruption}"


def noted(workload: Object | None) -> Act | None:
    """The restart that waits, by the StatefulSet."""
    annotations = ((workload or {}).get("metadata") or {}).get("annotations") or {}
    name, _, disruption = str(annotations.get(AWAITED) or "").partition(" ")
    if not name or disruption not in list(Disruption):
        return None
    return Act(name=name, disruption=Disruption(disruption))


def command(type: ResourceType, cr: Object, acts: Sequence[Act]) -> str:
    """What approves them."""
    meta, names = cr["metadata"], ",".join(act.name for act in acts)
    return (
        f"`kubectl annotate {type.plural}.{type.group} {meta['name']} -n {meta['namespace']} --overwrite "
        f"{APPROVED}={names}`"
    )


def _name(cr: Object, does: Sequence[str]) -> str:
    text = json.dumps([cr["metadata"]["uid"], *does])
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def _approved(cr: Object) -> set[str]:
    given = (cr["metadata"].get("annotations") or {}).get(APPROVED) or ""
    return {name.strip() for name in str(given)[:LONGEST_APPROVED].split(",")}
