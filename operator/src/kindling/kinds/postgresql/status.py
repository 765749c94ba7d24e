"""A Postgresql's status, from what was observed alone: phase, active Pod, binding, conditions.

The reasons of Ready, a closed list: LoginSucceeded; Reconciling (on its way); InvalidSpec,
NameConflict, Terminating, Refused (children); Unschedulable, ImagePullFailed, PodSetupFailed,
Crashing (Pod); LoginFailed, SuperuserLoginFailed (server).
"""

from __future__ import annotations

from kindling.kinds import pods
from kindling.kinds.conditions import condition, find, standard
from kindling.kinds.contract import After, Done, Findings, Invalid, Observed, Outcome, Problem, Report
from kindling.kinds.postgresql import observation, secrets
from kindling.kinds.postgresql.workload import pod_name
from kindling.kube.resources import SECRET, Object, Ref, ResourceType

LOGIN_PATIENCE_SECONDS = 30.0
"""How long after the Pod is ready a login may fail before it is a fault: the Service follows the Pod."""


def report(type: ResourceType, cr: Object, observed: Observed, findings: Findings) -> Report:
    """The whole status. Ready is True only after a login for this generation, with all children settled."""
    meta = cr["metadata"]
    known = cr.get("status") or {}
    pod = observation.the_pod(cr, observed)
    up = pod is not None and pods.pod_ready(pod)
    answer = findings.answer
    ready = findings.settled and findings.problem is None and answer is not None and answer.ok
    fault = _fault(cr, observed, findings)
    # Nothing newly asked, as while an edit is taken up: what was last known of a ready Pod still holds.
    was_available = find(known, "Available").get("status") == "True"
    available = up and (answer.ok if answer is not None else was_available)

    if ready:
        reason, message = "LoginSucceeded", "The default user can log in through the Service."
    elif fault is not None:
        reason, message = fault.reason, fault.message
    else:
        reason = "Reconciling"
        message = f"PostgreSQL is being set up; wait, or look at Pod {pod_name(cr)} (`kubectl describe`)."
    broken = fault is not None and not fault.passing
    generation = int(meta.get("generation", 0))
    conditions = standard(
        ready=ready,
        available=available,
        broken=broken,
        reason=reason,
        message=message,
        serving="The server takes logins.",
        generation=generation,
    )
    if (cr.get("spec") or {}).get("password") is not None:
        conditions.append(
            condition(
                "PlaintextPassword",
                True,
                reason="PasswordInSpec",
                message="spec.password can be read by whoever may read this resource; leave it out, and "
                f"a password is made in Secret {secrets.binding_name(cr)}.",
                generation=generation,
            )
        )
    status: Object = {
        "pgPhase": "up" if available else "Failed" if broken else "pending",
        "observedGeneration": generation,
        "conditions": conditions,
    }
    if available and pod is not None:
        status["active"] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": pod["metadata"]["namespace"],
            "name": pod["metadata"]["name"],
            "uid": pod["metadata"]["uid"],
        }
    binding = Ref(SECRET, meta["namespace"], secrets.binding_name(cr))
    if known.get("binding") or (ready and binding in observed.children):
        status["binding"] = {"name": secrets.binding_name(cr)}
    return Report(status=status, outcome=_outcome(cr, observed, findings, ready=ready))


def _fault(cr: Object, observed: Observed, findings: Findings) -> Problem | None:
    if findings.problem is not None:
        return findings.problem
    pod = observation.the_pod(cr, observed)
    if pod is None or not findings.settled:
        return None
    if not pods.pod_ready(pod):
        return pods.trouble(pod, now=observed.now)
    answer = findings.answer
    if answer is None or answer.ok:
        return None
    if answer.reason == "LoginFailed" and _ready_seconds(pod, observed) < LOGIN_PATIENCE_SECONDS:
        return None
    return Problem(reason=answer.reason, message=answer.message)


def _ready_seconds(pod: Object, observed: Observed) -> float:
    moment = pods.pod_condition(pod, "Ready").get("lastTransitionTime")
    return pods.seconds_since(moment, now=observed.now)


def _outcome(cr: Object, observed: Observed, findings: Findings, *, ready: bool) -> Outcome:
    if ready:
        return Done()
    problem = findings.problem
    if problem is not None:
        if problem.reason == "InvalidSpec":
            return Invalid(problem.reason)
        return After(5.0 if problem.passing else 30.0)
    pod = observation.the_pod(cr, observed)
    if pod is not None and pods.pod_ready(pod) and findings.answer is not None:
        return After(0.5 if _ready_seconds(pod, observed) < LOGIN_PATIENCE_SECONDS else 10.0)
    # Events tell of most changes; what only time changes (a Pod long unschedulable) is looked at again.
    return After(pods.PATIENCE_SECONDS)
