"""What is said of a resource that is only observed, by the field that pauses it."""

from __future__ import annotations

from dataclasses import dataclass

from kindling.kinds.postgresql.spec import MODE, PAUSED, paused_by
from kindling.kube.resources import Object


@dataclass(frozen=True, kw_only=True)
class Words:
    """The messages of the conditions Progressing and Paused and, if something differs, of Ready."""

    unchanged: str
    message: str
    differs: str


_BY_PAUSED = Words(
    unchanged="Nothing is changed while spec.paused is true.",
    message="spec.paused is true: it is only observed; set it to false to have it reconciled.",
    differs="Existing objects differ from the spec, and spec.paused keeps them so: set spec.paused to false "
    "to reconcile them.",
)
_PAUSES = {
    "": _BY_PAUSED,
    PAUSED: _BY_PAUSED,
    MODE: Words(
        unchanged="Nothing is changed while spec.mode is Plan.",
        message="spec.mode is Plan: it is only observed, and status.plan has what would be done; set it to "
        "Apply to have it reconciled.",
        differs="Existing objects differ from the spec, and spec.mode keeps them so: status.plan has what "
        "would be done; set spec.mode to Apply to have it done.",
    ),
}


def words(cr: Object) -> Words:
    return _PAUSES[paused_by(cr)]
