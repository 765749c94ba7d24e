"""What `spec.storage.autoGrow` asks for, and how near the data is to that. Pure, of the resource alone."""

from __future__ import annotations

from dataclasses import dataclass

from kindling.engine.quantity import quantity
from kindling.kinds.postgresql.spec import is_ephemeral
from kindling.kube.resources import Object

THRESHOLD, INCREMENT = 80, "20%"
NEAR_PERCENT = 20
"""So much of the volume below the threshold the next growth may be soon."""


@dataclass(frozen=True, kw_only=True)
class AutoGrow:
    threshold: int
    increment: str
    most: str


def read(cr: Object) -> AutoGrow | None:
    """None without the field, and where there is no volume to grow."""
    given = ((cr.get("spec") or {}).get("storage") or {}).get("autoGrow")
    if not given or is_ephemeral(cr):
        return None
    return AutoGrow(
        threshold=int(given.get("threshold") or THRESHOLD),
        increment=str(given.get("increment") or INCREMENT),
        most=str(given["maxSize"]),
    )


def is_near(cr: Object) -> bool:
    """Whether the last figures of the status are close to the threshold, or past it."""
    wanted, storage = read(cr), (cr.get("status") or {}).get("storage") or {}
    used, capacity = storage.get("usedBytes"), storage.get("capacity")
    if wanted is None or not isinstance(used, int) or capacity is None:
        return False
    return bool(used * 100 >= quantity(capacity) * (wanted.threshold - NEAR_PERCENT))
