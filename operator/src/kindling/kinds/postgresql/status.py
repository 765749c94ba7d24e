"""A Postgresql's status, from what was observed alone: phase, active Pod, binding, version, conditions.

The reasons of Ready, a closed list: LoginSucceeded; Reconciling, RestartPending (on their way);
Paused; InvalidSpec, VersionConflict, VersionUnavailable, SecretNotFound, InvalidPassword (the spec and
what it refers to); NameConflict, Terminating, Refused (children); Unschedulable, ImagePullFailed,
PodSetupFailed, Crashing (Pod); LoginFailed, SuperuserLoginFailed, InvalidParameter, VersionMismatch
(server). Progressing has Resizing besides, PlaintextPassword has PasswordInSpec.
"""

from __future__ import annotations

from dataclasses import dataclass

from kindling.kinds import pods
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
from kindling.kinds.postgresql import observation, password, secrets, version, volume
from kindling.kinds.postgresql.workload import pod_name
from kindling.kube.resources import SECRET, Object, Ref, ResourceType

LOGIN_PATIENCE_SECONDS = 30.0
"""How long after the Pod is ready a login may fail before it is a fault: the Service follows the Pod."""

PENDING_MOST = 64
"""How many names status.pendingRestart holds; more tell nothing more."""

# What only an edit can mend, and what is no fault though the answer is not good.
_FOR_AN_EDIT = frozenset(
    {"InvalidSpec", "VersionConflict", "VersionUnavailable", "VersionMismatch", "InvalidParameter"}
)
_NO_FAULT = frozenset({"RestartPending", "Paused"})


@dataclass(frozen=True, kw_only=True)
class _State:
    """What a pass found, boiled down to what the status says."""

    pod: Object | None
    answer: Answer | None
    fault: Problem | None
    ready: bool
    available: bool
    pending: list[str]

    @property
    def broken(self) -> bool:
        return self.fault is not None and not self.fault.passing


def report(type: ResourceType, cr: Object, observed: Observed, findings: Findings) -> Report:
    """The whole status. Ready is True only after a login for this generation, with all children settled."""
    meta, known = cr["metadata"], cr.get("status") or {}
    state = _state(cr, observed, findings)
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
    if state.pending:
        status["pendingRestart"] = state.pending
    binding = Ref(SECRET, meta["namespace"], secrets.binding_name(cr))
    if known.get("binding") or (state.ready and binding in observed.children):
        status["binding"] = {"name": secrets.binding_name(cr)}
    return Report(status=status, outcome=_outcome(observed, findings, state))


def _state(cr: Object, observed: Observed, findings: Findings) -> _State:
    pod = observation.the_pod(cr, observed)
    up = pod is not None and pods.pod_ready(pod)
    answer = version.judged(cr, findings.answer)
    good = answer is not None and answer.ok
    # Nothing newly asked, as while an edit is taken up: what was last known of a ready Pod still holds.
    was_available = find(cr.get("status") or {}, "Available").get("status") == "True"
    serves = (good or bool(answer.facts.get("login"))) if answer is not None else was_available
    return _State(
        pod=pod,
        answer=answer,
        fault=_fault(pod, answer, observed, findings),
        ready=findings.settled and findings.problem is None and good,
        available=up and serves,
        pending=_pending(cr, answer, pod if up else None),
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
    if password.is_plain(cr):
        say(
            "PlaintextPassword",
            True,
            "PasswordInSpec",
            "spec.password can be read by whoever may read this resource; name a Secret in "
            "spec.passwordSecretRef, or leave both out, and a password is made in Secret "
            f"{secrets.binding_name(cr)}.",
        )
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
    pod: Object | None, answer: Answer | None, observed: Observed, findings: Findings
) -> Problem | None:
    if findings.problem is not None:
        return findings.problem
    if pod is None or not findings.settled:
        return None
    if not pods.pod_ready(pod):
        return pods.trouble(pod, now=observed.now)
    if answer is None or answer.ok or answer.reason in _NO_FAULT:
        return None
    if answer.reason == "LoginFailed" and _ready_seconds(pod, observed) < LOGIN_PATIENCE_SECONDS:
        return None
    return Problem(reason=answer.reason, message=answer.message)


def _ready_seconds(pod: Object, observed: Observed) -> float:
    moment = pods.pod_condition(pod, "Ready").get("lastTransitionTime")
    return pods.seconds_since(moment, now=observed.now)


def _outcome(observed: Observed, findings: Findings, state: _State) -> Outcome:
    if state.ready:
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
    return pods.when_time_tells(pods.patience(found, now=observed.now))
