"""The volume's growth by itself: what its claim asks for next, as `spec.storage.autoGrow` says.

The claim is all the memory there is. The next size follows from what it asks for and has, so asking twice is
asking once; while it has less than it asks for, nothing more is asked. GROWN notes on it since when it has
what it was last given: a server that failed before that failed for want of the same space.
"""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Decimal

from kindling.engine.quantity import quantity
from kindling.kinds import reasons
from kindling.kinds.base import Observed, Problem
from kindling.kinds.conditions import rfc3339
from kindling.kinds.postgresql import disk, usage, volume
from kindling.kinds.postgresql.auto_grow import AutoGrow, read
from kindling.kinds.postgresql.observation import find_pod
from kindling.kinds.postgresql.spec import is_ephemeral, size_of
from kindling.kube.resources import Object

FIELD, TYPE = "spec.storage.autoGrow", "VolumeAtLimit"
GROWN = "kindling.dev/grown"
"""On the claim: PENDING while it is given more space, then since when it has that."""
PENDING = "pending"
_PERCENT = re.compile(r"([1-9][0-9]{0,2})%")
_MI, _GI = 2**20, 2**30


def validate(cr: Object) -> Problem | None:
    """What the CRD refuses too: data without a volume, and a limit below the size."""
    storage = (cr.get("spec") or {}).get("storage") or {}
    message = None
    if storage.get("autoGrow") and is_ephemeral(cr):
        message = (
            f"{FIELD} cannot be used with spec.storage.ephemeral, which takes no volume: set one of them."
        )
    elif (wanted := read(cr)) is not None and quantity(wanted.most) < quantity(size_of(cr)):
        message = (
            f"{FIELD}.maxSize {wanted.most!r} is less than spec.storage.size {size_of(cr)!r}: raise "
            "it, or lower the size."
        )
    return Problem(reason=reasons.INVALID_SPEC, message=message) if message else None


def size(cr: Object, observed: Observed) -> str:
    """What the claim is to ask for: more than `volume.size_to_ask` if the data needs it and it may."""
    asked, wanted = volume.size_to_ask(cr, observed), read(cr)
    requested, has = volume.sizes(cr, observed)
    if wanted is None or requested is None or has is None or grows(cr, observed):
        return asked
    if quantity(asked) != quantity(requested) or volume.annotations_of(cr, observed).get(GROWN) == PENDING:
        return asked  # the user's own change first; and what was just given is noted first
    return (next_size(wanted, requested=requested, has=has) or asked) if needs(cr, observed) else asked


def note(cr: Object, observed: Observed, *, asked: str) -> str | None:
    """What GROWN is to be; None: it is not to be there."""
    requested, has = volume.sizes(cr, observed)
    if read(cr) is None:
        return None
    known: str | None = volume.annotations_of(cr, observed).get(GROWN)
    if requested is None or has is None:
        return known
    if quantity(has) < quantity(asked):
        return PENDING
    return rfc3339(observed.now) if known == PENDING else known


def grows(cr: Object, observed: Observed) -> bool:
    """Whether the claim has not been given what it asks for."""
    requested, has = volume.sizes(cr, observed)
    return requested is not None and has is not None and quantity(has) < quantity(requested)


def needs(cr: Object, observed: Observed) -> bool:
    """Whether the data takes more than the threshold, or the server has ended because nothing was left."""
    wanted, has = read(cr), volume.sizes(cr, observed)[1]
    if wanted is None or has is None:
        return False
    used = usage.fresh(cr, observed)
    if used is not None and used * 100 >= quantity(has) * wanted.threshold:
        return True
    pod = find_pod(cr, observed)
    began = disk.full_since(cr, pod) if pod is not None else None
    known = volume.annotations_of(cr, observed).get(GROWN) or ""
    return began is not None and began > known


def next_size(wanted: AutoGrow, *, requested: str, has: str) -> str | None:
    """The next step from the larger of the two, in whole Mi; None where that is the limit already."""
    base, most = max(quantity(requested), quantity(has)), quantity(wanted.most)
    if base >= most:
        return None
    percent = _PERCENT.fullmatch(wanted.increment)
    more = base * int(percent[1]) / 100 if percent else quantity(wanted.increment)
    steps = ((base + more) / _MI).to_integral_value(ROUND_CEILING) * _MI
    return wanted.most if steps >= most else _written(steps)


def at_limit(cr: Object, observed: Observed, storage: Object) -> str | None:
    """That it would grow and may not, in words. `storage` is what the status says of it."""
    wanted = read(cr)
    requested, has = volume.sizes(cr, observed)
    if wanted is None or requested is None or has is None or grows(cr, observed):
        return None
    if next_size(wanted, requested=requested, has=has) is not None:
        return None
    full = storage.get("usedBytes", 0) * 100 >= quantity(has) * wanted.threshold
    if not full and not needs(cr, observed):
        return None
    return (
        f"Volume {volume.volume_name(cr)} has {has}, and spec.storage.autoGrow.maxSize is {wanted.most!r}, "
        f"so it does not grow although its data takes more than {wanted.threshold} %: raise maxSize, or "
        "delete data."
    )


def refused(cr: Object, observed: Observed) -> str | None:
    """What to do where the API server refuses the growth, in words; None where none is asked for."""
    asked = size(cr, observed)
    if read(cr) is None or quantity(asked) == quantity(volume.size_to_ask(cr, observed)):
        return None
    return (
        f"{FIELD} has the volume ask for {asked}: if its storage class cannot expand volumes "
        f"(allowVolumeExpansion), remove autoGrow and delete data, or move it to another class."
    )


def _written(size: Decimal) -> str:
    return f"{int(size) // _GI}Gi" if int(size) % _GI == 0 else f"{int(size) // _MI}Mi"
