"""What a deleted PulsarConsumer does before it goes, with `deletionPolicy: Unsubscribe`: its consumers stop,
and the broker deletes the subscriptions that they had, with what waits in them.

In that order: a consumer that runs would make its subscription again.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kindling.kinds import pods, reasons
from kindling.kinds.base import ExternalAction, ExternalResult, Observed, Problem
from kindling.kinds.pulsarconsumer.backlog import Admin, admin
from kindling.kinds.pulsarconsumer.spec import token_of
from kindling.kinds.pulsarconsumer.workload import workload_ref
from kindling.kube.resources import Object, ResourceType

FINALIZER = "kindling.dev/subscriptions"
FIELD = "subscriptions"
"""Of the status: the subscriptions that consumers of this resource were started for, the newest first."""
DURABLE = (FIELD,)
MOST = 10
"""Entries of FIELD."""
EVERY_SECONDS = 5.0
KEEP = "To keep the subscription and let this resource go, set spec.deletionPolicy to Retain."


@dataclass(frozen=True, kw_only=True)
class UnsubscribeRequest:
    """Have the broker's admin API delete a subscription of a topic, which need not exist."""

    namespace: str
    host: str
    port: int
    pod: str = ""
    topic: str
    subscription: str
    token: str = field(default="", repr=False)


def is_wanted(cr: Object) -> bool:
    spec = cr.get("spec") or {}
    return spec.get("deletionPolicy") == "Unsubscribe" and bool(spec.get("adminURL"))


def record(cr: Object) -> Mapping[str, Any]:
    """The decision that precedes a consumer: whose subscription is to be deleted one day.

    So what no consumer of this resource ever had stays, whatever the spec says when it is deleted.
    """
    if "deletionTimestamp" in cr["metadata"]:
        return {}
    known = _recorded(cr)
    if not is_wanted(cr):
        return {FIELD: None} if known else {}
    spec = cr.get("spec") or {}
    entry = {"topic": spec.get("topic"), "subscription": spec.get("subscriptionName")}
    return {} if entry in known else {FIELD: [entry, *known][:MOST]}


def is_done(cr: Object, observed: Observed) -> bool:
    return not is_wanted(cr) or all(
        result is not None and result.ok for result in _results(cr, observed, admin(cr, observed))
    )


def actions(type: ResourceType, cr: Object, observed: Observed) -> list[ExternalAction]:
    """What the broker is to do now: nothing while a consumer runs."""
    found = admin(cr, observed)
    if not is_wanted(cr) or found is None or not _are_stopped(type, cr, observed):
        return []
    namespace = cr["metadata"]["namespace"]
    return [
        ExternalAction(
            name="unsubscribe",
            member=_member(index),
            cache_key=_key(found, entry),
            request=UnsubscribeRequest(
                namespace=namespace,
                host=found.host,
                port=found.port,
                topic=str(entry.get("topic", "")),
                subscription=str(entry.get("subscription", "")),
                token=found.token,
            ),
        )
        for index, entry in enumerate(_recorded(cr))
        if not _is_ok(observed.result(_member(index), _key(found, entry)))
    ]


def problem(type: ResourceType, cr: Object, observed: Observed) -> Problem:
    """Why it is not gone yet."""
    found = admin(cr, observed)
    if found is None:
        secret = (token := token_of(cr)) and token.secret
        return Problem(
            reason=reasons.SECRET_NOT_FOUND,
            message=f"Secret {secret!r} of spec.auth.tokenSecretRef, which is needed to delete the "
            f"subscription, is not there or has no such key: create it. {KEEP}",
        )
    if not _are_stopped(type, cr, observed):
        return Problem(
            reason=reasons.UNSUBSCRIBING,
            message="The consumers stop; then the broker deletes their subscription. Wait.",
            transient=True,
        )
    for result in _results(cr, observed, found):
        if result is not None and not result.ok:
            hangs = result.reason == reasons.NOT_RESPONDING
            reason = reasons.ADMIN_UNREACHABLE if hangs else result.reason
            return Problem(reason=reason, message=f"{result.message} {KEEP}")
    return Problem(
        reason=reasons.UNSUBSCRIBING, message="The broker deletes the subscription. Wait.", transient=True
    )


def _recorded(cr: Object) -> Sequence[Object]:
    found: Sequence[Object] = (cr.get("status") or {}).get(FIELD) or ()
    return found


def _are_stopped(type: ResourceType, cr: Object, observed: Observed) -> bool:
    """By its Deployment's word too: the Pods are watched apart, and may be seen later."""
    found = observed.objects.get(workload_ref(cr)) or {}
    meta, said = found.get("metadata") or {}, found.get("status") or {}
    scaled_down = not found or (
        said.get("observedGeneration", 0) >= meta.get("generation", 0) and not said.get("replicas")
    )
    return scaled_down and not pods.running_of(type, cr, observed)


def _results(cr: Object, observed: Observed, found: Admin | None) -> list[ExternalResult | None]:
    """Of each subscription; None where there is no answer yet."""
    if found is None:
        return [None for _ in _recorded(cr)]
    return [observed.result(_member(index), _key(found, entry)) for index, entry in enumerate(_recorded(cr))]


def _is_ok(result: ExternalResult | None) -> bool:
    return result is not None and result.ok


def _member(index: int) -> str:
    return f"subscription-{index}"


def _key(found: Admin, entry: Object) -> Hashable:
    return found.host, found.port, found.version, entry.get("topic"), entry.get("subscription")
