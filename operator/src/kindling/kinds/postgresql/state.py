"""What a pass found of a Postgresql, boiled down to what its status says."""

from __future__ import annotations

from dataclasses import dataclass

from kindling.kinds import pods, reasons
from kindling.kinds.base import ExternalResult, Observed, Problem, SyncResult
from kindling.kinds.conditions import find_condition
from kindling.kinds.postgresql import (
    approvals,
    hba,
    identity,
    login,
    objects,
    observation,
    pending,
    reload,
    server_restart,
    tls,
    version,
)
from kindling.kinds.postgresql.approvals import Approvals
from kindling.kinds.postgresql.faults import fault_of
from kindling.kinds.postgresql.pending import Pending
from kindling.kube.resources import Object, ResourceType


@dataclass(frozen=True, kw_only=True)
class State:
    """`external`, `objects` and `files` are what the server said of its login, its roles and databases, and
    its files; `pending` are the parameters that wait for a restart, `update` is the image that does.
    """

    pod: Object | None
    external: ExternalResult | None
    objects: ExternalResult | None
    files: ExternalResult | None
    fault: Problem | None
    settled: bool
    available: bool
    pending: list[str]
    update: Pending | None
    approvals: Approvals
    stopped: bool

    @property
    def waits(self) -> bool:
        """Whether nothing but an approval keeps the resource from being Ready."""
        return self.settled and self.approvals.edits

    @property
    def ready(self) -> bool:
        return self.settled and not self.approvals.edits

    @property
    def broken(self) -> bool:
        return self.fault is not None and not self.fault.transient


def read_state(type: ResourceType, cr: Object, observed: Observed, sync: SyncResult) -> State:
    pod = observation.find_pod(cr, observed)
    up = pod is not None and pods.pod_ready(pod)
    external = version.judged(cr, sync.results.get(login.SERVER))
    good = external is not None and external.ok
    # No new result, as right after an edit: what was last known of a ready Pod still holds.
    was_available = find_condition(cr.get("status") or {}, "Available").get("status") == "True"
    serves = login.lets_in(external) if external is not None else was_available
    if external is not None and external.reason == reasons.PAUSED:
        serves = serves or was_available  # a password that is planned is not that of the server yet
    fault = fault_of(type, cr, pod, external, observed, sync, was_available=was_available)
    if sync.problem is None and (unissued := tls.waiting(cr, observed)) is not None:
        fault = unissued
    if fault is None or fault.reason != reasons.DATA_LOST:
        external = identity.judged(external)
    listed, files = sync.results.get(objects.OBJECTS), sync.results.get(reload.MEMBER)
    waiting = approvals.read(type, cr, observed)
    held = external is not None and external.reason == reasons.RESTART_PENDING and waiting.edits
    if fault is None and sync.in_sync and good:
        fault = hba.problem(files) or objects.fault(cr, observed, listed) or tls.problem(cr, observed)
    settled = listed.ok if listed is not None else not objects.wants(cr, observed)
    settled = settled and not (reload.has_other_rules(external) and not reload.has_rules(files))
    return State(
        pod=pod,
        external=external,
        objects=listed,
        files=files,
        fault=fault,
        settled=sync.in_sync and fault is None and (good or held) and settled,
        available=up and serves,
        pending=server_restart.pending(cr, external, pod if up else None),
        update=pending.pending(cr, observed),
        approvals=waiting,
        stopped=sync.in_sync and fault is None and observation.is_stopped(cr, observed),
    )
