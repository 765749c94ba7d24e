"""A Postgresql's status, from what was observed alone: phase, active Pod, binding, version, conditions.

The reasons of Ready, a closed list: LoginSucceeded; Reconciling, RestartPending (on their way);
Paused; InvalidSpec, UserConflict, VersionConflict, VersionUnavailable, SecretNotFound, InvalidPassword
(the spec and what it refers to); NameConflict, Terminating, Refused, ServerError (children);
Unschedulable, ImagePullFailed, PodSetupFailed, Crashing (Pod); DiskFull, DataLost, VolumeDeleting
(volume); LoginFailed, NotResponding, SuperuserLoginFailed, UnsafeAuthentication, InvalidParameter,
VersionMismatch (server); TooManyConnections (it serves, whether Ready or not); those of `progress`.
Progressing has Resizing besides, PlaintextPassword has PasswordInSpec, VolumeLarger has CannotShrink,
RestartPending has InLine, LineHalted, AwaitingWindow, NextRestart, Manual.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kindling.kinds import pods, progress
from kindling.kinds.conditions import condition, find, standard
from kindling.kinds.contract import (
    After,
    Answer,
    Done,
    Findings,
    Invalid,
    Observed,
    Outcome,
    Problem,
    Report,
)
from kindling.kinds.postgresql import (
    deletion,
    disk,
    identity,
    login,
    observation,
    password,
    pending,
    secrets,
    version,
    volume,
)
from kindling.kinds.postgresql.pending import Pending
from kindling.kinds.postgresql.spec import pod_name
from kindling.kube.resources import SECRET, Object, Ref, ResourceType

LOGIN_PATIENCE_SECONDS = 30.0
"""How long after the Pod is ready a login may fail before it is a fault: the Service follows the Pod."""

LONGEST_IMAGE = 512
"""What the CRD admits."""

PENDING_MOST = 64
"""How many names status.pendingRestart holds; more tell nothing more."""

# What only an edit can mend, and what is no fault though the answer is not good.
_FOR_AN_EDIT = frozenset(
    {
        "InvalidSpec",
        "UserConflict",
        "VersionConflict",
        "VersionUnavailable",
        "VersionMismatch",
        "InvalidParameter",
        identity.REASON,
    }
)
_NO_FAULT = frozenset({"RestartPending", "Paused", "TooManyConnections"})


@dataclass(frozen=True, kw_only=True)
class _State:
    """What a pass found, boiled down to what the status says."""

    pod: Object | None
    answer: Answer | None
    fault: Problem | None
    ready: bool
    available: bool
    pending: list[str]
    update: Pending | None

    @property
    def broken(self) -> bool:
        return self.fault is not None and not self.fault.passing


def report(type: ResourceType, cr: Object, observed: Observed, findings: Findings) -> Report:
    """The whole status. Ready is True only after a login for this generation, with all children settled."""
    meta, known = cr["metadata"], cr.get("status") or {}
    state = _state(type, cr, observed, findings)
    status: Object = {
        "pgPhase": "up" if state.available else "Failed" if state.broken else "pending",
        "observedGeneration": int(meta.get("generation", 0)),
        "conditions": _conditions(cr, observed, findings, state),
    }
    if state.available and state.pod is not None:
        status["active"] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": state.pod["metadata"]["namespace"],
            "name": state.pod["metadata"]["name"],
            "uid": state.pod["metadata"]["uid"],
        }
    said = (state.answer.facts.get("version") if state.answer else None) or known.get("version")
    if said:
        status["version"] = said
    identifier = identity.shown(cr, observed, state.answer)
    if identifier:
        status["systemIdentifier"] = identifier
    if state.pending:
        status["pendingRestart"] = state.pending
    image = (pending.image(cr, observed) if state.available else None) or known.get("image")
    if image:
        status["image"] = image[:LONGEST_IMAGE]
    binding = Ref(SECRET, meta["namespace"], secrets.binding_name(cr))
    if known.get("binding") or (state.ready and binding in observed.children):
        status["binding"] = {"name": secrets.binding_name(cr)}
    return Report(status=status, outcome=_outcome(cr, observed, findings, state))


def _state(type: ResourceType, cr: Object, observed: Observed, findings: Findings) -> _State:
    pod = observation.the_pod(cr, observed)
    up = pod is not None and pods.pod_ready(pod)
    answer = version.judged(cr, findings.answer)
    good = answer is not None and answer.ok
    # Nothing newly asked, as while an edit is taken up: what was last known of a ready Pod still holds.
    was_available = find(cr.get("status") or {}, "Available").get("status") == "True"
    serves = login.lets_in(answer) if answer is not None else was_available
    fault = _fault(type, cr, pod, answer, observed, findings, was_available=was_available)
    if fault is None or fault.reason != identity.REASON:
        answer = identity.judged(answer)
    return _State(
        pod=pod,
        answer=answer,
        fault=fault,
        ready=findings.settled and fault is None and good,
        available=up and serves,
        pending=_pending(cr, answer, pod if up else None),
        update=pending.pending(cr, observed),
    )


def _pending(cr: Object, answer: Answer | None, up: Object | None) -> list[str]:
    """What the server said; while it cannot be asked, what it said before, as long as it is that Pod."""
    if answer is not None:
        return [str(name) for name in answer.facts.get("pending_restart") or ()][:PENDING_MOST]
    known = cr.get("status") or {}
    replaced = up is not None and up["metadata"]["uid"] != (known.get("active") or {}).get("uid")
    if replaced or known.get("observedGeneration") != cr["metadata"].get("generation"):
        return []
    return list(known.get("pendingRestart") or ())


def _conditions(cr: Object, observed: Observed, findings: Findings, state: _State) -> list[Object]:
    generation = int(cr["metadata"].get("generation", 0))
    reason, message = _why(cr, findings, state)
    conditions = standard(
        ready=state.ready,
        available=state.available,
        broken=state.broken,
        reason=reason,
        message=message,
        serving="The server takes logins.",
        generation=generation,
    )

    def say(type: str, truth: bool, reason: str, message: str) -> None:
        item = condition(type, truth, reason=reason, message=message, generation=generation)
        others = [other["type"] for other in conditions]
        where = others.index(type) if type in others else len(others)
        conditions[where : where + 1] = [item]

    growing = volume.growing(cr, observed)
    if findings.paused:
        say("Progressing", False, "Paused", "Nothing is changed while spec.paused is true.")
    elif state.ready and growing:
        say("Progressing", True, "Resizing", growing)
    larger = volume.larger(cr, observed)
    if larger:
        say("VolumeLarger", True, "CannotShrink", larger)
    if password.is_plain(cr):
        say(
            "PlaintextPassword",
            True,
            "PasswordInSpec",
            "spec.password can be read by whoever may read this resource; name a Secret in "
            "spec.passwordSecretRef, or leave both out, and a password is made in Secret "
            f"{secrets.binding_name(cr)}.",
        )
    if state.update is not None:
        say(pending.TYPE, True, state.update.reason, state.update.message)
    if findings.paused:
        say(
            "Paused",
            True,
            "Paused",
            "spec.paused is true: it is observed only; set it to false to have it kept true.",
        )
    return conditions


def _why(cr: Object, findings: Findings, state: _State) -> tuple[str, str]:
    """Ready's reason and message."""
    if state.ready and state.answer is not None and state.answer.reason:
        return state.answer.reason, state.answer.message
    if state.ready:
        return "LoginSucceeded", "The default user can log in through the Service."
    if state.fault is not None:
        return state.fault.reason, state.fault.message
    if findings.paused and not findings.settled:
        return "Paused", (
            "What is there differs from the spec, and spec.paused keeps it so: set spec.paused to false "
            "to have it made so."
        )
    if state.answer is not None and state.answer.reason in _NO_FAULT:
        return state.answer.reason, state.answer.message
    if state.pending:
        return "RestartPending", f"The server is restarted for {', '.join(state.pending)}; wait."
    return "Reconciling", (
        f"PostgreSQL is being set up; wait, or look at Pod {pod_name(cr)} (`kubectl describe`)."
    )


def _fault(
    type: ResourceType,
    cr: Object,
    pod: Object | None,
    answer: Answer | None,
    observed: Observed,
    findings: Findings,
    *,
    was_available: bool,
) -> Problem | None:
    elsewhere = findings.problem is not None and findings.problem.reason != "Refused"
    grave = (
        None if elsewhere else deletion.deleting(cr, observed) or identity.lost(type, cr, observed, answer)
    )
    if grave is not None:
        return grave
    if findings.problem is not None:
        hint = volume.way_back(cr, observed) if findings.problem.reason == "Refused" else None
        message = " ".join(filter(None, (findings.problem.message, hint)))
        return progress.still(replace(findings.problem, message=message), cr, observed)
    if not findings.settled or (answer is not None and answer.ok):
        return None
    fault = _trouble(cr, pod, answer, observed, was_available=was_available)
    if fault is not None or (answer is not None and answer.reason == "Paused"):
        return fault
    known = observation.recovering(pod, observed) if pod is not None else None
    return progress.held_up(cr, observation.way(cr, observed), observed, known=known)


def _trouble(
    cr: Object, pod: Object | None, answer: Answer | None, observed: Observed, *, was_available: bool
) -> Problem | None:
    if pod is None:
        return None
    if identity.initialised_nothing(cr, observed):
        return None  # it may begin empty now
    if not pods.pod_ready(pod):
        return disk.trouble(cr, pod) or pods.trouble(pod, now=observed.now)
    if answer is None or answer.reason in (*_NO_FAULT, identity.REASON):
        return None
    # Once it was told, or had served, it is no matter of its start.
    known = was_available or find(cr.get("status") or {}, "Ready").get("reason") == "NotResponding"
    patient = answer.reason == "LoginFailed" or (answer.reason == "NotResponding" and not known)
    if patient and _ready_seconds(pod, observed) < LOGIN_PATIENCE_SECONDS:
        return None
    if answer.reason == disk.REASON:
        return disk.problem(cr, said=answer.message)
    return Problem(reason=answer.reason, message=answer.message)


def _ready_seconds(pod: Object, observed: Observed) -> float:
    moment = pods.pod_condition(pod, "Ready").get("lastTransitionTime")
    return pods.seconds_since(moment, now=observed.now)


def _outcome(cr: Object, observed: Observed, findings: Findings, state: _State) -> Outcome:
    if state.ready:
        opens = state.update.opens if state.update is not None else None
        return pods.when_time_tells([(opens - observed.now).total_seconds()] if opens else [])
    if state.fault is not None and state.fault.reason == deletion.REASON:
        return Done()
    if state.fault is not None and state.fault.reason in _FOR_AN_EDIT:
        return Invalid(state.fault.reason)
    if findings.problem is not None:
        return After(5.0 if findings.problem.passing else 30.0)
    if state.pod is not None and pods.pod_ready(state.pod) and state.answer is not None:
        return After(0.5 if _ready_seconds(state.pod, observed) < LOGIN_PATIENCE_SECONDS else 10.0)
    found = [state.pod] if state.pod is not None else []
    if not findings.settled or any(map(pods.pod_ready, found)):
        return After(pods.PATIENCE_SECONDS)
    deadline = progress.patience(cr, observation.way(cr, observed), observed, fault=state.fault)
    starts = [since for pod in found if (since := observation.starting_since(pod)) is not None]
    starting = [observation.START_SECONDS - pods.seconds_since(since, now=observed.now) for since in starts]
    return pods.when_time_tells([*deadline, *starting, *pods.patience(found, now=observed.now)])


def warnings(cr: Object, observed: Observed) -> list[Ref]:
    """Whose words the status needs: of what no other reason tells."""
    pod = observation.the_pod(cr, observed)
    if pod is not None and (pods.pod_ready(pod) or pods.trouble(pod, now=observed.now) is not None):
        return []
    return progress.asks(cr, observation.way(cr, observed), observed)
