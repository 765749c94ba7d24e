"""A MyCustomResource's status: `Healthy`, and since when, from the Pods that were observed alone.

Nothing here names a namespace, a uid or a count:
of several friends some may come and go without the answer changing, and then nothing is written.
"""

from __future__ import annotations

from kindling.kinds import reasons
from kindling.kinds.base import Done, Observed, StatusReport
from kindling.kinds.conditions import condition
from kindling.kube.resources import Object


def friend_of(cr: Object) -> str:
    """The name of the Pod it looks for; empty where the spec holds none."""
    return str((cr.get("spec") or {}).get("name") or "")


def report(cr: Object, observed: Observed) -> StatusReport:
    """Ready is True from the first look on: whatever there is to know of this spec is known then."""
    friend, generation = friend_of(cr), int(cr["metadata"].get("generation", 0))
    found = bool(observed.watched)
    if found:
        reason = reasons.FRIEND_FOUND
        message = (
            f"There is a Pod named {friend}: "
            f"`kubectl get pods -A --field-selector metadata.name={friend}` shows it."
        )
    else:
        reason = reasons.FRIEND_MISSING
        message = f"There is no Pod named {friend}: create one, or name another in spec.name."
    return StatusReport(
        status={
            "Healthy": found,
            "observedGeneration": generation,
            "conditions": [
                condition("Ready", True, reason=reason, message=message, generation=generation),
                condition("Healthy", found, reason=reason, message=message, generation=generation),
            ],
        },
        result=Done(),
    )
