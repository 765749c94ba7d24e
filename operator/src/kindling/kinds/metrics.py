"""What a kind reports of each of its resources to Prometheus: numbers, read from the stored resource.

A kind lists them in `Kind.metrics`; the engine keeps the values and prints them (`engine.resource_metrics`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple

from kindling.engine.quantity import quantity
from kindling.kube.resources import Object

Reader = Callable[[Object], float | None]

_DURATION = re.compile(r"([0-9]{1,15})([smh])")
_SECONDS = {"s": 1, "m": 60, "h": 3600}


class ResourceMetric(NamedTuple):
    """A gauge with one value for each resource of a kind.

    `help` says what it measures, `investigate` when to look closer. `read` is pure and total over what the
    CRD admits; where it returns None, the resource has no series of this metric.
    """

    name: str
    help: str
    investigate: str
    read: Reader


def unix_time(value: object) -> float | None:
    """A time in Kubernetes' format, as seconds since 1970."""
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return found.timestamp() if found is not None and found.tzinfo is not None else None


def seconds(value: object) -> float | None:
    """A duration of one unit, `90s`, `5m` or `2h`, in seconds."""
    found = _DURATION.fullmatch(value) if isinstance(value, str) else None
    return None if found is None else float(int(found[1]) * _SECONDS[found[2]])


def status_time(*path: str) -> Reader:
    """Reads a time of the status."""
    return lambda cr: unix_time(_status(cr, path))


def status_duration(*path: str) -> Reader:
    """Reads a duration of the status."""
    return lambda cr: seconds(_status(cr, path))


def _status(cr: Object, path: Sequence[str]) -> object:
    found: object = cr.get("status") or {}
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found


def status_quantity(*path: str) -> Reader:
    """Reads a number, or a quantity such as `10Gi`, of the status."""

    def read(cr: Object) -> float | None:
        try:
            return float(quantity(_status(cr, path)))
        except ValueError:
            return None

    return read


def status_condition(type: str) -> Reader:
    """Reads a condition: 1 for True, 0 for False, no value for Unknown and where there is none."""

    def read(cr: Object) -> float | None:
        for item in (cr.get("status") or {}).get("conditions") or ():
            if item.get("type") == type:
                return {"True": 1.0, "False": 0.0}.get(str(item.get("status")))
        return None

    return read
