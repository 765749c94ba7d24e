"""A MyCustomResource's status: `Healthy`, and since when, from the Pods that were observed alone.

The reasons, a closed list: FriendFound, FriendMissing. Nothing here names a namespace, a uid or a count:
of several friends some may come and go without the answer changing, and then nothing is written.
"""

from __future__ import annotations

from kindling.kinds.conditions import condition
from kindling.kinds.contract import Done, Observed, Report
from kindling.kube.resources import Object


def friend_of(cr: Object) -> str:
    """The name of the Pod it looks for; empty where the spec holds none."""
    return str((cr.get("spec") or {}).get("name") or "")


def report(cr: Object, observed: Observed) -> Report:
    """Ready is True from the first look on: whatever there is to know of this spec is known then."""
    friend, generation = friend_of(cr), int(cr["metadata"].get("generation", 0))
    found = bool(observed.sought)
    if found:
        reason = "FriendFound"
        message = (
            f"There is a Pod named {friend}: "
            f"`kubectl get pods -A --field-selector metadata.name={friend}` shows it."
        )
    else:
        reason = "FriendMissing"
        message = f"There is no Pod named {friend}: create one, or name another in spec.name."
    return Report(
        status={
            "Healthy": found,
            "observedGeneration": generation,
            "conditions": [
                condition("Ready", True, reason=reason, message=message, generation=generation),
                condition("Healthy", found, reason=reason, message=message, generation=generation),
            ],
        },
        outcome=Done(),
    )
