"""How long the last restart of the server took, from the first moment without it until it served again.

Both moments are in the status already: the conditions say since when. So it costs no write of its own.
"""

from __future__ import annotations

from kindling.kinds.base import Observed
from kindling.kinds.conditions import find_condition
from kindling.kinds.times import seconds_since
from kindling.kube.resources import Object

LAST_RESTART = "lastRestartSeconds"
MOST_SECONDS = 2**31 - 1


def seconds(cr: Object, observed: Observed, pod: Object | None, *, available: bool) -> int | None:
    """Of the restart that ends now, else what is known of the one before."""
    known = cr.get("status") or {}
    before = int(known[LAST_RESTART]) if known.get(LAST_RESTART) else None
    gone = find_condition(known, "Available")
    progressing = find_condition(known, "Progressing")
    if not available or pod is None or gone.get("status") != "False" or not known.get("version"):
        return before
    since = str(gone.get("lastTransitionTime"))
    # On its way ever since: neither hibernated meanwhile, nor held up by a fault, nor paused.
    restarting = progressing.get("status") == "True" and str(progressing.get("lastTransitionTime")) <= since
    made = str(pod["metadata"].get("creationTimestamp") or "")
    if not restarting or made < since:  # the container started again, or the node came back
        return before
    return min(max(1, round(seconds_since(since, now=observed.now))), MOST_SECONDS)
