"""What the data takes: asked of the server every few minutes, and the forecast that is made of the answers.

The status is all the memory there is: the last figure with its time, and how fast it grew. So a restart of
the operator forgets nothing, and a figure is written only once it says something else.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import NamedTuple
from zlib import crc32

from kindling.engine.quantity import quantity
from kindling.kinds import reasons
from kindling.kinds.amounts import LARGEST
from kindling.kinds.base import CachedResult, Notice, Observed, Probe
from kindling.kinds.conditions import rfc3339
from kindling.kinds.incidents import is_news
from kindling.kinds.postgresql import auto_grow, volume
from kindling.kinds.postgresql.hibernation import is_to_stop
from kindling.kinds.postgresql.login import Login, SuperuserRequest, superuser
from kindling.kinds.postgresql.observation import find_pod
from kindling.kinds.times import moment
from kindling.kube.resources import Object

MEMBER, USED, CRASHED = "usage", "used_bytes", "crashed_at"
EVERY_SECONDS, NEAR_SECONDS = 300, 60
"""How often the server is asked, and how often where the volume may grow soon."""
FRESH_SECONDS = 2.0 * EVERY_SECONDS
"""How long an answer is good enough to grow a volume for."""
MOST = LARGEST

STEP_PERCENT = 1
"""Of the capacity: a figure that differs by less from the one in the status is not written."""
WHILE_GROWING, AT_LATEST = timedelta(hours=1), timedelta(hours=24)
"""After so long it is written all the same: the first while there is growth, which may have ended."""
MEMORY_HOURS = 6.0
"""What happened so many hours ago counts for a third of what happens now."""
LEAST_HISTORY = timedelta(hours=1)
FARTHEST = timedelta(days=90)
"""What would take longer is no growth, and no forecast."""


@dataclass(frozen=True, kw_only=True)
class UsageRequest(SuperuserRequest):
    """The facts of a result are USED, the bytes of all databases, of the log and of temporary files; and
    CRASHED, when the server last ended all sessions because a process of it failed, empty if it has not since
    it was started.
    """


class Figures(NamedTuple):
    """Bytes and their time; how fast they grew, in bytes an hour, and since when that is observed."""

    used: int
    at: datetime
    growth: int
    since: datetime


def probes(cr: Object, server: Login | None, observed: Observed) -> dict[str, Probe]:
    """Of a server that lets us in. The request has the superuser's password, so it is not kept."""
    login = superuser(server, observed)
    if login is None or not is_asked(cr, observed):
        return {}
    request = UsageRequest(**vars(login))
    return {MEMBER: Probe(cache_key=_key(cr, observed.now), request=request, once=True, background=True)}


def measured(cr: Object, observed: Observed) -> tuple[int, datetime] | None:
    """The server's last answer, with its time."""
    known = _answer(cr, observed)
    used = known.result.facts.get(USED) if known is not None else None
    return (used, known.at.replace(microsecond=0)) if known is not None and isinstance(used, int) else None


def fresh(cr: Object, observed: Observed) -> int | None:
    """The bytes that the server has said lately, to decide from."""
    found = measured(cr, observed)
    if found is None or (observed.now - found[1]).total_seconds() > FRESH_SECONDS:
        return None
    return found[0]


def incidents(cr: Object, observed: Observed) -> list[Notice]:
    """That a process of the server failed, as the server itself knows it."""
    known, pod = _answer(cr, observed), find_pod(cr, observed)
    at = known.result.facts.get(CRASHED) if known is not None else None
    if pod is None or not is_news(at, now=observed.now):
        return []
    logs = f"`kubectl logs {pod['metadata']['name']} -c postgres -n {pod['metadata']['namespace']}`"
    note = (
        f"A process of PostgreSQL failed or was killed at {at}, so that all sessions were ended: {logs} says "
        "which one. If that was by signal 9, most likely for its memory: raise the limit in the spec."
    )
    return [Notice(reasons.SERVER_CRASHED, note)]


def status(cr: Object, observed: Observed) -> Object:
    """`status.storage`; nothing without a volume."""
    has = volume.capacity(cr, observed)
    if has is None:
        return {}
    capacity = quantity(has)
    figures = noted((cr.get("status") or {}).get("storage"))
    if (answer := measured(cr, observed)) is not None:
        figures = after(figures, used=answer[0], at=answer[1], capacity=capacity)
    found: Object = {"capacity": has}
    if figures is None:
        return {"storage": found}
    found |= {
        "usedBytes": figures.used,
        "measuredAt": rfc3339(figures.at),
        "growthBytesPerHour": figures.growth,
        "growthSince": rfc3339(figures.since),
    }
    full = None if is_to_stop(cr, observed) else full_at(figures, capacity=capacity)
    return {"storage": found | ({"fullAt": rfc3339(full)} if full is not None else {})}


def noted(storage: object) -> Figures | None:
    """What the status has; None where that is nothing, or no figures of ours."""
    if not isinstance(storage, Mapping):
        return None
    at, since = moment(storage.get("measuredAt")), moment(storage.get("growthSince"))
    used, growth = storage.get("usedBytes"), storage.get("growthBytesPerHour")
    if at is None or since is None or not isinstance(used, int) or not isinstance(growth, int):
        return None
    return Figures(used=used, at=at, growth=growth, since=since)


def after(known: Figures | None, *, used: int, at: datetime, capacity: Decimal) -> Figures:
    """The figures once that is measured; those that are known where it says nothing else."""
    if known is None:
        return Figures(used=used, at=at, growth=0, since=at)
    passed = at - known.at
    small = abs(used - known.used) * 100 < capacity * STEP_PERCENT
    if passed <= timedelta(0) or (small and passed < (WHILE_GROWING if known.growth else AT_LATEST)):
        return known
    hours, before = _hours(passed), max(0.0, _hours(known.at - known.since))
    forgotten = math.exp(-hours / MEMORY_HOURS)
    weight = (1 - math.exp(-before / MEMORY_HOURS)) * forgotten
    growth = (known.growth * weight + (used - known.used) / hours * (1 - forgotten)) / (
        weight + 1 - forgotten
    )
    least = float(capacity) / _hours(FARTHEST)
    rounded = 0 if abs(growth) < least else max(-MOST, min(MOST, round(growth)))
    return Figures(used=used, at=at, growth=rounded, since=min(known.since, known.at))


def full_at(figures: Figures, *, capacity: Decimal) -> datetime | None:
    """When the volume is full if it goes on so; None where it does not grow, or not for long enough."""
    if figures.growth <= 0 or figures.at - figures.since < LEAST_HISTORY:
        return None
    hours = max(0.0, float(capacity - figures.used)) / figures.growth
    if hours > _hours(FARTHEST):
        return None
    return (figures.at + timedelta(hours=hours)).replace(microsecond=0)


def is_asked(cr: Object, observed: Observed) -> bool:
    """Whether the server of this resource has a volume, so that it is asked from time to time."""
    return volume.capacity(cr, observed) is not None


def seconds_left(cr: Object, observed: Observed) -> float:
    """Until the server is asked again."""
    every = _every(cr)
    return every - (observed.now.timestamp() + _offset(cr)) % every


def _answer(cr: Object, observed: Observed) -> CachedResult | None:
    """The last one, if it is of this very resource."""
    known = observed.results.get(MEMBER)
    if known is None or not known.result.ok or not isinstance(known.cache_key, tuple):
        return None
    return known if known.cache_key[:2] == _key(cr, observed.now)[:2] else None


def _every(cr: Object) -> int:
    return NEAR_SECONDS if auto_grow.is_near(cr) else EVERY_SECONDS


def _key(cr: Object, now: datetime) -> tuple[Hashable, ...]:
    every = _every(cr)
    return MEMBER, cr["metadata"].get("uid"), every, int(now.timestamp() + _offset(cr)) // every


def _offset(cr: Object) -> int:
    """So that not all servers are asked in the same second."""
    return crc32(str(cr["metadata"].get("uid")).encode()) % EVERY_SECONDS


def _hours(time: timedelta) -> float:
    return time.total_seconds() / 3600
