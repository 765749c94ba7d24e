"""A Memcached's status, from what was observed alone: where its replicas are, and its conditions.

The reasons of Ready, a closed list: ReplicasReady; Reconciling (on its way), ReplicasMissing (some
answer, fewer than wanted); NameConflict, Terminating, Refused, ServerError (children); Unschedulable,
ImagePullFailed, PodSetupFailed, Crashing (a Pod); PodsRefused (the Deployment); those of `progress`.
"""

from __future__ import annotations

from kindling.kinds import progress
from kindling.kinds.conditions import standard
from kindling.kinds.contract import After, Done, Findings, Observed, Outcome, Problem, Report, selector_text
from kindling.kinds.memcached import observation, spec
from kindling.kinds.pods import PATIENCE_SECONDS, patience, pods_of, when_time_tells
from kindling.kube.resources import Object, ResourceType


def report(type: ResourceType, cr: Object, observed: Observed, findings: Findings) -> Report:
    """The whole status. Ready is True while all of `size` answer and none is left of an earlier spec.

    `replicas` counts those that answer, not those that are being started: so it agrees with `serverList`.
    """
    wanted = spec.read(cr)
    servers = observation.server_list(type, cr, observed)
    problem = findings.problem
    ready = (
        findings.settled
        and problem is None
        and len(servers) == wanted.size
        and observation.rolled_out(cr, observed, size=wanted.size)
    )
    fault = progress.still(problem, cr, observed) if problem is not None else None
    if problem is None and findings.settled and not ready:
        fault = observation.obstacle(type, cr, observed)
        fault = fault or progress.held_up(cr, observation.way(type, cr, observed), observed)
    count = f"Replicas that answer: {len(servers)}, wanted: {wanted.size}"
    meta = cr["metadata"]
    if ready:
        reason, message = "ReplicasReady", f"{count}; status.serverList has their addresses."
    elif fault is not None:
        reason, message = fault.reason, fault.message
    else:
        reason = "ReplicasMissing" if 0 < len(servers) < wanted.size else "Reconciling"
        message = (
            f"{count}; wait, or look at their Pods (`kubectl describe pods -n {meta['namespace']} "
            f"-l app.kubernetes.io/instance={meta['name']}`)."
        )
    generation = int(meta.get("generation", 0))
    status: Object = {
        "replicas": len(servers),
        "selector": selector_text(type, cr),
        "serverList": servers,
        "observedGeneration": generation,
        "conditions": standard(
            ready=ready,
            available=bool(servers),
            broken=fault is not None and not fault.passing,
            reason=reason,
            message=message,
            serving="memcached answers.",
            generation=generation,
        ),
    }
    return Report(status=status, outcome=_outcome(type, cr, observed, findings, fault, ready=ready))


def _outcome(
    type: ResourceType,
    cr: Object,
    observed: Observed,
    findings: Findings,
    fault: Problem | None,
    *,
    ready: bool,
) -> Outcome:
    if ready:
        return Done()
    if findings.problem is not None:
        return After(5.0 if findings.problem.passing else 30.0)
    if not findings.settled:
        return After(PATIENCE_SECONDS)
    deadline = progress.patience(cr, observation.way(type, cr, observed), observed, fault=fault)
    return when_time_tells([*deadline, *patience(pods_of(type, cr, observed), now=observed.now)])
