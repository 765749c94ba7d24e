"""A restart of the server within its Pod, for parameters that only a start takes up: whether, and when.

Nothing of it is kept anywhere. That one is needed the server says, each time that it is asked; the request
names the server that is to end (`kindling.prober.restart`), so however often it is made, it ends that one
alone. A Pod that lacks anything else is replaced instead (`restart`), and has all of it.
"""

from __future__ import annotations

from kindling.kinds import progress, reasons
from kindling.kinds.base import ExternalResult, Notice, Observed
from kindling.kinds.planned import Disruption
from kindling.kinds.postgresql import approval, config, login, observation, serve
from kindling.kinds.postgresql.parameters import fingerprint
from kindling.kube.resources import Object

PENDING_MOST = 64
"""How many names status.pendingRestart holds; more would not help."""


def has_program(cr: Object, observed: Observed) -> bool:
    """Whether the Pod has the program for it, and lacks nothing that a new one would have; or the next has.

    Ready or not: a server that takes its time to end is not to lose its Pod meanwhile.
    """
    workload = observation.find_workload(cr, observed)
    return workload is not None and not observation.is_held(workload) and serve.restarts(workload)


def is_overdue(cr: Object, observed: Observed) -> bool:
    """Whether there has been none within the deadline on progress: then the Pod is replaced after all."""
    pod = observation.find_pod(cr, observed)
    found = [pod] if pod is not None else []
    return progress.idle_seconds(cr, found, observed) >= progress.deadline_of(cr)


def is_possible(cr: Object, observed: Observed) -> bool:
    """Whether it is the present Pod that has it."""
    workload, pod = observation.find_workload(cr, observed), observation.find_pod(cr, observed)
    if workload is None or pod is None or not has_program(cr, observed):
        return False
    return observation.is_updated(workload, pod)


def pending(cr: Object, answer: ExternalResult | None, pod: Object | None) -> list[str]:
    """The parameters that wait for a restart, as the server said; while it cannot be asked, what it said
    before, as long as it is that Pod.
    """
    if answer is not None:
        return [str(name) for name in answer.facts.get("pending_restart") or ()][:PENDING_MOST]
    known = cr.get("status") or {}
    replaced = pod is not None and pod["metadata"]["uid"] != (known.get("active") or {}).get("uid")
    if replaced or known.get("observedGeneration") != cr["metadata"].get("generation"):
        return []
    return list(known.get("pendingRestart") or ())


def awaited(cr: Object, observed: Observed) -> approval.Act | None:
    """The restart that is needed, while it may not happen yet. It loses no data, not even ephemeral data."""
    pod = observation.find_pod(cr, observed)
    if pod is None or not approval.is_required(cr, Disruption.RESTART) or not is_possible(cr, observed):
        return None
    if not pending(cr, login.last_result(cr, observed), pod):
        return None
    # The generation, so that the same parameters have another name when they come again.
    generation, values = str(cr["metadata"].get("generation")), fingerprint(config.values(cr, observed))
    does = "restart in place", generation, values, str(pod["metadata"]["uid"])
    return approval.awaited(cr, observed, Disruption.RESTART, *does)


def is_due(cr: Object, observed: Observed, server: login.Login | None) -> bool:
    """Whether the server that was asked last is to be restarted now. `server` is what would be asked now."""
    answer = observed.result(login.SERVER, server.cache_key) if server is not None else None
    if answer is None or answer.reason != reasons.RESTART_PENDING or not is_possible(cr, observed):
        return False
    return awaited(cr, observed) is None


def notice(result: ExternalResult) -> Notice | None:
    """That it was restarted: the Pod stays, so nothing else says when its clients were logged out."""
    names = result.facts.get(serve.RESTARTED)
    if not names:
        return None
    done = "PostgreSQL was restarted within its Pod, and its clients were logged out:"
    return Notice(reasons.RESTARTED, f"{done} {', '.join(names)} needed it.")
