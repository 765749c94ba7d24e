"""Requests and limits of a container, as a spec gives them beside a kind's defaults; and coarse figures."""

from __future__ import annotations

from kindling.engine.quantity import quantity
from kindling.kube.resources import Object

LARGEST = 2**53 - 1
"""Of any figure in a status: what every reader of JSON reads as it is written."""


def merged(given: Object | None, *, cpu: str, memory: str, memory_limit: str) -> Object:
    """`spec.resources` beside the defaults: cpu's request, memory's request and limit.

    A default never contradicts what is given: the limit is at least the request, and cpu that is limited is
    requested as Kubernetes does it by itself.
    """
    requests = dict((given or {}).get("requests") or {})
    limits = dict((given or {}).get("limits") or {})
    if "cpu" not in requests and "cpu" not in limits:
        requests["cpu"] = cpu
    limits.setdefault("memory", max(memory_limit, requests.get("memory", memory_limit), key=quantity))
    requests.setdefault("memory", min(memory, limits["memory"], key=quantity))
    return {"requests": requests, "limits": limits}


def rounded(count: int) -> int:
    """Its first two digits, for each other value is a write: 1,234,567 is 1,200,000."""
    unit: int = 10 ** max(0, len(str(count)) - 2)
    return count // unit * unit
