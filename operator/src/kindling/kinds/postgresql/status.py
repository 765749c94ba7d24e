"""A Postgresql's status, from what was observed alone: phase, active Pod, binding, version, conditions."""

from __future__ import annotations

from kindling.kinds import pods, progress, reasons, server_tls
from kindling.kinds.base import (
    Done,
    Observed,
    RequeueAfter,
    Result,
    StatusReport,
    SyncResult,
    Terminal,
)
from kindling.kinds.conditions import condition, standard_conditions
from kindling.kinds.postgresql import (
    activator,
    credentials,
    growth,
    hba,
    hibernation,
    identity,
    in_place,
    init_sql,
    objects,
    observation,
    password,
    pause,
    pending,
    planned,
    reload,
    restart_time,
    roles,
    rotation,
    secrets,
    tls,
    unbound,
    usage,
    volume,
)
from kindling.kinds.postgresql.faults import LOGIN_GRACE_SECONDS, NO_FAULT, ready_seconds
from kindling.kinds.postgresql.spec import HIBERNATED, paused_by, pod_name, resumed, user_of
from kindling.kinds.postgresql.state import State, read_state
from kindling.kinds.times import seconds_since
from kindling.kube.resources import SECRET, Object, Ref, ResourceType

LONGEST_IMAGE = 512
"""What the CRD admits."""

UNREAD = (
    "The server has not read the rules of login that the spec asks for: a Pod gets them within two minutes, "
    "and they are in force then; wait."
)

# What only an edit can fix.
_FOR_AN_EDIT = frozenset(
    {
        reasons.INVALID_SPEC,
        reasons.USER_CONFLICT,
        reasons.VERSION_CONFLICT,
        reasons.VERSION_UNAVAILABLE,
        reasons.VERSION_MISMATCH,
        reasons.INIT_SQL_FAILED,
        reasons.INVALID_HBA,
        reasons.INVALID_PARAMETER,
        reasons.DATA_LOST,
    }
)


def report(type: ResourceType, cr: Object, observed: Observed, sync: SyncResult) -> StatusReport:
    """The whole status. Ready is True only after a login for this generation, with all children settled."""
    meta, known = cr["metadata"], cr.get("status") or {}
    state = read_state(type, cr, observed, sync)
    status: Object = {
        "pgPhase": _phase(state, hibernated=hibernation.is_hibernated(cr, observed.now)),
        "observedGeneration": int(meta.get("generation", 0)),
        "conditions": _conditions(type, cr, observed, sync, state),
    }
    if state.available and state.pod is not None:
        status["active"] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": state.pod["metadata"]["namespace"],
            "name": state.pod["metadata"]["name"],
            "uid": state.pod["metadata"]["uid"],
        }
    line = (state.external.facts.get("version") if state.external else None) or known.get("version")
    if line:
        status["version"] = line
    identifier = identity.shown(cr, observed, state.external)
    if identifier:
        status["systemIdentifier"] = identifier
    if state.pending:
        status["pendingRestart"] = state.pending
    image = (pending.image(cr, observed) if state.available else None) or known.get("image")
    if image:
        status["image"] = image[:LONGEST_IMAGE]
    binding = Ref(SECRET, meta["namespace"], secrets.binding_name(cr))
    if known.get("binding") or (state.available and binding in observed.objects):
        status["binding"] = {"name": secrets.binding_name(cr)}
    status |= objects.status(cr, observed, state.objects)
    if seconds := restart_time.seconds(cr, observed, state.pod, available=state.available):
        status[restart_time.LAST_RESTART] = seconds
    status |= state.approvals.status()
    status |= planned.status(cr, observed, sync)
    status |= _tls(cr, observed, state)
    status |= init_sql.status(cr, state.external)
    status |= hba.status(cr, observed, server=state.external, files=state.files)
    status |= usage.status(cr, observed)
    status |= in_place.status(cr, observed, stopped=state.stopped)
    status |= rotation.status(cr, observed)
    result = _outcome(cr, observed, sync, state)
    return StatusReport(status=status, result=pods.sooner(result, hibernation.seconds_left(cr, observed.now)))


def _phase(state: State, *, hibernated: bool) -> str:
    if state.available:
        return "up"
    if state.stopped and hibernated:
        return HIBERNATED
    return "Failed" if state.broken else "pending"


def _tls(cr: Object, observed: Observed, state: State) -> Object:
    """What the server serves by its own word; while it cannot be asked, what was said of that Pod before."""
    known = cr.get("status") or {}
    if not tls.is_enabled(cr) or state.pod is None or not state.available:
        return {}
    if not server_tls.is_active(state.pod):
        restart = f"`kubectl rollout restart statefulset {cr['metadata']['name']}`"
        message = (
            f"Pod {pod_name(cr)} was created without TLS. It has TLS from its next restart on: {restart}."
        )
        return {"tls": {"active": False, "message": message}}
    served = (state.external.facts.get("certificate") if state.external is not None else None) or {}
    if served:
        return {"tls": {"active": True, "notAfter": served["not_after"], "issuer": served["issuer"]}}
    same = state.pod["metadata"]["uid"] == (known.get("active") or {}).get("uid")
    return {"tls": known["tls"]} if same and (known.get("tls") or {}).get("active") else {}


def _conditions(
    type: ResourceType, cr: Object, observed: Observed, sync: SyncResult, state: State
) -> list[Object]:
    generation = int(cr["metadata"].get("generation", 0))
    reason, message = _why(type, cr, observed, sync, state)
    conditions = standard_conditions(
        ready=state.ready,
        available=state.available,
        broken=state.broken,
        reason=reason,
        message=message,
        serving="The server takes logins.",
        generation=generation,
    )

    def put(name: str, truth: bool, reason: str, message: str) -> None:
        item = condition(name, truth, reason=reason, message=message, generation=generation)
        others = [other["type"] for other in conditions]
        where = others.index(name) if name in others else len(others)
        conditions[where : where + 1] = [item]

    failure, resize_message = volume.resize_failure(cr, observed), volume.resize_message(cr, observed)
    if state.stopped or state.waits:
        put("Progressing", False, reason, message)
    if sync.paused:
        put("Progressing", False, reasons.PAUSED, pause.words(cr).unchanged)
    elif state.ready and failure:
        put("Progressing", True, reasons.RESIZE_FAILED, failure)
    elif state.ready and resize_message:
        put("Progressing", True, reasons.RESIZING, resize_message)
    larger = volume.larger(cr, observed)
    if larger:
        put("VolumeLarger", True, reasons.CANNOT_SHRINK, larger)
    at_limit = growth.at_limit(cr, observed, usage.status(cr, observed).get("storage") or {})
    if at_limit:
        put(growth.TYPE, True, reasons.MAX_SIZE_REACHED, at_limit)
    if password.is_plain(cr):
        put(
            "PlaintextPassword",
            True,
            reasons.PASSWORD_IN_SPEC,
            "spec.password can be read by whoever may read this resource; name a Secret in "
            "spec.passwordSecretRef, or leave both out, and a password is made in Secret "
            f"{secrets.binding_name(cr)}.",
        )
    if state.update is not None:
        put(pending.TYPE, True, state.update.reason, state.update.message)
    if sync.paused:
        put(
            "Paused",
            True,
            reasons.PAUSED,
            pause.words(cr).message,
        )
    return conditions


def _why(
    type: ResourceType, cr: Object, observed: Observed, sync: SyncResult, state: State
) -> tuple[str, str]:
    """Ready's reason and message."""
    if state.ready and state.external is not None and state.external.reason:
        return state.external.reason, state.external.message
    if state.ready:
        since = volume.empty_since(cr, state.pod)
        if (name := credentials.login_of(cr)) != user_of(cr):
            words = f"Login {name} of the default user can log in through the Service.{since}"
            return reasons.LOGIN_SUCCEEDED, words
        return reasons.LOGIN_SUCCEEDED, f"The default user can log in through the Service.{since}"
    if state.fault is not None:
        return state.fault.reason, state.fault.message
    restarts = state.external is not None and state.external.reason == reasons.RESTART_PENDING
    if state.waits or (restarts and state.approvals.edits):  # no restart follows by itself
        return reasons.APPROVAL_PENDING, state.approvals.message
    if state.stopped and (found := in_place.stops(cr, observed)) is not None:
        return reasons.RESTORING, in_place.words(found)
    if state.stopped:
        listening = activator.is_listening(type, cr, observed)
        words = hibernation.words(type, cr, observed.now, listening=listening)
        if field := paused_by(cr):
            words = f"{words} Nothing does while {field} keeps it as it is: {resumed(field)} first."
        return reasons.HIBERNATED, words
    if sync.paused and not sync.in_sync:
        return reasons.PAUSED, pause.words(cr).differs
    if state.external is not None and state.external.reason in NO_FAULT:
        return state.external.reason, state.external.message
    if state.external is not None and state.external.ok and sync.in_sync:
        if state.objects is not None and not state.objects.ok:
            return state.objects.reason, objects.unsettled(cr, state.objects.reason)
        return reasons.RECONCILING, UNREAD
    if state.pending:
        return reasons.RESTART_PENDING, f"The server is restarted for {', '.join(state.pending)}; wait."
    return reasons.RECONCILING, (
        f"PostgreSQL is being set up; wait, or look at Pod {pod_name(cr)} (`kubectl describe`)."
    )


def _outcome(cr: Object, observed: Observed, sync: SyncResult, state: State) -> Result:
    unread = [reload.RETRY_SECONDS] if reload.is_unread(state.files) else []
    if state.ready or state.waits:
        asked = [usage.seconds_left(cr, observed)] if usage.is_asked(cr, observed) else []
        opens = (state.update.opens if state.update is not None else None) or state.approvals.opens
        window = [(opens - observed.now).total_seconds()] if opens else []
        rotated = [left] if (left := rotation.seconds_left(cr, observed)) is not None else []
        ends = [*tls.deadlines(cr, observed), *roles.deadlines(cr, observed)]
        return pods.requeue_at_deadline([*window, *unread, *ends, *asked, *rotated])
    if state.stopped or (state.fault is not None and state.fault.reason == reasons.VOLUME_DELETING):
        return Done()
    if unread:
        return RequeueAfter(unread[0])
    seconds = objects.retry_seconds(state.objects) if state.objects is not None else None
    if seconds == objects.MORE_SECONDS:
        return RequeueAfter(seconds)
    if state.fault is not None and state.fault.reason in _FOR_AN_EDIT:
        return Terminal(state.fault.reason)
    if state.fault is not None and state.fault.reason == reasons.CERT_MANAGER_NOT_FOUND:
        return RequeueAfter(30.0, polls=True)  # no event reports that a type is served
    if sync.problem is not None:
        return sync.problem.retry
    if seconds is not None and sync.problem is None:
        return RequeueAfter(seconds, polls=True)
    if state.pod is not None and pods.pod_ready(state.pod) and state.external is not None:
        if ready_seconds(state.pod, observed) < LOGIN_GRACE_SECONDS:
            return RequeueAfter(0.5)
        return RequeueAfter(10.0, polls=True)
    found = [state.pod] if state.pod is not None else []
    if not sync.in_sync or any(map(pods.pod_ready, found)):
        return RequeueAfter(pods.UNSCHEDULABLE_AFTER_SECONDS)
    deadline = progress.deadlines(cr, observation.pod_progress(cr, observed), observed, fault=state.fault)
    starts = [since for pod in found if (since := observation.starting_since(pod)) is not None]
    unbinding = unbound.deadlines(cr, state.pod, observed)
    starting = [observation.START_SECONDS - seconds_since(since, now=observed.now) for since in starts]
    scheduling = pods.deadlines(found, now=observed.now)
    return pods.requeue_at_deadline([*deadline, *starting, *unbinding, *scheduling])


def warnings(cr: Object, observed: Observed) -> list[Ref]:
    """The objects whose Warning Events the status needs: those that no other reason explains."""
    pod = observation.find_pod(cr, observed)
    if waiting := unbound.warnings(cr, pod, observed):
        return waiting
    if pod is not None and (pods.pod_ready(pod) or pods.pod_problem(pod, now=observed.now) is not None):
        return []
    return progress.warnings_needed(cr, observation.pod_progress(cr, observed), observed)
