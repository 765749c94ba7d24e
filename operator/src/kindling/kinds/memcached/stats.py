"""What each cache says of itself: `stats`, asked of every ready Pod, and the figures made of the answers.

Only what is asked and what is made of it: `kindling.prober` asks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kindling.kinds.amounts import LARGEST, rounded
from kindling.kinds.base import ExternalResult, Observed, Probe
from kindling.kinds.memcached import access, observation
from kindling.kinds.memcached.access import AccessRequest
from kindling.kinds.memcached.observation import Endpoint
from kindling.kinds.memcached.spec import Spec
from kindling.kube.resources import Object, ResourceType

HITS, MISSES, EVICTIONS, ITEMS, BYTES = COUNTERS = (
    "get_hits",
    "get_misses",
    "evictions",
    "curr_items",
    "bytes",
)
"""The lines of `stats` that are read."""
RATIO, READS = "hit_ratio_percent", "reads"
"""The facts of who is asked for the ratio alone."""
ENOUGH_READS = 100
"""Of how many a ratio says something. More are not counted, so that an answer differs only with the ratio."""
MOST = LARGEST
LONGEST_MESSAGE = 1024


@dataclass(frozen=True, kw_only=True)
class StatsRequest(AccessRequest):
    """memcached's `stats`, too. The facts of a result are COUNTERS as well, each a number of 0 to MOST; with
    `ratio` RATIO and READS instead.
    """

    ratio: bool = False


def probes(type: ResourceType, cr: Object, spec: Spec, observed: Observed) -> dict[str, Probe]:
    """By the Pod's name. A container that has restarted counts from 0, so it is asked at once."""
    if not spec.statistics:
        return {}
    made = {}
    for pod, endpoint in observation.ready(type, cr, observed):
        if (asked := probe(cr, observed, pod, endpoint)) is not None:
            made[pod["metadata"]["name"]] = replace(asked, background=True)
    return made


def probe(
    cr: Object, observed: Observed, pod: Object, endpoint: Endpoint, *, ratio: bool = False
) -> Probe | None:
    """For COUNTERS, or RATIO and READS; None for a Pod that cannot be reached now."""
    if (way := access.way(cr, observed, pod)) is None:
        return None
    request = StatsRequest(
        namespace=cr["metadata"]["namespace"],
        host=endpoint.host,
        port=endpoint.port,
        pod=pod["metadata"]["name"],
        ratio=ratio,
        **way,
    )
    return Probe(cache_key=(*observation.cache_key(pod, endpoint), access.way_key(way)), request=request)


def statistics(type: ResourceType, cr: Object, spec: Spec, observed: Observed) -> Object | None:
    """status.statistics; the last one stays until every ready cache has answered or failed to.

    Then a new leader, or a new Pod, does not make it go and come back.
    """
    asked = probes(type, cr, spec, observed)
    if not asked:
        return None
    results = {name: observed.result(name, probe.cache_key) for name, probe in asked.items()}
    if any(result is None for result in results.values()):
        known: Object | None = (cr.get("status") or {}).get("statistics")
        return known
    return _made({name: result for name, result in results.items() if result is not None})


def _made(results: Mapping[str, ExternalResult]) -> Object:
    """`results` by the Pods' names, in their order."""
    said = [result.facts for result in results.values() if result.ok]
    total = {name: min(MOST, sum(facts.get(name, 0) for facts in said)) for name in COUNTERS}
    made: Object = {"servers": len(said)}
    if said:
        made |= {
            "items": rounded(total[ITEMS]),
            "bytes": rounded(total[BYTES]),
            "evictions": rounded(total[EVICTIONS]),
        }
    if gets := total[HITS] + total[MISSES]:
        made["hitRatioPercent"] = 100 * total[HITS] // gets
    failures = [result.message for result in results.values() if not result.ok]
    if failures:
        made["message"] = failures[0][:LONGEST_MESSAGE]
    return made
