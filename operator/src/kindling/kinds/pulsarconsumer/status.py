"""A PulsarConsumer's status, from what was observed alone: what is consumed, by how many, how well."""

from __future__ import annotations

from kindling.kinds import pods, reasons
from kindling.kinds import progress as progressing
from kindling.kinds.base import (
    Done,
    Observed,
    Problem,
    RequeueAfter,
    Result,
    StatusReport,
    SyncResult,
    Terminal,
)
from kindling.kinds.conditions import standard_conditions
from kindling.kinds.metadata import selector_text
from kindling.kinds.pulsarconsumer import ambassador, autoscaling, backlog, calls, replay, topics
from kindling.kinds.pulsarconsumer.spec import server_of
from kindling.kinds.pulsarconsumer.workload import CONTAINER, workload_name, workload_ref
from kindling.kinds.rollout import refused, rollout
from kindling.kinds.times import seconds_since
from kindling.kube.resources import Object, Ref, ResourceType

CONNECT_GRACE_SECONDS = 15.0
"""How long a consumer may run unconnected before we say so."""
ENDING_SECONDS = 3.0
"""How long one that was connected may be unready first: one that ends is, before its end is known."""

NEXT_STEPS = {
    reasons.AUTHENTICATION_FAILED: "Put what the broker accepts into the Secret that spec.auth or spec.tls "
    "names.",
    reasons.CERTIFICATE_REJECTED: "Put the certificates of the broker's authority into the Secret of "
    "spec.tls.caSecretRef, and have spec.serverAddress name a host that is in the broker's certificate.",
    reasons.ISSUER_UNREACHABLE: "See that the issuer of spec.auth.oauth2.issuerURL runs, that the "
    "namespace may reach it, and that its certificate is of the system's authorities or of "
    "spec.tls.caSecretRef, or fix the address.",
    reasons.NOT_AUTHORIZED: "Grant the bearer of spec.auth the right to consume the topic, or use other "
    "credentials.",
    reasons.TOPIC_NOT_FOUND: "Create the topic, its namespace or tenant on the broker, or fix spec.topic "
    "or spec.topics.",
    reasons.INVALID_TOPIC: "Fix spec.topic, spec.topics or spec.topicsPattern: NAME, or "
    "persistent://TENANT/NAMESPACE/NAME.",
    reasons.INVALID_ADDRESS: "Fix spec.serverAddress: pulsar://HOST:PORT, with a name or IPv4 address.",
    reasons.SUBSCRIPTION_BUSY: "Stop the other consumers of the subscription, who hold it alone or with "
    "another type, or fix spec.subscriptionName or spec.subscriptionType.",
    reasons.INCOMPATIBLE_SCHEMA: "See what schema the broker has for the topic (`pulsar-admin schemas get "
    "TOPIC`): fix spec.schema, or have the namespace allow the change. Topics of spec.output and "
    "spec.deadLetter must take messages without a schema.",
    reasons.INVALID_SETTING: "Fix the setting that the consumer names.",
    reasons.HANDLER_FAILING: "Fix the handler, or what it uses: the consumer's log has each failure.",
    reasons.POISON_MESSAGE: calls.STEP,
    reasons.HANDLER_UNAVAILABLE: "Fix what spec.handler names: the code in the ConfigMap, the service at "
    "the URL, or the container's program; consumers that run go on.",
}
"""What to do about each reason that a consumer may leave in its termination message, `REASON: WORDS`."""

_FOR_AN_EDIT = frozenset({reasons.INVALID_TOPIC, reasons.INVALID_ADDRESS})
_LONGEST_NOTE = 500


def report(
    type: ResourceType, cr: Object, observed: Observed, sync: SyncResult, *, local_broker: str
) -> StatusReport:
    """The whole status. Ready is True once all consumers, of this generation alone, are connected, and no
    message is known that their handler does not get past.
    """
    meta, spec, known = cr["metadata"], cr.get("spec") or {}, cr.get("status") or {}
    deployment = _deployment(cr, observed)
    progress = rollout(deployment)
    found = pods.pods_of(type, cr, observed)
    settled = sync.in_sync and sync.problem is None
    ready = settled and progress.complete and all(pods.pod_ready(pod) for pod in found)
    called = calls.read(type, cr, observed)
    fault = progressing.escalated(sync.problem, cr, observed) if sync.problem is not None else None
    if ready and called.problem is not None:
        ready, fault = False, called.problem
    elif settled and not ready:
        fault = _fault(cr, deployment, found, observed, local_broker=local_broker)
        fault = fault or called.problem
        fault = fault or progressing.blocker(cr, pod_progress(type, cr, observed), observed)

    waiting = backlog.read(cr, observed)
    if ready and not progress.wanted:
        reason = reasons.SCALED_TO_ZERO
        message = _none_wanted(cr, waiting)
    elif ready:
        reason, message = reasons.CONNECTED, "All consumers are connected to the broker."
    elif fault is not None:
        reason, message = fault.reason, fault.message
    else:
        reason = reasons.RECONCILING
        message = (
            f"The consumers are being set up; wait, or look at Deployment {workload_name(cr)} "
            "(`kubectl describe`)."
        )
    generation = int(meta.get("generation", 0))
    status: Object = {
        "selector": selector_text(type, cr),
        "observedGeneration": generation,
        "conditions": standard_conditions(
            ready=ready,
            # As the Deployment counts, which sees a Pod a moment later: one write, not two.
            available=progress.available > 0,
            broken=fault is not None and not fault.transient,
            reason=reason,
            message=message,
            serving="At least one consumer is connected to the broker.",
            generation=generation,
        ),
    }
    if waiting.condition is not None:
        status["conditions"].append(waiting.condition)
    if (replayed := replay.report(cr, observed)) is not None:
        status["conditions"].append(replayed)
    if waiting.figures is not None:
        status["backlog"] = waiting.figures
    if called.figures is not None:
        status[calls.FIELD] = called.figures
    # Held back, the consumers go on with their last settings.
    settings: Object = {
        "server": spec.get("serverAddress"),
        "topic": topics.read(cr).label or None,
        "subscription": spec.get("subscriptionName"),
    }
    if sync.problem is not None:
        settings = {field: known.get(field) for field in settings}
    status |= {field: value for field, value in settings.items() if value is not None}
    # Pods that come and go on the way are not worth a write each: counted when there is news.
    news = ready or fault is not None or "replicas" not in known
    status["replicas"] = progress.total if news else known["replicas"]
    # Of a Pod that is being replaced it is an earlier spec that was wrong.
    if fault is not None and fault.reason in _FOR_AN_EDIT and progress.updated == progress.total:
        return StatusReport(status=status, result=Terminal(fault.reason))
    result = _outcome(type, cr, observed, sync, fault, ready=ready)
    for seconds in (
        waiting.check_after,
        called.check_after,
        autoscaling.check_after(cr, observed),
        replay.check_after(cr, observed),
    ):
        result = pods.sooner(result, seconds)
    return StatusReport(status=status, result=result)


def _none_wanted(cr: Object, waiting: backlog.Backlog) -> str:
    name = (cr.get("spec") or {}).get("subscriptionName")
    if autoscaling.read(cr) is not None:
        starts = "spec.autoscaling starts some within about a minute of the first message"
        if waiting.figures is None:
            return (
                f"No consumer runs, and what waits for subscription {name!r} is not known: see the condition "
                f"BacklogMoving. Once it is, {starts}."
            )
        return f"No message waits for subscription {name!r}, so no consumer is wanted: {starts}."
    return (
        f"No consumer is wanted, and the broker keeps every message for subscription {name!r} meanwhile: "
        "set spec.replicas to have some."
    )


def warnings(type: ResourceType, cr: Object, observed: Observed, *, local_broker: str) -> list[Ref]:
    """The objects whose Warning Events the status needs: those that no other reason explains."""
    found = pods.pods_of(type, cr, observed)
    if _fault(cr, _deployment(cr, observed), found, observed, local_broker=local_broker) is not None:
        return []
    return progressing.warnings_needed(cr, pod_progress(type, cr, observed), observed)


def pod_progress(type: ResourceType, cr: Object, observed: Observed) -> progressing.PodProgress:
    return progressing.PodProgress(
        workload=workload_ref(cr),
        observed_by_controller=False,  # what keeps it from making Pods, it says itself
        wanted=autoscaling.replicas(cr),
        pods=pods.pods_of(type, cr, observed),
    )


def _deployment(cr: Object, observed: Observed) -> Object | None:
    """The Deployment, if it is this resource's."""
    found = observed.objects.get(workload_ref(cr))
    owners = ((found or {}).get("metadata") or {}).get("ownerReferences") or ()
    return found if any(owner.get("uid") == cr["metadata"]["uid"] for owner in owners) else None


def _fault(
    cr: Object, deployment: Object | None, found: list[Object], observed: Observed, *, local_broker: str
) -> Problem | None:
    """What keeps the consumers from being connected: what they say themselves goes first."""
    unready = [pod for pod in found if not pods.pod_ready(pod) and not pods.node_unreachable(pod)]
    for pod in unready:
        if said := _termination_problem(pod):
            return said
    for pod in unready:
        if problem := pods.pod_problem(pod, now=observed.now, placed_by=cr):
            return problem
    if any((_unconnected_seconds(pod, observed) or 0.0) >= CONNECT_GRACE_SECONDS for pod in unready):
        return Problem(reason=reasons.BROKER_UNREACHABLE, message=_unreachable(cr, local_broker=local_broker))
    return refused(deployment)


def _termination_problem(pod: Object) -> Problem | None:
    """Why the consumer ended, last time or now, in its own words; as long as it is not connected again."""
    for item in (pod.get("status") or {}).get("containerStatuses") or ():
        for state in (item.get("state"), item.get("lastState")):
            message = str(((state or {}).get("terminated") or {}).get("message") or "")
            note = " ".join(message[:_LONGEST_NOTE].split()).rstrip(".")
            reason = note.partition(":")[0]
            if item.get("name") == CONTAINER and reason in NEXT_STEPS:
                return Problem(reason=reason, message=f"{NEXT_STEPS[reason]} The consumer says: {note}.")
    return None


def _unconnected_seconds(pod: Object, observed: Observed) -> float | None:
    """For how long its consumer has run unready; None where it is ready, and another container is not.

    One that was connected until now is called unconnected after `ENDING_SECONDS`.
    """
    unready = pods.pod_condition(pod, "Ready").get("lastTransitionTime")
    for item in (pod.get("status") or {}).get("containerStatuses") or ():
        running = (item.get("state") or {}).get("running")
        if item.get("name") == CONTAINER and running and not item.get("ready"):
            seconds = seconds_since(running.get("startedAt"), now=observed.now)
            spared = CONNECT_GRACE_SECONDS - ENDING_SECONDS
            return min(seconds, seconds_since(unready, now=observed.now) + spared) if unready else seconds
    return None


def _unreachable(cr: Object, *, local_broker: str) -> str:
    server, where = server_of(cr), f"deployment/{workload_name(cr)} -n {cr['metadata']['namespace']}"
    if not ambassador.loopbacks(server):
        return (
            f"No broker answers at {server}: see that it runs and can be reached from this namespace, or "
            f"fix spec.serverAddress (`kubectl logs {where}` says more)."
        )
    if ambassador.needed(server, local_broker=local_broker):
        return (
            f"No broker answers at {local_broker}, to which {server} leads here: see that it runs "
            f"(`kubectl logs {where}` says more)."
        )
    return (
        f"In a Pod, {server} is the Pod itself, where no broker is: set spec.serverAddress to the broker's "
        "Service, pulsar://SERVICE.NAMESPACE:6650."
    )


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
        return RequeueAfter(CONNECT_GRACE_SECONDS)
    # That a consumer has run unconnected for long is also known by a deadline only.
    found = pods.pods_of(type, cr, observed)
    running = (_unconnected_seconds(pod, observed) for pod in found if not pods.pod_ready(pod))
    unconnected = [CONNECT_GRACE_SECONDS - seconds for seconds in running if seconds is not None]
    deadline = progressing.deadlines(cr, pod_progress(type, cr, observed), observed, fault=fault)
    return pods.requeue_at_deadline([*unconnected, *deadline, *pods.deadlines(found, now=observed.now)])
