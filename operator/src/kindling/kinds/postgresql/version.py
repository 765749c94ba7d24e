"""Which major version of PostgreSQL, and whether the data and the image are of it.

Data of one major version cannot be read by another, so the volume remembers its own: a later
operator whose image is newer leaves older data alone.
"""

from __future__ import annotations

import re
from dataclasses import replace

from kindling.kinds import reasons
from kindling.kinds.base import ExternalResult, Observed, Problem
from kindling.kinds.postgresql import login
from kindling.kinds.postgresql.spec import is_ephemeral
from kindling.kinds.postgresql.volume import VERSION_LABEL, claim_of, volume_ref
from kindling.kube.resources import Object

BUNDLED = "17"
"""What the operator's own image holds (operator/images/postgres)."""


def requested(cr: Object) -> str | None:
    version = (cr.get("spec") or {}).get("version")
    return str(version) if version else None


def data_version(cr: Object, observed: Observed) -> str | None:
    """What the data there is of: as its volume says, or the server that ran on it last."""
    if is_ephemeral(cr):
        return None
    volume = claim_of(cr, observed)
    if volume is None:
        return None
    recorded = (volume["metadata"].get("labels") or {}).get(VERSION_LABEL)
    return recorded or major((cr.get("status") or {}).get("version"))


def version_to_record(cr: Object, observed: Observed) -> str | None:
    """What the volume is to record; None as long as only a foreign image knows it: its server says so at the
    first login.
    """
    if known := data_version(cr, observed) or requested(cr):
        return known
    if not (cr.get("spec") or {}).get("image"):
        return BUNDLED
    said = login.last_result(cr, observed)
    return major(said.facts.get("version")) if said is not None and said.ok else None


def major(version: object) -> str | None:
    """`17` of `17.5`."""
    found = re.match(r"[1-9][0-9]{0,2}", str(version or ""))
    return found[0] if found else None


def validate(cr: Object, observed: Observed) -> Problem | None:
    """Data of another version, or a version that nothing at hand can run."""
    wanted, there = requested(cr), data_version(cr, observed)
    if wanted and there and wanted != there:
        return Problem(
            reason=reasons.VERSION_CONFLICT,
            message=f"spec.version {wanted!r}, but volume {volume_ref(cr).name} holds data of PostgreSQL "
            f"{there}, which no other can read: set it to {there!r}, or dump the data (pg_dump) and "
            "restore it into a new resource.",
        )
    needed = wanted or there
    if needed and needed != BUNDLED and not (cr.get("spec") or {}).get("image"):
        field = f"spec.version {wanted!r}" if wanted else f"The data is of PostgreSQL {there}, which"
        return Problem(
            reason=reasons.VERSION_UNAVAILABLE,
            message=f"{field} is not at hand: the operator's own image is PostgreSQL {BUNDLED}. "
            f"Name an image of PostgreSQL {needed} in spec.image, postgres:{needed} for one.",
        )
    return None


def judged(cr: Object, external: ExternalResult | None) -> ExternalResult | None:
    """The answer, no longer good where the server is of another version than the spec asks."""
    wanted = requested(cr)
    said = external.facts.get("version") if external is not None else None
    if external is None or not external.ok or not wanted or not said or major(said) == wanted:
        return external
    message = (
        f"spec.version {wanted!r}, but the server says it is {said}: name an image of PostgreSQL {wanted} "
        "in spec.image, or fix spec.version."
    )
    return replace(external, ok=False, reason=reasons.VERSION_MISMATCH, message=message)
