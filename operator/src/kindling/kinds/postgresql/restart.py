"""When the Pod is replaced for the sake of its parameters: a mark in its template, changed only then.

The rest of the template restarts by itself when it changes. Parameters are put into force on the
running server wherever PostgreSQL can, and the server is restarted within its Pod for the others wherever
that can (`server_restart`), so their change alone is no reason.
"""

from __future__ import annotations

from collections.abc import Mapping

from kindling.kinds.base import Observed
from kindling.kinds.pods import pod_condition
from kindling.kinds.postgresql import identity, server_restart
from kindling.kinds.postgresql.observation import current_pod, find_pod, is_down
from kindling.kinds.postgresql.parameters import fingerprint
from kindling.kinds.postgresql.workload import PARAMETERS_HASH
from kindling.kinds.times import seconds_since
from kindling.kube.resources import STATEFUL_SET, Object, Ref

MIN_RESTART_INTERVAL_SECONDS = 300.0
"""How old a Pod must be to be restarted for what it was started for already: no server restarts in a loop."""


def restart_token(cr: Object, observed: Observed, parameters: Mapping[str, str]) -> str:
    """The fingerprint of the parameters that the Pod was last started for, as a rule what it is already.

    A new one where PostgreSQL said that it needs a restart, or where the server does not stay up and
    the parameters were edited since: a container that starts again does not take up new ones, a Pod does.
    And where a Pod found no data and may begin empty now.
    """
    wanted = fingerprint(parameters)
    meta, status = cr["metadata"], cr.get("status") or {}
    workload = observed.objects.get(Ref(STATEFUL_SET, meta["namespace"], meta["name"])) or {}
    template = (workload.get("spec") or {}).get("template") or {}
    present = ((template.get("metadata") or {}).get("annotations") or {}).get(PARAMETERS_HASH)
    if not present:
        return wanted
    pod = current_pod(cr, observed)
    within = server_restart.has_program(cr, observed) and not server_restart.is_overdue(cr, observed)
    if pod is not None and status.get("pendingRestart") and not within:
        uid = pod["metadata"]["uid"]
        # What the status says is of this spec and of this very Pod, not of the one before the restart.
        requested = (status.get("active") or {}).get("uid") == uid
        since = pod_condition(pod, "Ready").get("lastTransitionTime")
        tried = (
            present.startswith(wanted)
            and seconds_since(since, now=observed.now) < MIN_RESTART_INTERVAL_SECONDS
        )
        if requested and not tried and status.get("observedGeneration") == meta.get("generation"):
            return f"{wanted}.{uid}"
    if pod is not None and identity.initialised_nothing(cr, observed) and not identity.expected(cr, observed):
        return f"{wanted}.{pod['metadata']['uid']}"  # else it would try again at the kubelet's leisure
    pod = find_pod(cr, observed)
    if is_down(pod) and not present.startswith(wanted):
        return wanted
    return str(present)
