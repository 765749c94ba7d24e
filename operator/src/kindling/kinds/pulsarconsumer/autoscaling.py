"""How many consumers there are, where `spec.autoscaling` has the backlog decide: what is kept on record.

Up at once, down only after the backlog has asked for fewer for a while, and then to the most that it asked
for meanwhile. While the broker does not say what waits, there are as many as before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kindling.kinds import reasons
from kindling.kinds.base import ExternalResult, Observed
from kindling.kinds.conditions import rfc3339
from kindling.kinds.pulsarconsumer import backlog
from kindling.kinds.times import seconds_since
from kindling.kube.resources import Object

FIELD = "autoscaling"
"""Of the status, durable; the field of the spec has the same name."""
DEFAULT_WINDOW = 300
_NOT_MADE = frozenset({reasons.SUBSCRIPTION_NOT_FOUND, reasons.TOPIC_NOT_FOUND})
"""The first consumer that connects makes the subscription: without one, no message would ever wait for it."""


@dataclass(frozen=True, kw_only=True)
class Autoscaling:
    """The spec's bounds, `target` messages for each consumer, `window` in seconds."""

    least: int
    most: int
    target: int
    window: int


def read(cr: Object) -> Autoscaling | None:
    given = (cr.get("spec") or {}).get(FIELD)
    if not given:
        return None
    return Autoscaling(
        least=int(given.get("min") or 0),
        most=int(given["max"]),
        target=int(given["targetBacklog"]),
        window=int(given.get("stabilizationWindowSeconds", DEFAULT_WINDOW)),
    )


def replicas(cr: Object) -> int:
    """How many consumers are wanted: what was decided last, else what the spec begins with."""
    given, spec = read(cr), int((cr.get("spec") or {}).get("replicas") or 0)
    if given is None:
        return spec
    return _within(given, int(_known(cr).get("replicas", spec)))


def decide(cr: Object, observed: Observed) -> Mapping[str, Any]:
    """The new value of the field, where it changes; None removes it.

    With another number the resource is not Ready any more, by the same write: its consumers follow.
    """
    given, known = read(cr), _known(cr)
    if "deletionTimestamp" in cr["metadata"]:
        return {}
    if given is None:
        return {FIELD: None} if known else {}
    current = replicas(cr)
    decided = _decided(cr, observed, given, known, current=current)
    if decided == known:
        return {}
    other = bool(known) and decided["replicas"] != known["replicas"]
    return {FIELD: decided, **(_unready(cr, observed) if other else {})}


def _unready(cr: Object, observed: Observed) -> dict[str, Any]:
    conditions = (cr.get("status") or {}).get("conditions") or []
    follow = {
        "status": "False",
        "reason": reasons.RECONCILING,
        "message": "The backlog asks for another number of consumers; wait.",
        "lastTransitionTime": rfc3339(observed.now),
    }
    if not any(item["type"] == "Ready" and item["status"] == "True" for item in conditions):
        return {}
    return {"conditions": [item | follow if item["type"] == "Ready" else item for item in conditions]}


def check_after(cr: Object, observed: Observed) -> float | None:
    """Seconds until fewer are enough, if the broker says so until then."""
    given, known = read(cr), _known(cr)
    if given is None or "lowerSince" not in known:
        return None
    return max(0.5, given.window - seconds_since(known["lowerSince"], now=observed.now))


def _decided(
    cr: Object, observed: Observed, given: Autoscaling, known: Object, *, current: int
) -> dict[str, Any]:
    scaled = {"replicas": current, "lastScaleTime": known.get("lastScaleTime") or rfc3339(observed.now)}
    if known.get("replicas", current) != current:  # other bounds
        scaled["lastScaleTime"] = rfc3339(observed.now)
    answer = backlog.answer(cr, observed)
    wanted = _wanted(cr, given, answer)
    if wanted is None:
        # The window is one in which fewer were asked for all the time; a new operator has not asked yet.
        same = answer is None and scaled["replicas"] == known.get("replicas")
        return {**scaled, **_lower(known)} if same else scaled
    if wanted > current:
        stuck = (backlog.read(cr, observed).condition or {}).get("reason") == reasons.BACKLOG_STUCK
        return scaled if stuck else {"replicas": wanted, "lastScaleTime": rfc3339(observed.now)}
    if wanted == current:
        return scaled
    since = known.get("lowerSince") or rfc3339(observed.now)
    most = max(wanted, int(known.get("lowerReplicas", wanted)))
    if seconds_since(since, now=observed.now) >= given.window:
        return {"replicas": most, "lastScaleTime": rfc3339(observed.now)}
    return {**scaled, "lowerSince": since, "lowerReplicas": most}


def _wanted(cr: Object, given: Autoscaling, answer: ExternalResult | None) -> int | None:
    """How many the backlog asks for; None where that is not known."""
    if answer is None:
        return None
    if not answer.ok:
        return _within(given, max(1, given.least)) if answer.reason in _NOT_MADE else None
    waiting = int(answer.facts.get(backlog.MESSAGES, 0))
    wanted = -(-waiting // given.target)
    if (cr.get("spec") or {}).get("subscriptionType") == "Failover":
        # Of more consumers than partitions, some would have nothing to do.
        wanted = min(wanted, max(1, int(answer.facts.get(backlog.PARTITIONS, 0))))
    if answer.facts.get(backlog.MISSING):
        wanted = max(1, wanted)
    return _within(given, wanted)


def _lower(known: Object) -> Object:
    return {name: known[name] for name in ("lowerSince", "lowerReplicas") if name in known}


def _within(given: Autoscaling, wanted: int) -> int:
    return min(given.most, max(given.least, wanted))


def _known(cr: Object) -> Object:
    found: Object = (cr.get("status") or {}).get(FIELD) or {}
    return found
