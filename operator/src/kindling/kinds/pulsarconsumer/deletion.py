"""What a deleted PulsarConsumer does before it goes, with `deletionPolicy: Unsubscribe`: its consumers stop,
and the broker deletes the subscriptions that they had, with what waits in them.

In that order: a consumer that runs would make its subscription again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kindling.kinds import pods, reasons
from kindling.kinds.base import ExternalAction, Observed, Problem
from kindling.kinds.pulsarconsumer import access, topics
from kindling.kinds.pulsarconsumer.backlog import Admin, SubscriptionRequest, admin, reason_of
from kindling.kinds.pulsarconsumer.workload import workload_ref
from kindling.kube.resources import Object, ResourceType

FINALIZER = "kindling.dev/subscriptions"
FIELD = "subscriptions"
"""Of the status: the subscriptions that consumers of this resource were started for, the newest first."""
TOPICS_PATTERN = "topicsPattern"
"""Of an entry, in place of `topic`."""
DURABLE = (FIELD,)
MOST = 200
"""Entries of FIELD."""
EVERY_SECONDS = 5.0
KEEP = "To keep the subscription and let this resource go, set spec.deletionPolicy to Retain."


class UnsubscribeRequest(SubscriptionRequest):
    """Delete the subscription, which need not exist: of `topic`, or of each that matches `pattern`."""


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
    read = topics.read(cr)
    wanted = [{TOPICS_PATTERN: read.pattern}] if read.pattern else [{"topic": name} for name in read.names]
    entries = [{**each, "subscription": spec.get("subscriptionName")} for each in wanted]
    new = [entry for entry in entries if entry not in known]
    # What is read now is not pushed out by what was read once.
    earlier = [entry for entry in known if entry not in entries]
    return {FIELD: [*entries, *earlier][:MOST]} if new else {}


def is_done(cr: Object, observed: Observed) -> bool:
    if not is_wanted(cr) or not _recorded(cr):
        return True
    found = admin(cr, observed)
    return found is not None and not _due(cr, observed, found)


def actions(type: ResourceType, cr: Object, observed: Observed) -> list[ExternalAction]:
    """What the broker is to do now: nothing while a consumer runs."""
    found = admin(cr, observed)
    if not is_wanted(cr) or found is None or not _are_stopped(type, cr, observed):
        return []
    return _due(cr, observed, found)


def problem(type: ResourceType, cr: Object, observed: Observed) -> Problem:
    """Why it is not gone yet."""
    found = admin(cr, observed)
    if found is None:
        lacking = access.missing(cr, observed)
        secret, field = (lacking[0].secret, lacking[0].field) if lacking else ("", "auth")
        return Problem(
            reason=reasons.SECRET_NOT_FOUND,
            message=f"Secret {secret!r} of spec.{field}, which is needed to delete the "
            f"subscription, is not there or has no such key: create it. {KEEP}",
        )
    if not _are_stopped(type, cr, observed):
        return Problem(
            reason=reasons.UNSUBSCRIBING,
            message="The consumers stop; then the broker deletes their subscription. Wait.",
            transient=True,
        )
    for action in _due(cr, observed, found):
        if (result := observed.result(action.member, action.cache_key)) is not None:
            return Problem(reason=reason_of(result), message=f"{result.message} {KEEP}")
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
        (said.get("observedGeneration") or 0) >= (meta.get("generation") or 0) and not said.get("replicas")
    )
    return scaled_down and not pods.running_of(type, cr, observed)


def _due(cr: Object, observed: Observed, found: Admin) -> list[ExternalAction]:
    """One for each subscription that is not known to be deleted."""
    due = []
    for index, entry in enumerate(_recorded(cr)):
        request = UnsubscribeRequest(
            namespace=cr["metadata"]["namespace"],
            topic=str(entry.get("topic", "")),
            pattern=str(entry.get(TOPICS_PATTERN, "")),
            subscription=str(entry.get("subscription", "")),
            **found.request(),
        )
        member = f"subscription-{index}"
        said = *found.asked, request.topic, request.pattern, request.subscription
        known = observed.result(member, said)
        if known is None or not known.ok:
            due.append(ExternalAction(name="unsubscribe", member=member, cache_key=said, request=request))
    return due
