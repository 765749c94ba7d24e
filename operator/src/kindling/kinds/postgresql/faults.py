"""What is wrong with a Postgresql, if anything is: one reason, the first that explains the others."""

from __future__ import annotations

from dataclasses import replace

from kindling.kinds import pods, progress, reasons
from kindling.kinds.base import ExternalResult, Observed, Problem, SyncResult
from kindling.kinds.conditions import find_condition
from kindling.kinds.postgresql import deletion, disk, growth, identity, observation, unbound, volume
from kindling.kinds.times import seconds_since
from kindling.kube.resources import Object, ResourceType

LOGIN_GRACE_SECONDS = 30.0
"""How long after the Pod is ready a login may fail before it is a fault: the Service follows the Pod."""
NO_FAULT = frozenset({reasons.RESTART_PENDING, reasons.PAUSED, reasons.TOO_MANY_CONNECTIONS})
"""The reasons of a result that is no fault, though it is not good."""


def fault_of(
    type: ResourceType,
    cr: Object,
    pod: Object | None,
    external: ExternalResult | None,
    observed: Observed,
    sync: SyncResult,
    *,
    was_available: bool,
) -> Problem | None:
    """`was_available`: it served, as the status has it."""
    elsewhere = sync.problem is not None and sync.problem.reason != reasons.APPLY_REJECTED
    data_problem = (
        None if elsewhere else deletion.deleting(cr, observed) or identity.lost(type, cr, observed, external)
    )
    if data_problem is not None:
        return data_problem
    if sync.problem is not None:
        hint = volume.size_to_restore(cr, observed) if sync.problem.reason == reasons.APPLY_REJECTED else None
        grown = growth.refused(cr, observed) if sync.problem.reason == reasons.APPLY_REJECTED else None
        message = " ".join(filter(None, (sync.problem.message, hint, grown)))
        return progress.escalated(replace(sync.problem, message=message), cr, observed)
    if not sync.in_sync or (external is not None and external.ok):
        return None
    if observation.is_stopped(cr, observed):
        return None
    fault = _pod_fault(cr, pod, external, observed, was_available=was_available)
    if fault is not None and fault.reason == reasons.DISK_FULL:
        failure = volume.resize_failure(cr, observed)
        fault = replace(fault, message=" ".join(filter(None, (fault.message, failure))))
    if fault is not None or (external is not None and external.reason == reasons.PAUSED):
        return fault
    known = observation.recovering(pod, observed) if pod is not None else None
    return progress.blocker(cr, observation.pod_progress(cr, observed), observed, known=known)


def _pod_fault(
    cr: Object,
    pod: Object | None,
    external: ExternalResult | None,
    observed: Observed,
    *,
    was_available: bool,
) -> Problem | None:
    if pod is None:
        return None
    if identity.initialised_nothing(cr, observed):
        return None  # it may begin empty now
    if not pods.pod_ready(pod):
        waits = disk.pod_problem(cr, pod) or unbound.problem(cr, pod, observed)
        return waits or pods.pod_problem(pod, now=observed.now, placed_by=cr)
    if external is None or external.reason in (*NO_FAULT, reasons.DATA_LOST):
        return None
    # Once it was reported, or had served, it is no matter of its start.
    known = (
        was_available
        or find_condition(cr.get("status") or {}, "Ready").get("reason") == reasons.NOT_RESPONDING
    )
    patient = external.reason == reasons.LOGIN_FAILED or (
        external.reason == reasons.NOT_RESPONDING and not known
    )
    if patient and ready_seconds(pod, observed) < LOGIN_GRACE_SECONDS:
        return None
    if external.reason == reasons.DISK_FULL:
        return disk.problem(cr, line=external.message)
    return Problem(reason=external.reason, message=external.message)


def ready_seconds(pod: Object, observed: Observed) -> float:
    """Since when the Pod is ready."""
    moment = pods.pod_condition(pod, "Ready").get("lastTransitionTime")
    return seconds_since(moment, now=observed.now)
