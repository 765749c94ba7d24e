"""A roll-out of a StatefulSet's caches that keeps the hit ratio: `spec.rollout.minHitRatioPercent`.

The next server is replaced once the others alone would keep the ratio. The StatefulSet's partition holds it:
Pods of smaller numbers stay of the template before. At rest that is all of them, so that a change of the
template replaces none by itself; each step follows from what is observed, and nothing is noted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kindling.kinds import reasons
from kindling.kinds.base import Observed, Probe, Problem
from kindling.kinds.memcached import observation, stats, workloads
from kindling.kinds.memcached.spec import Spec
from kindling.kinds.pods import pod_condition, pod_ready, revision
from kindling.kinds.rollout import rollout
from kindling.kinds.times import seconds_since
from kindling.kube.resources import STATEFUL_SET, Object, ResourceType

MEMBERS = "ratio/"
"""Before the Pod's name, in the name of the member that is asked."""
SETTLED_SECONDS = 60.0
"""How long a server that clients know has few reads before that is all that they want of it."""
UNREADY_SECONDS = 60.0
"""After which a server that does not run is no matter of a moment: a node that is drained, say."""
COARSE = 5


class _Step(NamedTuple):
    """The server whose turn it is, by number, and its Pod; None for one that is being replaced or starts, and
    for those that are all of the present template.
    """

    number: int
    pod: Object | None


def partition(type: ResourceType, cr: Object, spec: Spec, observed: Observed) -> int | None:
    """None where roll-outs are not held."""
    if not _is_asked(spec):
        return None
    found = workloads.find(cr, observed, STATEFUL_SET)
    if found is not None and not rollout(found).current:
        return _present(found, default=spec.size)
    step = _step(type, cr, spec, observed)
    if step is None:
        return spec.size
    return step.number + 1 if _held(type, cr, spec, observed, step) is not None else step.number


def problem(type: ResourceType, cr: Object, spec: Spec, observed: Observed) -> Problem | None:
    """What the roll-out waits for, if that is the hit ratio."""
    step = _step(type, cr, spec, observed)
    return _held(type, cr, spec, observed, step) if step is not None else None


def probes(type: ResourceType, cr: Object, spec: Spec, observed: Observed) -> dict[str, Probe]:
    """Of each ready server, while a roll-out is under way."""
    if _step(type, cr, spec, observed) is None:
        return {}
    made = {}
    for pod, endpoint in observation.ready(type, cr, observed):
        if workloads.ordinal(cr, pod) is None:
            continue
        if (asked := stats.probe(cr, observed, pod, endpoint, ratio=True)) is not None:
            made[f"{MEMBERS}{pod['metadata']['name']}"] = asked
    return made


def deadlines(type: ResourceType, cr: Object, spec: Spec, observed: Observed) -> list[float]:
    """In how many seconds time alone may bring the roll-out forward."""
    if _step(type, cr, spec, observed) is None:
        return []
    pods = workloads.pods(type, cr, observed, STATEFUL_SET)
    due = [
        _settles_in(spec, pod, observed) if pod_ready(pod) else _unready_until(pod, observed) for pod in pods
    ]
    return [seconds for seconds in due if seconds > 0]


def _is_asked(spec: Spec) -> bool:
    return spec.min_hit_ratio is not None and spec.workload == STATEFUL_SET


def _present(stateful_set: Object, *, default: int) -> int:
    """The partition as it is, while the controller has not seen it: whose turn it is, nobody knows yet."""
    strategy = (stateful_set.get("spec") or {}).get("updateStrategy") or {}
    found = (strategy.get("rollingUpdate") or {}).get("partition")
    return int(found) if found is not None else default


def _step(type: ResourceType, cr: Object, spec: Spec, observed: Observed) -> _Step | None:
    """None where no roll-out is under way, and where none is held."""
    found = workloads.find(cr, observed, STATEFUL_SET)
    if not _is_asked(spec) or found is None or not rollout(found).current:
        return None
    status = found.get("status") or {}
    present = status.get("updateRevision")
    mine = _servers(type, cr, spec, observed)
    old = {number for number, pod in mine.items() if revision(pod) != present}
    # A Pod that is missing is made by the template before, until the controller has counted all of them.
    if not old and present == status.get("currentRevision", present):
        return None
    for number in reversed(range(spec.size)):
        pod = mine.get(number)
        if number in old:
            return _Step(number, pod)
        if pod is None or not pod_ready(pod):
            return _Step(number, None)
    return _Step(0, None)


def _servers(type: ResourceType, cr: Object, spec: Spec, observed: Observed) -> dict[int, Object]:
    """The Pods by number, without those that are one too many."""
    pods = {workloads.ordinal(cr, pod): pod for pod in workloads.pods(type, cr, observed, STATEFUL_SET)}
    return {number: pod for number, pod in pods.items() if number is not None and number < spec.size}


def _held(type: ResourceType, cr: Object, spec: Spec, observed: Observed, step: _Step) -> Problem | None:
    """Why it is not the server's turn yet."""
    if step.pod is None or not pod_ready(step.pod) or spec.min_hit_ratio is None:
        return None
    name, bound = str(step.pod["metadata"]["name"]), spec.min_hit_ratio
    others = _servers(type, cr, spec, observed)
    del others[step.number]
    unready = {number: pod for number, pod in others.items() if not pod_ready(pod)}
    if any(number < step.number and _unready_until(pod, observed) <= 0 for number, pod in unready.items()):
        return None  # what is rolled out may be its remedy
    asked = probes(type, cr, spec, observed)
    total, unread = 0, False
    for number, pod in others.items():
        if number in unready:
            continue
        other = str(pod["metadata"]["name"])
        probe = asked.get(f"{MEMBERS}{other}")
        result = observed.result(f"{MEMBERS}{other}", probe.cache_key) if probe is not None else None
        if result is None or not result.ok:
            said = f": {result.message}" if result is not None else "."
            return _waits(f"Pod {name} is replaced once Pod {other} has said its hit ratio{said}")
        ratio = _ratio(result.facts, settled=_settles_in(spec, pod, observed) <= 0)
        unread = unread or ratio is None
        total += ratio or 0
    kept = total // spec.size
    if kept >= bound:
        return None
    few = (
        f" A server with fewer than {stats.ENOUGH_READS} reads counts as empty in its first "
        f"{_settling_seconds(spec):.0f} s."
    )
    return _waits(
        f"Pod {name} is next. Without it about {kept // COARSE * COARSE} of 100 reads would find their item; "
        f"spec.rollout.minHitRatioPercent asks for {bound}. Wait until the servers have their items, or "
        f"lower it.{few if unread else ''}"
    )


def _waits(message: str) -> Problem:
    return Problem(reason=reasons.HIT_RATIO_TOO_LOW, message=message, transient=True)


def _ratio(facts: Mapping[str, Any], *, settled: bool) -> int | None:
    """Of 100 reads; None of so few that they say nothing. A server that nobody reads misses nothing."""
    reads = facts.get(stats.READS, 0)
    if reads < stats.ENOUGH_READS and not settled:
        return None
    return min(100, int(facts.get(stats.RATIO, 0))) if reads else 100


def _settles_in(spec: Spec, pod: Object, observed: Observed) -> float:
    """The seconds until few reads are all that its clients want."""
    return _settling_seconds(spec) - workloads.age(pod, observed)


def _settling_seconds(spec: Spec) -> float:
    """For how long clients that follow a list may not know a server, and then have little time."""
    known = workloads.FILE_SECONDS if spec.binding else 0.0
    return SETTLED_SECONDS + known + (workloads.POLL_SECONDS if spec.discovery else 0.0)


def _unready_until(pod: Object, observed: Observed) -> float:
    """The seconds until it has not been ready for long."""
    moment = pod_condition(pod, "Ready").get("lastTransitionTime")
    return UNREADY_SECONDS - seconds_since(moment, now=observed.now)
