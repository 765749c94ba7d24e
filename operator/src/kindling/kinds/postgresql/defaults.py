"""The parameters that follow from the volume and the memory, where spec.parameters does not say otherwise.

PostgreSQL's own defaults know neither: a `max_wal_size` of 1GB fills a volume of 1Gi with the log of one
bulk load, and 128MB of `shared_buffers` are as little for 16Gi of memory as they are much for 256Mi.
"""

from __future__ import annotations

from decimal import Decimal

from kindling.engine.quantity import quantity
from kindling.kinds.base import Observed
from kindling.kinds.postgresql import parameters, spec, volume
from kindling.kube.resources import Object

FROM = {
    "max_wal_size": "the volume's size",
    "shared_buffers": "spec.resources.limits.memory",
    "effective_cache_size": "spec.resources.limits.memory",
    "maintenance_work_mem": "spec.resources.limits.memory",
}
"""What each of them follows from."""

AT_START = frozenset({"shared_buffers"})
"""Those that only a start takes up: none is restarted for them, each next start has them."""

MB = 2**20
WAL_SHARE = Decimal("0.2")
MOST_WAL = 1024 * MB
LEAST_MEMORY = MB
# As far as PostgreSQL counts in pages of 8kB, of buffers and of cache.
MOST_BUFFERS = 2**30 * 8192 - MB
MOST_CACHE = 2**31 * 8192 - MB
MOST_MAINTENANCE = 1024 * MB


def of(cr: Object, observed: Observed) -> dict[str, str]:
    """Those of this resource, without what its spec.parameters say themselves."""
    size = volume.capacity(cr, observed) or spec.size_of(cr)
    memory = (spec.resources_of(cr).get("limits") or {}).get("memory")
    found = derived(size=quantity(size), memory=None if memory is None else quantity(memory))
    given = parameters.read(cr)
    return {name: value for name, value in found.items() if name not in given}


def derived(*, size: Decimal, memory: Decimal | None) -> dict[str, str]:
    """By name; both in bytes. Where memory is not limited, what follows from it is left to PostgreSQL.

    - `max_wal_size`: a fifth of the volume, at least two segments, at most PostgreSQL's own 1GB. A load
      may go beyond it by half while a checkpoint is under way; the rest is for data.
    - `shared_buffers` and `effective_cache_size`: a quarter and three quarters of the memory, as its manual
      advises. What the node caches of the files counts for the container's memory.
    - `maintenance_work_mem`: a sixteenth, at most 1GB, so that the three workers of autovacuum and a command
      that builds an index take a quarter at most together.
    """
    found = {"max_wal_size": _amount(size * WAL_SHARE, least=parameters.LEAST_WAL, most=MOST_WAL)}
    if memory is not None and memory > 0:
        found |= {
            "shared_buffers": _amount(memory / 4, least=LEAST_MEMORY, most=MOST_BUFFERS),
            "effective_cache_size": _amount(memory * 3 / 4, least=LEAST_MEMORY, most=MOST_CACHE),
            "maintenance_work_mem": _amount(memory / 16, least=LEAST_MEMORY, most=MOST_MAINTENANCE),
        }
    return found


def _amount(wanted: Decimal, *, least: int, most: int) -> str:
    return f"{int(min(max(wanted, Decimal(least)), Decimal(most))) // MB}MB"
