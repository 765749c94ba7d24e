"""How the calls of the handler went of late, by the consumers' own word: `status.handler`.

Every Pod is asked once a minute, in the background. The word is of a program that runs users' code, so it is
read strictly. The figures move all the time: they are written once a minute at most, and only where one has
moved by more than a tenth.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kindling.kinds import pods, reasons
from kindling.kinds.amounts import LARGEST, rounded
from kindling.kinds.base import Child, ExternalResult, Observed, Probe, Problem
from kindling.kinds.conditions import rfc3339
from kindling.kinds.http import HttpRequest, answered
from kindling.kinds.network import from_operator, policy
from kindling.kinds.pulsarconsumer.handler import handler_of
from kindling.kinds.pulsarconsumer.workload import CONTAINER, HEALTH_PORT, workload_name
from kindling.kinds.times import seconds_since
from kindling.kube.resources import Object, ResourceType

PATH = "/handler"
FIELD = "handler"
"""Of the status; that of the spec has the same name."""
CALLS, FAILURES, P99 = FIGURES = "calls", "failures", "p99Milliseconds"
"""Of status.handler; those of an answer have the same names."""
POISON = "poisonMessages"
CHANGED = "lastChangedTime"
EVERY_SECONDS = 60.0
"""Between two writes of figures."""
MOST_ASKED = 100
MOST_LISTED = 10
_SHAPES = {
    "id": re.compile(r"[0-9:-]{3,100}"),
    "topic": re.compile(r"[!-~]{1,255}"),
    "error": re.compile(r"[ -~]{1,64}"),
    "since": re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z"),
}
"""Of a poison message; a topic may have other letters, and is left out then."""
_OPTIONAL = frozenset({"topic", "error"})


def network(type: ResourceType, cr: Object, *, operator_namespace: str) -> Child:
    """The NetworkPolicy: the operator alone may ask consumers that have a handler, and nobody others."""
    name = workload_name(cr)
    if not handler_of(cr):
        # Outwards all is open: a broker sends its clients on to addresses not known beforehand.
        return policy(type, cr, name=name, allow_egress=True)
    return from_operator(type, cr, name=name, port=HEALTH_PORT, operator_namespace=operator_namespace)


def probes(type: ResourceType, cr: Object, observed: Observed) -> dict[str, Probe]:
    """By the Pod's name; of a container that has started again at once."""
    if not handler_of(cr) or "deletionTimestamp" in cr["metadata"]:
        return {}
    made: dict[str, Probe] = {}
    for pod in pods.pods_of(type, cr, observed):
        host, started = pods.address(pod), _started(pod)
        if not host or not started or len(made) >= MOST_ASKED:
            continue
        meta = pod["metadata"]
        made[meta["name"]] = Probe(
            cache_key=("handler", meta.get("uid"), host, started),
            request=HttpRequest(
                namespace=meta["namespace"], host=host, port=HEALTH_PORT, pod=meta["name"], path=PATH
            ),
            background=True,
        )
    return made


@dataclass(frozen=True, kw_only=True)
class Calls:
    """`figures` is status.handler. `check_after`: seconds until figures that moved are written."""

    figures: Object | None = None
    check_after: float | None = None

    @property
    def problem(self) -> Problem | None:
        """A message that fails while others are handled, the oldest of them."""
        found = (self.figures or {}).get(POISON)
        if not found:
            return None
        first = found[0]
        where = f" of {first['topic']}" if "topic" in first else ""
        error = f" with {first['error']}" if "error" in first else ""
        more = f" (and {len(found) - 1} more: status.handler.{POISON})" if len(found) > 1 else ""
        return Problem(
            reason=reasons.POISON_MESSAGE,
            message=f"{STEP} Message {first['id']}{where} has failed{error} since {first['since']}, and "
            f"others have been handled since{more}.",
        )


STEP = (
    "Set spec.deadLetter.topic, where a message goes that has failed spec.retry.maxDeliveries times, or fix "
    "the handler for this one: the consumer's log has each failure, and its previous log (--previous) the "
    "last lines of a process that ended."
)
"""What to do about a poison message."""


def read(type: ResourceType, cr: Object, observed: Observed) -> Calls:
    """What was said last stays until every consumer has answered or failed to: then a new leader, or a new
    Pod, does not make it go and come back.
    """
    asked = probes(type, cr, observed)
    known: Object | None = (cr.get("status") or {}).get(FIELD) if asked else None
    results = [observed.result(name, probe.cache_key) for name, probe in asked.items()]
    if not results or any(result is None for result in results):
        return Calls(figures=known)
    said = [found for result in results if result is not None and (found := _read(result)) is not None]
    if not said:
        return Calls()
    made = _figures(said)
    poison = sorted(
        (each for found in said for each in found[POISON]), key=lambda each: (each["since"], each["id"])
    )
    listed = {POISON: poison[:MOST_LISTED]} if poison else {}
    if known is None:
        return Calls(figures={**made, CHANGED: rfc3339(observed.now), **listed})
    before = {name: value for name, value in known.items() if name != POISON}
    if _alike(before, made):
        return Calls(figures={**before, **listed})
    left = EVERY_SECONDS - seconds_since(before.get(CHANGED), now=observed.now)
    if left > 0:
        return Calls(figures={**before, **listed}, check_after=max(1.0, left))
    return Calls(figures={**made, CHANGED: rfc3339(observed.now), **listed})


def _figures(said: Sequence[Object]) -> Object:
    """Sums, and of the percentiles the highest: what is slow in one Pod is not averaged away."""
    made: Object = {"consumers": len(said)}
    made |= {name: rounded(min(LARGEST, sum(found[name] for found in said))) for name in (CALLS, FAILURES)}
    slowest = max((found[P99] for found in said if P99 in found), default=None)
    return made if slowest is None else {**made, P99: rounded(slowest)}


def _alike(before: Object, made: Object) -> bool:
    """Whether no figure has come or gone, or moved by more than a tenth."""
    if before.get("consumers") != made["consumers"]:
        return False
    return all(_near(before.get(name), made.get(name)) for name in FIGURES)


def _near(old: int | None, new: int | None) -> bool:
    if not old or not new:
        return old == new
    return abs(old - new) * 10 <= max(old, new)


def _read(result: ExternalResult) -> Object | None:
    """None where it is no answer of a consumer."""
    if (said := answered(result)) is None:
        return None
    found = {name: said[name] for name in FIGURES if _is_amount(said.get(name))}
    if CALLS not in found or FAILURES not in found:
        return None
    listed = said.get("poison")
    listed = listed[:MOST_LISTED] if isinstance(listed, list) else []
    return {**found, POISON: [each for item in listed if (each := _poison(item)) is not None]}


def _poison(item: Any) -> Object | None:
    given = item if isinstance(item, dict) else {}
    found = {
        name: given[name]
        for name, shape in _SHAPES.items()
        if isinstance(given.get(name), str) and shape.fullmatch(given[name])
    }
    return found if _SHAPES.keys() - found.keys() <= _OPTIONAL else None


def _is_amount(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST


def _started(pod: Object) -> str:
    """When the consumer that runs was started; empty where none runs."""
    for item in (pod.get("status") or {}).get("containerStatuses") or ():
        running = (item.get("state") or {}).get("running")
        if item.get("name") == CONTAINER and running:
            return f"{item.get('restartCount', 0)} {running.get('startedAt', '')}"
    return ""
