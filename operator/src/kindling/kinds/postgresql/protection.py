"""The protection of the claim ends before its resource does: with the resource, nobody would end it.

A resource that has been protected once keeps the finalizer for that. So it does not depend on when, between
two reconciliations, the field is set to false and the resource is deleted.
"""

from __future__ import annotations

from kindling.kinds import reasons
from kindling.kinds.base import Observed, Problem
from kindling.kinds.postgresql.spec import is_protected, plan_for
from kindling.kinds.postgresql.volume import PROTECTION_LABEL, claim_of, volume_name
from kindling.kube.resources import Object

FINALIZER = "kindling.dev/protected-claim"


def must_finish(cr: Object) -> bool:
    had = FINALIZER in (cr["metadata"].get("finalizers") or ())
    return had or (is_protected(cr) and not plan_for(cr))


def is_to_end(cr: Object, observed: Observed) -> bool:
    """Whether the claim is still protected, though its resource is not.

    One that was deleted though it is protected, with its definition say, leaves the claim as it is.
    """
    claim = claim_of(cr, observed) or {}
    labels = (claim.get("metadata") or {}).get("labels") or {}
    return PROTECTION_LABEL in labels and not is_protected(cr)


def problem(cr: Object) -> Problem:
    """Why it is not gone yet."""
    return Problem(
        reason=reasons.RECONCILING,
        message=f"Claim {volume_name(cr)} loses its label {PROTECTION_LABEL}; then this resource goes. Wait.",
        transient=True,
    )
