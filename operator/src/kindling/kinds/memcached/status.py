"""A Memcached's status, from what was observed alone: where its replicas are, and its conditions."""

from __future__ import annotations

from kindling.kinds import progress, reasons
from kindling.kinds.base import Done, Observed, Problem, RequeueAfter, Result, StatusReport, SyncResult
from kindling.kinds.conditions import standard_conditions
from kindling.kinds.memcached import (
    access,
    auth,
    discovery,
    observation,
    spec,
    stats,
    tls,
    warm_rollout,
    workloads,
)
from kindling.kinds.metadata import selector_text
from kindling.kinds.pods import (
    UNSCHEDULABLE_AFTER_SECONDS,
    deadlines,
    pods_of,
    requeue_at_deadline,
    sooner,
)
from kindling.kube.resources import Object, ResourceType


def report(type: ResourceType, cr: Object, observed: Observed, sync: SyncResult) -> StatusReport:
    """The whole status. Ready is True while all of `size` answer and none is left of an earlier spec.

    `replicas` counts those that answer, not those that are being started: so it agrees with `serverList`.
    """
    wanted = spec.read(cr)
    servers = [endpoint.text for endpoint in observation.endpoints(type, cr, observed)]
    statistics = stats.statistics(type, cr, wanted, observed)
    found = access.verdict(type, cr, observed)
    problem = sync.problem
    before = workloads.before(type, cr, observed)
    unanswered = discovery.is_enabled(cr) and not discovery.answers(cr, observed)
    rolled_out = (
        sync.in_sync
        and not unanswered
        and before is None
        and problem is None
        and len(servers) == wanted.size
        and workloads.rolled_out(cr, observed)
    )
    refused = (found.problem or tls.problem(cr, observed)) if rolled_out else None
    ready = rolled_out and found.answered and refused is None
    fault = progress.escalated(problem, cr, observed) if problem is not None else None
    handover = workloads.handover(type, cr, observed)
    if problem is None and sync.in_sync and not ready and handover is None:
        fault = refused or observation.replica_problem(type, cr, observed)
        fault = fault or (discovery.problem(type, cr, observed) if unanswered else None)
        held = warm_rollout.problem(type, cr, wanted, observed)
        pods = observation.pod_progress(type, cr, observed)
        fault = fault or progress.blocker(cr, pods, observed, known=held)
    count = f"Replicas that answer: {len(servers)}, wanted: {wanted.size}"
    if before is not None:
        known = " and files of the list have them" if wanted.binding else ""
        count = (
            f"The {before.kind} stays until the {wanted.workload.kind} has all its replicas{known}. {count}"
        )
    if unanswered:
        count = f"Deployment {discovery.name_of(cr)}, which gives the list, does not answer yet. {count}"
    meta = cr["metadata"]
    labels = f"app.kubernetes.io/instance={meta['name']}"
    if unanswered and len(servers) == wanted.size:
        labels = selector_text(type, cr, component=discovery.NAME)
    if ready:
        reason, message = reasons.REPLICAS_READY, f"{count}; status.serverList has their addresses."
    elif fault is not None:
        reason, message = fault.reason, fault.message
    else:
        reason = (
            reasons.MINIMUM_REPLICAS_UNAVAILABLE if 0 < len(servers) < wanted.size else reasons.RECONCILING
        )
        message = (
            f"{count}; wait, or look at their Pods (`kubectl describe pods -n {meta['namespace']} "
            f"-l {labels}`)."
        )
    generation = int(meta.get("generation", 0))
    status: Object = {
        "replicas": len(servers),
        "selector": selector_text(type, cr),
        "serverList": servers,
        **({"statistics": statistics} if statistics is not None else {}),
        **access.status(cr, observed, found),
        **discovery.status(cr, observed),
        "observedGeneration": generation,
        "conditions": standard_conditions(
            ready=ready,
            available=bool(servers),
            broken=fault is not None and not fault.transient,
            reason=reason,
            message=message,
            serving="memcached answers.",
            generation=generation,
        ),
    }
    result = _outcome(type, cr, observed, sync, fault, ready=ready)
    due = [*tls.deadlines(cr, observed), *auth.deadline(cr, observed)]
    due += warm_rollout.deadlines(type, cr, wanted, observed)
    due += [handover] if handover is not None and sync.in_sync else []
    return StatusReport(status=status, result=sooner(result, min(due, default=None)))


def _outcome(
    type: ResourceType,
    cr: Object,
    observed: Observed,
    sync: SyncResult,
    fault: Problem | None,
    *,
    ready: bool,
) -> Result:
    if ready:
        return Done()
    if sync.problem is not None:
        return sync.problem.retry
    if not sync.in_sync:
        return RequeueAfter(UNSCHEDULABLE_AFTER_SECONDS)
    deadline = progress.deadlines(cr, observation.pod_progress(type, cr, observed), observed, fault=fault)
    pods = [*pods_of(type, cr, observed), *discovery.pods(type, cr, observed)]
    return requeue_at_deadline([*deadline, *deadlines(pods, now=observed.now)])
