"""One subscription of several topics: what is asked or done of each, and what that makes together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from kindling.kinds import reasons
from kindling.kinds.base import ExternalResult
from kindling.kinds.pulsarconsumer import topics
from kindling.kinds.pulsarconsumer.backlog import (
    CONSUMERS,
    MESSAGES,
    MISSING,
    MOST,
    OLDEST,
    PARTITIONS,
    QUIET,
    TOPICS,
    UNACKNOWLEDGED,
)
from kindling.prober import sessions
from kindling.prober.admin_api import AdminClient

_LIST = "/admin/v2/persistent/{0}/{1}"
_NOT_MADE = (reasons.SUBSCRIPTION_NOT_FOUND, reasons.TOPIC_NOT_FOUND)


def matching(admin: AdminClient, pattern: str) -> list[str]:
    """The topics of the namespace that match.

    :raises Rejected: (and FAILURES) for what is no answer.
    """
    answer = orjson.loads(admin.ask(_LIST.format(*topics.namespace_of(pattern))))
    if not isinstance(answer, list):
        raise TypeError("no list")
    return topics.matching(pattern, (name for name in answer if isinstance(name, str)))


def of_each(names: Sequence[str], ask: Callable[[str], ExternalResult]) -> ExternalResult:
    """The sums of what is asked of each topic; a topic or a subscription that is not made yet has nothing."""
    found: list[Mapping[str, Any]] = []
    missing: dict[str, ExternalResult] = {}
    for name in names:
        # Each topic has the time that one topic has.
        sessions.stage(sessions.LOGIN)
        result = ask(name)
        if result.ok:
            found.append(result.facts)
        elif result.reason in _NOT_MADE:
            missing[result.reason] = missing.get(result.reason, result)
        else:
            return result
    if not found:
        return next(missing[reason] for reason in _NOT_MADE if reason in missing)
    return ExternalResult(ok=True, facts=_together(found, missing=len(names) - len(found)))


def each(names: Sequence[str], do: Callable[[str], ExternalResult]) -> ExternalResult:
    """Until one has failed."""
    for name in names:
        sessions.stage(sessions.LOGIN)
        if not (result := do(name)).ok:
            return result
    return ExternalResult(ok=True)


def _together(found: Sequence[Mapping[str, Any]], *, missing: int) -> dict[str, Any]:
    def total(name: str, *, least: int = 0) -> int:
        return min(MOST, sum(max(least, int(facts[name])) for facts in found))

    return {
        MESSAGES: total(MESSAGES),
        UNACKNOWLEDGED: total(UNACKNOWLEDGED),
        CONSUMERS: min(int(facts[CONSUMERS]) for facts in found),
        PARTITIONS: total(PARTITIONS, least=1),
        OLDEST: min((facts[OLDEST] for facts in found if facts[OLDEST]), default=0),
        QUIET: all(facts[QUIET] for facts in found),
        TOPICS: len(found),
        MISSING: missing,
    }
