"""Setting the subscription to another moment, `spec.replay`: once for each value, by the broker's admin API.

Of several topics one after the other, each on record before the next.

Only once every consumer is one of this spec: a handler that was fixed by the same edit is to get the
messages, not the one before it. An operator that ends between the broker's answer and the record of it
has it done again, so messages come once more: each comes at least once anyway.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from kindling.kinds import reasons
from kindling.kinds.base import ExternalAction, ExternalResult, Observed, Problem
from kindling.kinds.conditions import condition, rfc3339
from kindling.kinds.pulsarconsumer import topics
from kindling.kinds.pulsarconsumer.backlog import SubscriptionRequest, admin, reason_of
from kindling.kinds.pulsarconsumer.workload import workload_ref
from kindling.kinds.rollout import rollout
from kindling.kinds.times import moment
from kindling.kube.resources import Object

FIELD = "replay"
"""Of the status, durable; the field of the spec has the same name."""
TOPIC = "topic"
"""Of FIELD: the last topic that is done, while others are to come."""
MEMBER = "replay"
CONDITION = "Replayed"
EVERY_SECONDS = 10.0
RECORD_SECONDS = 0.5
"""After the broker's answer, until it is on record."""


@dataclass(frozen=True, kw_only=True)
class ReplayRequest(SubscriptionRequest):
    """Have the subscription begin with the first message that was published at `milliseconds` (Unix time) or
    later.
    """

    milliseconds: int


def validate(cr: Object) -> Problem | None:
    wanted = _wanted(cr)
    if wanted is None or moment(wanted) is not None:
        return None
    return Problem(
        reason=reasons.INVALID_SPEC,
        message=f"spec.replay.from {wanted!r} is no moment: write it with its time zone, as in "
        "2026-11-24T06:45:00Z.",
    )


def decide(cr: Object, observed: Observed) -> Mapping[str, Any]:
    """The record that it is done; gone with the field, so the same moment later is another replay."""
    wanted, known = _wanted(cr), _known(cr)
    if wanted is None:
        return {FIELD: None} if known else {}
    if _is_done(cr):
        return {}
    result = _result(cr, observed)
    if result is None or not result.ok:
        return {}
    names, pending = topics.read(cr).names, _pending(cr)
    more = {TOPIC: pending} if pending != names[-1] else {}
    return {FIELD: {"from": wanted, "at": rfc3339(observed.now), **more}}


def external_actions(cr: Object, observed: Observed) -> list[ExternalAction]:
    if _is_done(cr) or not _are_connected(cr, observed):
        return []
    action, result = _action(cr, observed), _result(cr, observed)
    return [action] if action is not None and (result is None or not result.ok) else []


def report(cr: Object, observed: Observed) -> Object | None:
    """The condition; None where nothing is to be replayed."""
    wanted, known = _wanted(cr), _known(cr)
    if wanted is None:
        return None
    generation = int(cr["metadata"].get("generation", 0))
    subscription = (cr.get("spec") or {}).get("subscriptionName")
    result, truth = _result(cr, observed), False
    if known.get("from") == wanted and TOPIC not in known:
        truth, reason = True, reasons.CURSOR_RESET
        message = (
            f"At {known.get('at')} the broker had subscription {subscription!r} begin again with what was "
            f"published from {wanted} on. For another replay, set spec.replay.from to another moment."
        )
    elif result is not None and not result.ok:
        state = "Nothing is replayed yet."
        if known.get("from") == wanted:
            state = f"Topic {_pending(cr)!r} is not replayed yet, others are."
        reason, message = reason_of(result), f"{state} {result.message}"
    else:
        reason = reasons.RECONCILING
        message = "The broker is asked for it once all consumers are connected, and of this spec; wait."
    return condition(CONDITION, truth, reason=reason, message=message, generation=generation)


def check_after(cr: Object, observed: Observed) -> float | None:
    """Seconds until it is retried, or recorded."""
    if _is_done(cr) or not _are_connected(cr, observed):
        return None
    result = _result(cr, observed)
    return RECORD_SECONDS if result is not None and result.ok else EVERY_SECONDS


def _wanted(cr: Object) -> str | None:
    found = ((cr.get("spec") or {}).get(FIELD) or {}).get("from")
    return None if found is None else str(found)


def _known(cr: Object) -> Object:
    found: Object = (cr.get("status") or {}).get(FIELD) or {}
    return found


def _is_done(cr: Object) -> bool:
    wanted = _wanted(cr)
    known = _known(cr)
    done = known.get("from") == wanted and TOPIC not in known
    return wanted is None or done or "deletionTimestamp" in cr["metadata"]


def _pending(cr: Object) -> str:
    """The topic that is next. The spec names one at least."""
    names, known = topics.read(cr).names, _known(cr)
    last = known.get(TOPIC) if known.get("from") == _wanted(cr) else None
    after = names.index(last) + 1 if last in names else 0
    return names[min(after, len(names) - 1)]


def _are_connected(cr: Object, observed: Observed) -> bool:
    return rollout(observed.objects.get(workload_ref(cr))).complete


def _action(cr: Object, observed: Observed) -> ExternalAction | None:
    """None where the broker cannot be asked."""
    found, since, spec = admin(cr, observed), moment(_wanted(cr)), cr.get("spec") or {}
    if found is None or since is None or not topics.read(cr).names:
        return None
    request = ReplayRequest(
        namespace=cr["metadata"]["namespace"],
        topic=_pending(cr),
        subscription=str(spec.get("subscriptionName", "")),
        milliseconds=max(0, int(since.timestamp() * 1000)),
        **found.request(),
    )
    key: Hashable = (*found.asked, request.topic, request.subscription, request.milliseconds)
    return ExternalAction(name="replay", member=MEMBER, cache_key=key, request=request)


def _result(cr: Object, observed: Observed) -> ExternalResult | None:
    action = _action(cr, observed)
    return observed.result(MEMBER, action.cache_key) if action is not None else None
