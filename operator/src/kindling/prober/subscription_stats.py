"""What a broker's statistics say of one subscription of one topic."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from kindling.kinds.pulsarconsumer.backlog import (
    CONSUMERS,
    MESSAGES,
    MOST,
    OLDEST,
    PARTITIONS,
    QUIET,
    UNACKNOWLEDGED,
    BacklogRequest,
)


class NoSubscription(Exception):
    """The topic has none of that name."""


def facts_of(stats: Any, request: BacklogRequest, *, now: float) -> dict[str, Any]:
    subscription = stats["subscriptions"].get(request.subscription)
    if subscription is None:
        raise NoSubscription
    consumers = list(subscription["consumers"])
    # Milliseconds, 0 where nothing was acknowledged yet. A partitioned topic's sum has no connectedSince.
    acknowledged = max(_number(found["lastAckedTimestamp"]) for found in (subscription, *consumers))
    connected = min((_since(found.get("connectedSince"), now=now) for found in consumers), default=now)
    return {
        MESSAGES: _number(subscription["msgBacklog"]),
        UNACKNOWLEDGED: _number(subscription["unackedMessages"]),
        CONSUMERS: len(consumers),
        PARTITIONS: _partitions(stats),
        # Milliseconds; 0 or less where nothing waits, and not there before Pulsar 2.10.
        OLDEST: _number(subscription.get("earliestMsgPublishTimeInBacklog")),
        QUIET: bool(consumers) and max(acknowledged / 1000, connected) <= now - request.quiet_seconds,
    }


def _partitions(stats: Any) -> int:
    """0 where the answer names none, as that of a topic without them."""
    found = stats.get("metadata") if isinstance(stats, dict) else None
    return _number(found.get("partitions")) if isinstance(found, dict) else 0


def _number(value: Any) -> int:
    return min(MOST, max(0, value)) if isinstance(value, int) else 0


def _since(text: Any, *, now: float) -> float:
    """Now, where it cannot be read: then nothing is called quiet."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except (TypeError, ValueError, OverflowError):
        return now
